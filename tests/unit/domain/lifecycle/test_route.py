"""The life of a route: an error is not the end of it."""

from __future__ import annotations

import pytest

from sokovan.domain.errors import ForbiddenCause
from sokovan.domain.lifecycle.route import ROUTE, RouteStatus, RouteTrigger
from sokovan.domain.lifecycle.transition_table import Cause
from tests.unit.domain.lifecycle.arrows import arrows, causes, drawn, entrances, limits

# The table of route states, row by row, with the failures it names.
TABLE = drawn("""
    PENDING -> PROVISIONING
    PENDING -> ERROR
    PROVISIONING -> RUNNING
    PROVISIONING -> ERROR
    RUNNING -> RUNNING
    RUNNING -> ERROR
    RUNNING -> TERMINATING
    TERMINATING -> TERMINATED
""")
# Health comes back, and a route can be deleted in any state.
RECOVERY_AND_DELETION = drawn("""
    ERROR -> RUNNING
    PENDING -> TERMINATING
    PROVISIONING -> TERMINATING
    ERROR -> TERMINATING
""")


def test_the_moves_are_those_of_the_table_with_recovery_and_deletion_in_every_state() -> None:
    assert arrows(ROUTE) == TABLE | RECOVERY_AND_DELETION


def test_a_route_can_be_deleted_whatever_state_it_is_in() -> None:
    assert entrances(ROUTE, "terminating") == {"pending", "provisioning", "running", "error"}


def test_a_route_whose_endpoints_recover_serves_again() -> None:
    broken = ROUTE.after(RouteStatus.RUNNING, RouteTrigger.HEALTH_FAILED, by=Cause.COORDINATOR)
    assert ROUTE.after(broken, RouteTrigger.ENDPOINT_HEALTHY, by=Cause.COORDINATOR) is RouteStatus.RUNNING


def test_endpoints_come_and_go_while_the_route_runs() -> None:
    assert ROUTE.after(RouteStatus.RUNNING, RouteTrigger.ENDPOINTS_CHANGED, by=Cause.COORDINATOR) is RouteStatus.RUNNING


def test_an_overdue_route_fails_or_is_forced_away() -> None:
    assert limits(ROUTE) == {
        "pending": (60, "error"),
        "provisioning": (3600, "error"),
        "terminating": (120, "terminated"),
    }
    assert {state.value for state in ROUTE.transient} == {"pending", "provisioning", "terminating"}


@pytest.mark.parametrize(
    ("trigger", "allowed"),
    [
        (RouteTrigger.CONFIGURED, {Cause.COORDINATOR}),
        (RouteTrigger.CONFIGURATION_REFUSED, {Cause.COORDINATOR}),
        (RouteTrigger.ENDPOINT_HEALTHY, {Cause.COORDINATOR}),
        (RouteTrigger.ENDPOINTS_CHANGED, {Cause.COORDINATOR}),
        (RouteTrigger.HEALTH_FAILED, {Cause.COORDINATOR}),
        (RouteTrigger.DELETE_REQUESTED, {Cause.CONTROLLER, Cause.COORDINATOR}),
        (RouteTrigger.CONFIGURATION_REMOVED, {Cause.COORDINATOR}),
        (RouteTrigger.FORCED, {Cause.CONTROLLER, Cause.COORDINATOR}),
    ],
)
def test_each_trigger_is_pulled_by_those_who_can_know(trigger: RouteTrigger, allowed: set[Cause]) -> None:
    assert causes(ROUTE, trigger) == allowed


def test_a_controller_cannot_claim_that_an_endpoint_is_healthy() -> None:
    with pytest.raises(ForbiddenCause):
        ROUTE.after(RouteStatus.PROVISIONING, RouteTrigger.ENDPOINT_HEALTHY, by=Cause.CONTROLLER)
