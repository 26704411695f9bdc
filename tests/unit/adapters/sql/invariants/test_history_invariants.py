"""Invariants of histories: each is violated by hand, and the row is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.adapters.sql.invariants.history_invariants import HISTORY_CHAINS
from sokovan.adapters.sql.schema.tables import HISTORIES
from tests.unit.adapters.sql.broken import Break, each, see

_COLUMNS = (
    'object_id, sequence, previous, "before", "after", "trigger", who, cause, code, detail, at_ms, last_ms, times'
)
_REST = "'test', 'coordinator', '', '', 0, 0, 1"


def line(kind: str, name: str, sequence: int, *move: str) -> str:
    """A statement that adds a row: before, after and trigger."""
    before, after, trigger = move
    return (
        f"INSERT INTO {kind}_history ({_COLUMNS}) VALUES "  # noqa: S608  # a table of ours
        f"('{name}', {sequence}, {sequence - 1}, '{before}', '{after}', '{trigger}', {_REST})"
    )


BREAKS = [
    Break(
        "I9",
        "a route skips a status",
        (
            line("route", "chat-route", 2, "pending", "running", "endpoint_healthy"),
            "UPDATE routes SET status = 'running', history_sequence = 2 WHERE route_id = 'chat-route'",
        ),
        {"kind": "route", "object_id": "chat-route", "sequence": 2, "before": "pending", "after": "running"},
    ),
    Break(
        "I9",
        "a kernel moves by a trigger that does not lead there",
        "UPDATE kernel_history SET \"trigger\" = 'started' WHERE object_id = 'scheduled.0' AND sequence = 2",
        {"kind": "kernel", "object_id": "scheduled.0", "trigger": "started"},
    ),
    Break(
        "I9",
        "an agent begins in the middle of its life",
        "UPDATE agent_history SET \"after\" = 'lost' WHERE object_id = 'arm';"
        " UPDATE agents SET status = 'lost' WHERE agent_id = 'arm'",
        {"kind": "agent", "object_id": "arm", "sequence": 1, "before": None, "after": "lost"},
    ),
    Break(
        "I10",
        "a route comes back from the dead",
        (
            line("route", "old-route", 5, "terminated", "running", "endpoint_healthy"),
            "UPDATE routes SET status = 'running', history_sequence = 5 WHERE route_id = 'old-route'",
        ),
        {"kind": "route", "object_id": "old-route", "sequence": 5, "before": "terminated"},
    ),
    Break(
        "I10",
        "a reason is noted for a deployment that has ended",
        (
            line("deployment", "old", 4, "terminated", "terminated", "noted"),
            "UPDATE deployments SET history_sequence = 4 WHERE deployment_id = 'old'",
        ),
        {"kind": "deployment", "object_id": "old", "sequence": 4},
    ),
    Break(
        "I10",
        "the first cause of an end is overwritten",
        "UPDATE sessions SET cause = 'out-of-memory' WHERE session_id = 'stopping'",
        {"session_id": "stopping", "cause": "out-of-memory", "first_cause": "stop_requested"},
    ),
    Break(
        "I10",
        "a live session has a cause of its end",
        "UPDATE sessions SET cause = 'bored', result = 'failure' WHERE session_id = 'running'",
        {"session_id": "running", "cause": "bored", "first_cause": None},
    ),
    Break(
        "I10",
        "a session ended at another time than it ended",
        "UPDATE sessions SET ended_ms = 7 WHERE session_id = 'cancelled'",
        {"session_id": "cancelled", "ended_ms": 7},
    ),
    Break(
        "I11",
        "a line is missing",
        "DELETE FROM kernel_history WHERE object_id = 'running.0' AND sequence = 2",
        {"kind": "kernel", "object_id": "running.0", "history_sequence": 7, "last": 7, "rows": 6},
    ),
    Break(
        "I11",
        "an object does not reference its last row",
        "UPDATE agents SET history_sequence = 2 WHERE agent_id = 'gone'",
        {"kind": "agent", "object_id": "gone", "history_sequence": 2, "last": 4},
    ),
    Break(
        "I11",
        "an object has no history",
        "DELETE FROM deployment_history WHERE object_id = 'chat'",
        {"kind": "deployment", "object_id": "chat", "last": None},
    ),
    Break(
        "I11",
        "an object has a status without a history row",
        "UPDATE agents SET status = 'suspect' WHERE agent_id = 'arm'",
        {"kind": "agent", "object_id": "arm", "status": "suspect", "recorded": "alive"},
    ),
    Break(
        "I11",
        "a line begins where the one before it did not end",
        "UPDATE kernel_history SET \"after\" = 'cancelled', \"trigger\" = 'withdrawn'"
        " WHERE object_id = 'preparing.0' AND sequence = 2",
        {"kind": "kernel", "object_id": "preparing.0", "sequence": 3, "before": "scheduled", "was": "cancelled"},
    ),
    Break(
        "I11",
        "a line points at another than the one before it",
        "UPDATE session_history SET previous = 1 WHERE object_id = 'preparing' AND sequence = 3",
        {"kind": "session", "object_id": "preparing", "sequence": 3},
    ),
    Break(
        "I11",
        "a history belongs to nothing",
        f"INSERT INTO agent_history ({_COLUMNS}) VALUES ('nobody', 1, NULL, NULL, 'alive', 'enrolled', {_REST})",  # noqa: S608  # a table of ours
        {"kind": "agent", "object_id": "nobody"},
    ),
    Break(
        "I14",
        "a leader wrote before its term",
        "UPDATE lease_terms SET since_ms = since_ms + 3600000 WHERE epoch = 2",
        {"kind": "session", "object_id": "led-by-two", "lease": "scheduler", "epoch": 2},
    ),
    Break(
        "I14",
        "a leader wrote after its term",
        "UPDATE kernel_history SET at_ms = at_ms + 3600000 WHERE object_id = 'led-by-one.0' AND sequence = 2",
        {"kind": "kernel", "object_id": "led-by-one.0", "epoch": 1},
    ),
    Break(
        "I14",
        "a leader wrote that never was",
        "UPDATE session_history SET epoch = 7 WHERE object_id = 'led-by-one' AND sequence = 2",
        {"object_id": "led-by-one", "epoch": 7, "since_ms": None},
    ),
    Break(
        "I14",
        "a line names a lease and no epoch",
        "UPDATE session_history SET epoch = NULL WHERE object_id = 'led-by-one' AND sequence = 2",
        {"object_id": "led-by-one", "lease": "scheduler", "epoch": None},
    ),
    Break(
        "I14",
        "an earlier leader wrote after a later one",
        "UPDATE session_history SET epoch = 3 - epoch, at_ms = (SELECT since_ms FROM lease_terms WHERE epoch = 2)"
        " WHERE object_id = 'pending' AND lease = 'scheduler'",
        {"kind": "session", "object_id": "pending", "epoch": 1, "epoch_before": 2},
    ),
    Break(
        "I14",
        "a later term began earlier",
        "UPDATE lease_terms SET since_ms = 1 WHERE epoch = 2",
        {"name": "scheduler", "epoch": 1, "following_ms": 1},
    ),
    Break(
        "I14",
        "a lease went back to an earlier epoch",
        "UPDATE leases SET epoch = 1",
        {"name": "scheduler", "epoch": 1, "term": 2},
    ),
]


@pytest.mark.slow
@each(BREAKS)
async def test_what_breaks_it_is_found_and_named(broken: Break, busy_file: Path) -> None:
    await see(broken, busy_file)


def test_every_history_there_is_is_judged() -> None:
    assert [chain.lifecycle.name for chain in HISTORY_CHAINS] == list(HISTORIES)
