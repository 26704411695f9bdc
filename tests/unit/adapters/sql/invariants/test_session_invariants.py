"""Invariants of sessions and kernels: each is violated by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.adapters.sql.broken import Break, each, see, without_constraints

BREAKS = [
    Break(
        "I7",
        "half a gang is placed",
        "UPDATE sessions SET required = 2 WHERE session_id = 'scheduled'",
        {"session_id": "scheduled", "required": 2, "placed": 1},
    ),
    Break(
        "I7",
        "a kernel runs without a rank",
        "UPDATE kernels SET rank = NULL WHERE session_id = 'running'",
        {"session_id": "running", "kernel_id": "running.0"},
    ),
    Break(
        "I7",
        "two kernels have one rank",
        "UPDATE kernels SET rank = 0 WHERE session_id = 'gang'",
        {"session_id": "gang", "rank": 0, "kernels": 3},
    ),
    Break(
        "I8",
        "a session runs although its goal is to stop",
        "UPDATE sessions SET goal = 1 WHERE session_id = 'running'",
        {"session_id": "running", "status": "running", "derived": "terminating", "kernels": "running=1"},
    ),
    Break(
        "I8",
        "a session without kernels has ended",
        "DELETE FROM kernels WHERE kernel_id = 'cancelled.0';"
        " DELETE FROM kernel_history WHERE object_id = 'cancelled.0';"
        " UPDATE sessions SET goal = 0 WHERE session_id = 'cancelled'",
        {"session_id": "cancelled", "status": "cancelled", "derived": "pending", "kernels": "none"},
    ),
    Break(
        "I8",
        "a goal is not a valid value",
        "UPDATE sessions SET goal = 9 WHERE session_id = 'running'",
        {"session_id": "running", "goal": 9},
    ),
    Break(
        "I12",
        "a key belongs to two requests",
        (
            without_constraints("idempotency_keys"),
            "INSERT INTO idempotency_keys SELECT scope, key, 'other', 'running', at_ms FROM idempotency_keys",
        ),
        {"scope": "alice", "key": "key-1", "requests": 2},
    ),
    Break(
        "I12",
        "the session of a key does not exist",
        "UPDATE idempotency_keys SET session_id = 'nothing'",
        {"scope": "alice", "key": "key-1", "session_id": "nothing"},
    ),
    Break(
        "I16",
        "a session runs on the ruins of another",
        "UPDATE sessions SET result = 'failure' WHERE session_id = 'done'",
        {"session_id": "after-done", "depends_on": "done", "its_status": "terminated", "its_result": "failure"},
    ),
    Break(
        "I16",
        "a session runs before another has ended",
        "INSERT INTO session_dependencies VALUES ('scheduled', 'pending')",
        {"session_id": "scheduled", "depends_on": "pending", "its_result": None},
    ),
    Break(
        "I16",
        "a dependency of a session does not exist",
        "INSERT INTO session_dependencies VALUES ('scheduled', 'nothing')",
        {"session_id": "scheduled", "depends_on": "nothing", "its_status": None},
    ),
    Break(
        "I17",
        "the agent of a kernel does not exist",
        "DELETE FROM agents WHERE agent_id = 'shared'; DELETE FROM agent_history WHERE object_id = 'shared'",
        {"kernel_id": "share1.0", "agent_id": "shared"},
        also=("I1",),
    ),
    Break(
        "I17",
        "a kernel is placed on a future incarnation",
        "UPDATE kernels SET incarnation = 9 WHERE kernel_id = 'scheduled.0'",
        {"kernel_id": "scheduled.0", "incarnation": 9, "agent_incarnation": 1},
    ),
    Break(
        "I17",
        "a kernel is placed in another scaling group",
        "UPDATE sessions SET scaling_group = 'other' WHERE session_id = 'scheduled'",
        {"kernel_id": "scheduled.0", "scaling_group": "other", "agent_scaling_group": "default"},
        also=("I1",),  # past usage is recorded per scaling group
    ),
    Break(
        "I17",
        "a kernel is placed on another architecture",
        "UPDATE kernels SET architecture = 'aarch64' WHERE kernel_id = 'scheduled.0'",
        {"kernel_id": "scheduled.0", "agent_id": "a2", "architecture": "aarch64", "agent_architecture": "x86_64"},
    ),
    Break(
        "I17",
        "a kernel is placed on an agent without its label",
        """UPDATE kernels SET require = '{"disk":"fast"}' WHERE kernel_id = 'scheduled.0'""",
        {"kernel_id": "scheduled.0", "agent_id": "a2", "label": "disk", "found": None, "required": "fast"},
    ),
    Break(
        "I18",
        "a kernel runs that was not requested",
        "UPDATE kernels SET sent = false WHERE kernel_id = 'running.0'",
        {"kernel_id": "running.0", "status": "running", "sent": False},
    ),
    Break(
        "I18",
        "a requested kernel is not stored as sent",
        "UPDATE kernels SET sent = false WHERE kernel_id = 'stopping.0'",
        {"kernel_id": "stopping.0", "status": "terminating", "sent": False},
    ),
    Break(
        "I18",
        "a kernel is stored as sent before CREATING",
        "UPDATE kernels SET sent = true WHERE kernel_id = 'scheduled.0'",
        {"kernel_id": "scheduled.0", "status": "scheduled", "sent": True},
    ),
]


@pytest.mark.slow
@each(BREAKS)
async def test_what_breaks_it_is_found_and_named(broken: Break, busy_file: Path) -> None:
    await see(broken, busy_file)
