"""The life of a deployment: it retries rather than fails, and scaling changes no state."""

from __future__ import annotations

import pytest

from sokovan.domain.errors import ForbiddenCause, IllegalTransition
from sokovan.domain.lifecycle.deployment import DEPLOYMENT, DeploymentStatus, DeploymentTrigger
from sokovan.domain.lifecycle.transition_table import Cause
from tests.unit.domain.lifecycle.arrows import arrows, causes, drawn, limits

# The table of deployment states, row by row.
TABLE = drawn("""
    PENDING -> PROVISIONING
    PROVISIONING -> RUNNING
    RUNNING -> RUNNING
    RUNNING -> DESTROYING
    DESTROYING -> TERMINATED
""")
# A failure stays and retries; a request is accepted in every state.
RETRIES_AND_REQUESTS = drawn("""
    PENDING -> PENDING
    PROVISIONING -> PROVISIONING
    PENDING -> DESTROYING
    PROVISIONING -> DESTROYING
""")
WANTED = [DeploymentStatus.PENDING, DeploymentStatus.PROVISIONING, DeploymentStatus.RUNNING]


def test_the_transitions_are_those_of_the_table_with_retries_and_requests_in_every_state() -> None:
    assert arrows(DEPLOYMENT) == TABLE | RETRIES_AND_REQUESTS


@pytest.mark.parametrize("state", WANTED)
def test_scaling_is_heard_in_every_state_and_changes_none(state: DeploymentStatus) -> None:
    assert DEPLOYMENT.after(state, DeploymentTrigger.SCALE_REQUESTED, by=Cause.CONTROLLER) is state


@pytest.mark.parametrize("state", WANTED)
def test_a_deployment_can_be_deleted_in_every_state(state: DeploymentStatus) -> None:
    assert (
        DEPLOYMENT.after(state, DeploymentTrigger.DELETE_REQUESTED, by=Cause.CONTROLLER) is DeploymentStatus.DESTROYING
    )


def test_what_is_being_destroyed_cannot_be_scaled_back_to_life() -> None:
    with pytest.raises(IllegalTransition):
        DEPLOYMENT.after(DeploymentStatus.DESTROYING, DeploymentTrigger.SCALE_REQUESTED, by=Cause.CONTROLLER)


def test_being_overdue_leads_to_another_try_and_in_the_end_to_force() -> None:
    assert limits(DEPLOYMENT) == {
        "pending": (60, "pending"),
        "provisioning": (7200, "provisioning"),
        "destroying": (900, "terminated"),
    }
    assert {state.value for state in DEPLOYMENT.transient} == {"pending", "provisioning", "destroying"}


@pytest.mark.parametrize(
    ("trigger", "allowed"),
    [
        (DeploymentTrigger.REPLICAS_REQUESTED, {Cause.COORDINATOR}),
        (DeploymentTrigger.REPLICAS_HEALTHY, {Cause.COORDINATOR}),
        (DeploymentTrigger.RETRIED, {Cause.COORDINATOR}),
        (DeploymentTrigger.SCALE_REQUESTED, {Cause.CONTROLLER}),
        (DeploymentTrigger.SCALED, {Cause.COORDINATOR}),
        (DeploymentTrigger.REVISION_ACTIVATED, {Cause.COORDINATOR}),
        (DeploymentTrigger.DELETE_REQUESTED, {Cause.CONTROLLER}),
        (DeploymentTrigger.REPLICAS_GONE, {Cause.COORDINATOR}),
        (DeploymentTrigger.FORCED, {Cause.CONTROLLER, Cause.COORDINATOR}),
    ],
)
def test_each_trigger_is_pulled_by_those_who_can_know(trigger: DeploymentTrigger, allowed: set[Cause]) -> None:
    assert causes(DEPLOYMENT, trigger) == allowed


def test_a_controller_cannot_claim_that_replicas_are_healthy() -> None:
    with pytest.raises(ForbiddenCause):
        DEPLOYMENT.after(DeploymentStatus.PROVISIONING, DeploymentTrigger.REPLICAS_HEALTHY, by=Cause.CONTROLLER)
