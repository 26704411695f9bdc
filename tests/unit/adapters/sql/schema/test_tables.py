"""Invariants that the tables enforce by constraints."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from sokovan.adapters.sql.schema.tables import HISTORIES, METADATA
from sokovan.domain.lifecycle.kernel import FreeProof
from sokovan.domain.lifecycle.session import SESSION
from sokovan.testing.stored_cluster import StoredCluster

ADD_LINE = """INSERT INTO session_history
    (object_id, sequence, previous, before, after, trigger, who, cause, code, detail, at_ms, last_ms, times)
    VALUES ('{session}', {sequence}, {previous}, {before}, '{after}', 't', 'w', 'coordinator', '', '', 0, 0, 1)"""


def line(sequence: int, before: str, after: str, *, previous: int | None = None) -> str:
    last = sequence - 1 if previous is None else previous
    return ADD_LINE.format(session="s", sequence=sequence, previous=last, before=f"'{before}'", after=after)


# What each attempt breaks, and the statements that try; agent a1 holds session s, RUNNING, with two exclusive devices.
ATTEMPTS: dict[str, Sequence[str]] = {
    "more used than there is": ["UPDATE agent_slots SET used = capacity + 1"],
    "less than nothing used": ["UPDATE agent_slots SET used = -1"],
    "capacity below what is used": ["UPDATE agent_slots SET capacity = used - 1, reported = 0 WHERE slot = 'cpu'"],
    "a device used beyond its units": ["UPDATE agent_devices SET used = units + 1"],
    "an owner who uses less than nothing": ["UPDATE owner_usage SET used = -1"],
    "a line freed without a proof": ["UPDATE held_slots SET freed_ms = 1"],
    "a proof without the time": ["UPDATE held_slots SET proof = 'never_sent'"],
    "a proof that is none": ["UPDATE held_slots SET freed_ms = 1, proof = 'because'"],
    "an amount of nothing": ["UPDATE held_slots SET amount = 0"],
    "a status without a history row": ["UPDATE sessions SET status = 'pending'"],
    "a status that is no status": ["UPDATE sessions SET status = 'asleep'"],
    "a reference to a missing history row": ["UPDATE sessions SET history_sequence = 99"],
    "a move that the table does not have": [line(9, "running", "pending", previous=8), "SELECT 1"],
    "a gap in the history": [line(50, "running", "terminating")],
    "a row that does not begin with the last status": [line(6, "creating", "running")],
    "a line twice": [line(5, "creating", "running")],
    "a history that begins in the middle": [
        ADD_LINE.format(session="x", sequence=1, previous="NULL", before="NULL", after="running")
    ],
    "a kernel that waits on an agent": ["UPDATE kernels SET agent_id = NULL"],
    "a session that ended without a time": ["UPDATE sessions SET ended_ms = 5"],
    "a result without a cause": ["UPDATE sessions SET result = 'success'"],
    "two live sessions of one user with one name": [
        "UPDATE sessions SET name = 'train'",
        (
            "INSERT INTO session_history SELECT 's2', sequence, previous, before, after, trigger, who, cause, code,"
            " detail, at_ms, last_ms, times, lease, epoch FROM session_history"
        ),
        (
            "INSERT INTO sessions (session_id, name, place, status, version, history_sequence, goal, session_type,"
            ' scaling_group, queue, "user", "group", domain, access_key, required, submitted_ms, since_ms, stamp, body)'
            " SELECT 's2', name, place + 1, status, version, history_sequence, goal, session_type, scaling_group,"
            ' queue, "user", "group", domain, access_key, required, submitted_ms, since_ms, stamp, body FROM sessions'
        ),
    ],
    "a verdict that was given no time": ["INSERT INTO verdicts VALUES ('s', 'c', '', '', 0, 0, 0, NULL)"],
    "a verdict on an unknown session": ["INSERT INTO verdicts VALUES ('nobody', 'c', '', '', 0, 0, 1, NULL)"],
    "a credential of an unknown keypair": ["INSERT INTO credentials VALUES ('nobody', 'digest', 0)"],
    "an epoch before the first": ["INSERT INTO leases VALUES ('l', 'h', 0, 0)"],
    "a device with two exclusive holders": [
        (
            "INSERT INTO held_devices SELECT 's.1', device_id, agent_id, units, exclusive, freed_ms, attempt "
            "FROM held_devices WHERE kernel_id = 's.0'"
        )
    ],
}


@pytest.mark.parametrize("broken", ATTEMPTS)
async def test_the_database_itself_refuses(broken: str) -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1")
        await cluster.submit("s", kernels=2, slots={"cpu": 1000, "cuda.device": 1})
        await cluster.place("s", "a1", "a1")
        await cluster.start("s")
        with pytest.raises(IntegrityError):  # noqa: PT012  # which of the statements is refused does not matter
            async with cluster.store.database.writing() as connection:
                for statement in ATTEMPTS[broken]:
                    await connection.execute(sa.text(statement))
                await connection.commit()


@pytest.mark.slow
async def test_what_ended_cannot_go_on() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1")
        await cluster.submit("s")
        await cluster.place("s", "a1")
        await cluster.stop("s")
        await cluster.free("s", FreeProof.NEVER_SENT)
        for state in SESSION.states:
            async with cluster.store.database.writing() as connection:
                with pytest.raises(IntegrityError):
                    await connection.execute(sa.text(line(5, "terminated", state.value)))


def test_every_lifecycle_has_its_history() -> None:
    assert sorted(HISTORIES) == ["agent", "deployment", "kernel", "replica", "rollout", "route", "session"]
    assert all(history.name in METADATA.tables for history in HISTORIES.values())
