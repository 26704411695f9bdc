"""Every row of the lifecycles occurs with real processes, or it is said why not."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tests.acceptance.claims import CLAIMED, ROWS, SERVING_ROWS, Row
from tests.scenario import test_serving_lifecycles

_ONE_BY_ONE = "kernels go from SCHEDULED to PREPARING first, and their session goes with them"
_NOT_BEGUN = "a kernel is created when enough of its session are PREPARED; before that none can exit"
_AT_ONCE = "a session that is PREPARED has no kernel that was asked for, so none that could exit"
_PLACED_AGAIN = "nothing of it was sent to an agent: if that falls silent, the session is placed again"

# These are in the tables for what stores may hold and managers of other versions may have written.
CANNOT_OCCUR = {
    Row("session", "scheduled", "pull_started"): _ONE_BY_ONE,
    Row("session", "scheduled", "kernel_exited"): _NOT_BEGUN,
    Row("session", "preparing", "kernel_exited"): _NOT_BEGUN,
    Row("session", "pulling", "kernel_exited"): _NOT_BEGUN,
    Row("session", "prepared", "kernel_exited"): _AT_ONCE,
    Row("session", "scheduled", "failed"): _PLACED_AGAIN,
    Row("kernel", "scheduled", "failed"): _PLACED_AGAIN,
    Row("session", "prepared", "failed"): _PLACED_AGAIN,
    Row("kernel", "prepared", "failed"): _PLACED_AGAIN,
}
_JOINING = "allocation/test_evictions.py::test_a_kernel_that_joins_a_session_is_evicted_in_any_status"
_BOOKED = "allocation/test_evictions.py::test_a_session_that_is_starting_leaves_for_a_booking_only"
# These need several agents, of which one fails while another runs its kernel of the same session.
SHOWN_IN_SCENARIOS = {
    Row(
        "session", "running", "retry_requested"
    ): "test_failed_starts.py::test_a_session_is_retried_whole_if_its_first_rank_did_not_start",
    Row(
        "kernel", "running", "retry_requested"
    ): "test_failed_starts.py::test_running_kernels_of_a_gang_are_retried_too",
    **{
        Row("kernel", status, "evicted"): _JOINING
        for status in ("scheduled", "preparing", "pulling", "prepared", "creating")
    },
    # A booking's times are given by an administrator, and no start is as slow as to be met on purpose.
    **{
        Row("session", status, "preempted"): _BOOKED
        for status in ("scheduled", "preparing", "pulling", "prepared", "creating")
    },
}


@pytest.fixture(scope="module", autouse=True)
def _claims() -> None:
    """Collect the rows that the tests of this folder claim to show."""
    for file in sorted(Path(__file__).parent.glob("test_*.py")):
        if file != Path(__file__):
            importlib.import_module(f"tests.acceptance.{file.stem}")


def test_every_row_is_shown_by_a_test_or_cannot_occur() -> None:
    assert sorted(ROWS - set(CLAIMED) - set(CANNOT_OCCUR) - set(SHOWN_IN_SCENARIOS)) == []


def test_every_row_of_deployments_and_routes_is_shown_by_a_test() -> None:
    assert sorted(row for row in SERVING_ROWS - set(CLAIMED) if row.table in {"deployment", "route"}) == []


def test_every_row_of_replicas_and_rollouts_is_shown_by_a_test_or_cannot_occur() -> None:
    # What takes minutes, or needs an engine to end in a moment, is shown in virtual time.
    scenarios = {Row(*row) for _, rows in test_serving_lifecycles.SCENARIOS for row in rows}
    impossible = {Row(*row) for row in test_serving_lifecycles.CANNOT_OCCUR}
    assert sorted(SERVING_ROWS - set(CLAIMED) - scenarios - impossible) == []
    assert sorted(impossible & {*CLAIMED, *scenarios}) == []


def test_no_row_that_is_shown_is_said_to_be_impossible() -> None:
    assert sorted(set(CLAIMED) & set(CANNOT_OCCUR)) == []


def test_every_row_that_cannot_occur_is_a_row() -> None:
    assert {*CANNOT_OCCUR, *SHOWN_IN_SCENARIOS} <= ROWS
