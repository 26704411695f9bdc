"""Arrays become views."""

from __future__ import annotations

import pytest

from sokovan.api.mapping.arrays import array_status, array_view
from sokovan.domain.ids import ArrayId
from sokovan.domain.lifecycle.session import SessionStatus as Status
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.records import ArrayCounts, ArrayRecord

SWEEP = ArrayRecord(ArrayId("a-1"), "sweep", Owner(user="ada"), "default", "default", "0-3%2", 4, 2, place=7)


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ({Status.PENDING: 4}, Status.PENDING),
        ({Status.PENDING: 3, Status.RUNNING: 1}, Status.RUNNING),
        ({Status.PENDING: 3, Status.TERMINATED: 1}, Status.RUNNING),
        ({Status.CANCELLED: 2, Status.TERMINATED: 2}, Status.TERMINATED),
        ({Status.CANCELLED: 4}, Status.CANCELLED),
    ],
)
def test_the_status_follows_from_the_sessions(statuses: dict[Status, int], expected: Status) -> None:
    assert array_status(ArrayCounts(statuses)) is expected


def test_the_result_is_known_when_all_have_ended() -> None:
    waits = array_view(SWEEP, ArrayCounts({Status.TERMINATED: 3, Status.PENDING: 1}, 2, 1))
    assert (waits.result, waits.counts, waits.limit) == (None, {"pending": 1, "terminated": 3}, 2)
    assert array_view(SWEEP, ArrayCounts({Status.TERMINATED: 4}, 4, 0)).result == "success"
    assert array_view(SWEEP, ArrayCounts({Status.TERMINATED: 4}, 3, 1)).result == "failure"


def test_an_array_that_a_user_ended_is_cancelled_unless_a_session_failed() -> None:
    ended = array_view(SWEEP, ArrayCounts({Status.TERMINATED: 1, Status.CANCELLED: 3}, 1, 0, 3))
    assert (ended.result, ended.succeeded, ended.failed, ended.cancelled) == ("cancelled", 1, 0, 3)
    assert array_view(SWEEP, ArrayCounts({Status.TERMINATED: 4}, 1, 1, 2)).result == "failure"
