"""Invariants of freed slots: each is violated by hand, and the row is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.adapters.sql.broken import Break, each, see

BREAKS = [
    Break(
        "I19",
        "a line is freed without a proof",
        "UPDATE held_slots SET proof = NULL WHERE kernel_id = 'done.0'",
        {"kernel_id": "done.0", "slot": "cpu", "proof": None},
    ),
    Break(
        "I19",
        "a line has a proof and is not freed",
        "UPDATE held_slots SET proof = 'agent_tombstone' WHERE kernel_id = 'running.0'",
        {"kernel_id": "running.0", "slot": "cpu", "freed_ms": None},
    ),
    Break(
        "I19",
        "a proof is hearsay",
        "UPDATE held_slots SET proof = 'hearsay' WHERE kernel_id = 'done.0'",
        {"kernel_id": "done.0", "proof": "hearsay"},
    ),
    Break(
        "I19",
        "what was sent is freed as never sent",
        "UPDATE held_slots SET proof = 'never_sent' WHERE kernel_id = 'done.0'",
        {"kernel_id": "done.0", "proof": "never_sent"},
    ),
    Break(
        "I19",
        "an agent that never came back fences its kernels",
        "UPDATE held_slots SET proof = 'incarnation_fenced' WHERE kernel_id = 'failed.0'",
        {"kernel_id": "failed.0", "incarnation": 1, "agent_incarnation": 1},
    ),
    Break(
        "I19",
        "a host that is there counts as gone",
        "UPDATE held_slots SET proof = 'host_gone' WHERE kernel_id = 'failed.0'",
        {"kernel_id": "failed.0", "agent_id": "a3", "status": "alive"},
    ),
    Break(
        "I19",
        "a kernel ended and left no line",
        "DELETE FROM held_slots WHERE kernel_id = 'failed.0'",
        {"kernel_id": "failed.0", "status": "terminated"},
    ),
    Break(
        "I20",
        "the lines of a kernel were freed at two times",
        "UPDATE held_slots SET freed_ms = freed_ms + 1 WHERE kernel_id = 'failed.0' AND slot = 'cpu'",
        {"kernel_id": "failed.0", "lines": 2, "freed": 2, "times": 2},
    ),
    Break(
        "I20",
        "the lines of a kernel were freed by two proofs",
        "UPDATE held_slots SET proof = 'agent_tombstone' WHERE kernel_id = 'on-fenced.0' AND slot = 'cpu'",
        {"kernel_id": "on-fenced.0", "proofs": 2},
    ),
    Break(
        "I20",
        "one line of a kernel was freed and another not",
        "UPDATE held_slots SET freed_ms = NULL, proof = NULL WHERE kernel_id = 'failed.0' AND slot = 'cpu'",
        {"kernel_id": "failed.0", "lines": 2, "freed": 1},
        also=("I1",),
    ),
    Break(
        "I20",
        "a device was freed later than the slots",
        "UPDATE held_devices SET freed_ms = freed_ms + 1 WHERE kernel_id = 'done.0'",
        {"kernel_id": "done.0", "device_id": "gpu0"},
    ),
    Break(
        "I20",
        "a line is negative",
        "UPDATE held_slots SET amount = -5 WHERE kernel_id = 'done.0' AND slot = 'cpu'",
        {"kernel_id": "done.0", "slot": "cpu", "amount": -5},
    ),
    Break(
        "I20",
        "a device is held by less than nothing",
        "UPDATE held_devices SET units = 0 WHERE kernel_id = 'done.0'",
        {"kernel_id": "done.0", "units": 0},
    ),
    Break(
        "I20",
        "an owner uses less than nothing",
        "INSERT INTO owner_usage VALUES ('user', 'nobody', 'cpu', -1, 0)",
        {"scope": "user", "name": "nobody", "used": -1},
        also=("I1",),
    ),
    Break(
        "I20",
        "an agent has fewer kernels than none",
        "UPDATE agents SET kernel_count = -1 WHERE agent_id = 'arm'",
        {"agent_id": "arm", "kernel_count": -1},
        also=("I1",),
    ),
    Break(
        "I20",
        "a device is in use by less than nothing",
        "UPDATE agent_devices SET used = -1 WHERE agent_id = 'a3' AND device_id = 'gpu3'",
        {"agent_id": "a3", "device_id": "gpu3", "used": -1},
        also=("I1",),
    ),
]


@pytest.mark.slow
@each(BREAKS)
async def test_what_breaks_it_is_found_and_named(broken: Break, busy_file: Path) -> None:
    await see(broken, busy_file)
