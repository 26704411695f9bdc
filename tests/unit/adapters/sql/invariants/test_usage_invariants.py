"""Invariants of usage: each is violated by hand, and the row is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.adapters.sql.broken import Break, each, see, without_constraints

BREAKS = [
    Break(
        "I1",
        "an agent counts more than kernels hold",
        "UPDATE agent_slots SET used = used + 7 WHERE agent_id = 'a1' AND slot = 'cpu'",
        {"agent_id": "a1", "slot": "cpu"},
    ),
    Break(
        "I1",
        "an agent forgets a slot that is held",
        "DELETE FROM agent_slots WHERE agent_id = 'a1' AND slot = 'cpu'",
        {"agent_id": "a1", "slot": "cpu", "kept": 0},
    ),
    Break(
        "I1",
        "a kernel that waits holds something",
        "INSERT INTO held_slots (kernel_id, slot, agent_id, incarnation, amount, held_ms)"
        " VALUES ('pending.0', 'cpu', 'a1', 1, 5, 0)",
        {"kernel_id": "pending.0", "status": "pending", "held": "cpu=5"},
    ),
    Break(
        "I1",
        "a kernel that runs holds nothing",
        "DELETE FROM held_slots WHERE kernel_id = 'running.0'",
        {"kernel_id": "running.0", "held": "nothing", "asked": "cpu=500 cuda.device=1"},
    ),
    Break(
        "I1",
        "a kernel holds more than it requested",
        "UPDATE held_slots SET amount = 501 WHERE kernel_id = 'running.0' AND slot = 'cpu'",
        {"kernel_id": "running.0", "held": "cpu=501 cuda.device=1"},
    ),
    Break(
        "I1",
        "a kernel holds slots of another agent",
        "UPDATE held_slots SET agent_id = 'a3' WHERE kernel_id = 'scheduled.0'",
        {"kernel_id": "scheduled.0", "agent_id": "a2", "held_on": "a3"},
    ),
    Break(
        "I1",
        "an agent miscounts its kernels",
        "UPDATE agents SET kernel_count = kernel_count + 1 WHERE agent_id = 'arm'",
        {"agent_id": "arm", "kept": 1, "counted": 0},
    ),
    Break(
        "I1",
        "an owner is charged too much",
        "UPDATE owner_usage SET used = used + 1 WHERE scope = 'user' AND name = 'alice' AND slot = 'cpu'",
        {"scope": "user", "name": "alice", "slot": "cpu", "kept": 2001, "counted": 2000},
    ),
    Break(
        "I1",
        "an owner has one session too few",
        "UPDATE owner_usage SET used = 1 WHERE scope = 'keypair' AND name = 'AKALICE' AND slot = '#sessions'",
        {"scope": "keypair", "name": "AKALICE", "slot": "#sessions", "kept": 1, "counted": 2},
    ),
    Break(
        "I1",
        "an owner is forgotten",
        "DELETE FROM owner_usage WHERE scope = 'user' AND name = 'alice'",
        {"scope": "user", "name": "alice", "slot": "mem", "kept": 0},
    ),
    Break(
        "I1",
        "past usage does not count what a user holds",
        "UPDATE past_usage SET held = 0 WHERE scope = 'user' AND name = 'alice' AND slot = 'cpu'",
        {"scaling_group": "default", "scope": "user", "name": "alice", "slot": "cpu", "kept": 0, "counted": 2000},
    ),
    Break(
        "I1",
        "a device that is held counts as free",
        "UPDATE agent_devices SET used = 0 WHERE agent_id = 'a2' AND device_id = 'gpu2'",
        {"agent_id": "a2", "device_id": "gpu2", "kept": 0, "counted": 1},
    ),
    Break(
        "I1",
        "a kernel that waits holds a device",
        "INSERT INTO held_devices (kernel_id, device_id, agent_id, units, exclusive)"
        " VALUES ('pending.0', 'gpu3', 'a2', 1, true)",
        {"kernel_id": "pending.0", "status": "pending", "device_id": "gpu3"},
    ),
    Break(
        "I1",
        "the request of a kernel cannot be decoded",
        "UPDATE kernels SET slots = '{cpu' WHERE kernel_id = 'running.0'",
        {"reason": "DecodeError: JSON is malformed: object keys must be strings (byte 1)"},
    ),
    Break(
        "I2",
        "more is in use than there is",
        "UPDATE agent_slots SET capacity = 1, reported = 1 WHERE agent_id = 'a1' AND slot = 'cpu'",
        {"agent_id": "a1", "slot": "cpu", "capacity": 1},
    ),
    Break(
        "I5",
        "more of a device is held than it has",
        "UPDATE agent_devices SET units = 699 WHERE agent_id = 'shared'",
        {"agent_id": "shared", "device_id": "gpu0", "units": 699, "held": 700},
    ),
    Break(
        "I5",
        "two kernels have one device for themselves",
        """DROP INDEX uq_held_devices_exclusive;
        UPDATE held_devices SET device_id = 'gpu0' WHERE kernel_id = 'prepared.0';
        UPDATE agent_devices SET used = 0 WHERE agent_id = 'a2' AND device_id = 'gpu1';
        UPDATE agent_devices SET used = 2, units = 2 WHERE agent_id = 'a2' AND device_id = 'gpu0'""",
        {"agent_id": "a2", "device_id": "gpu0", "kernel_id": "prepared.0", "other": "preparing.0"},
    ),
    Break(
        "I5",
        "a kernel shares a device that another has for itself",
        "UPDATE held_devices SET exclusive = true WHERE kernel_id = 'share1.0'",
        {"agent_id": "shared", "device_id": "gpu0", "kernels": 2},
    ),
    Break(
        "I6",
        "two replicas have one session",
        (without_constraints("replicas"), "UPDATE replicas SET session_id = 'running'"),
        {"session_id": "running", "replicas": 2, "replica_id": "chat-1", "other": "code-1"},
    ),
    Break(
        "I6",
        "two kernels have one port",
        (
            without_constraints("held_ports"),
            "INSERT INTO held_ports SELECT agent_id, port, 1, kernel_id, name, NULL FROM held_ports WHERE port = 20000",
        ),
        {"agent_id": "a1", "port": 20000, "leases": 2},
    ),
    Break(
        "I6",
        "a port outlives its kernel",
        "INSERT INTO held_ports VALUES ('a1', 8080, 0, 'done.0', 'web', NULL)",
        {"agent_id": "a1", "port": 8080, "kernel_id": "done.0"},
    ),
    Break(
        "I6",
        "a port is freed before its kernel",
        "UPDATE held_ports SET freed_ms = 1 WHERE kernel_id = 'gang.0'",
        {"kernel_id": "gang.0", "agent_id": "a1"},
    ),
]


@pytest.mark.slow
@each(BREAKS)
async def test_what_breaks_it_is_found_and_named(broken: Break, busy_file: Path) -> None:
    await see(broken, busy_file)
