"""The life of a replica: it serves, drains before it stops, and never comes back."""

from __future__ import annotations

import pytest

from sokovan.domain.errors import ForbiddenCause
from sokovan.domain.lifecycle.replica import COUNTED, ENDING, REPLICA, ROUTED, ReplicaStatus, ReplicaTrigger
from sokovan.domain.lifecycle.transition_table import Cause
from tests.unit.domain.lifecycle.arrows import arrows, drawn, limits

# The table of replica states, row by row.
TABLE = drawn("""
    PENDING -> STARTING
    STARTING -> WARMING
    WARMING -> ACTIVE
    ACTIVE -> DRAINING
    ACTIVE -> UNHEALTHY
    UNHEALTHY -> ACTIVE
    UNHEALTHY -> STOPPING
    DRAINING -> STOPPING
    STARTING -> FAILED
    WARMING -> FAILED
    STOPPING -> GONE
""")
# One that does not serve yet needs no drain; a kernel may exit at any time; one whose answers fail has failed.
ENDS_EARLY = drawn("""
    PENDING -> FAILED
    PENDING -> GONE
    STARTING -> STOPPING
    WARMING -> STOPPING
    ACTIVE -> FAILED
    UNHEALTHY -> FAILED
    UNHEALTHY -> DRAINING
    DRAINING -> GONE
    DRAINING -> FAILED
""")


def test_the_transitions_are_those_of_the_table_with_early_ends() -> None:
    assert arrows(REPLICA) == TABLE | ENDS_EARLY


def test_waiting_for_room_has_no_deadline_and_serving_neither() -> None:
    assert limits(REPLICA) == {
        "starting": (None, "failed"),
        "warming": (1800, "failed"),
        "unhealthy": (30, "stopping"),
        "draining": (300, "stopping"),
    }


def test_an_active_replica_cannot_be_stopped_without_a_drain() -> None:
    assert ReplicaTrigger.STOP_REQUESTED not in REPLICA.legal_in(ReplicaStatus.ACTIVE)


def test_a_controller_cannot_claim_health() -> None:
    with pytest.raises(ForbiddenCause):
        REPLICA.after(ReplicaStatus.WARMING, ReplicaTrigger.CHECKS_PASSED, by=Cause.CONTROLLER)


def test_a_replica_that_drains_is_routed_and_not_counted() -> None:
    assert ReplicaStatus.DRAINING in ROUTED - COUNTED
    assert not ENDING & (ROUTED | COUNTED)
