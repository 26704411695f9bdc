"""Contract of `ports.repositories.sessions.Sessions`: reasons and histories."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import TypeAlias

from sokovan.domain.errors import Conflict, ObjectNotFound
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.kernel import FreeProof, KernelTrigger
from sokovan.domain.lifecycle.session import Goal
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.records import Change, KernelMove
from sokovan.testing.contracts import expect
from sokovan.testing.contracts.repositories.sessions import session_history
from sokovan.testing.contracts.sessions.session_moves import moved, placed
from sokovan.testing.stored_cluster import BY_COORDINATOR, BY_USER, StoredCluster, refusal, release

Check: TypeAlias = Callable[[StoredCluster], Awaitable[None]]


async def noted(cluster: StoredCluster, names: Sequence[str], *, code: str, detail: str = "") -> None:
    """Note why sessions did not move."""
    change = Change("scheduler", Cause.COORDINATOR, code=code, detail=detail)
    await cluster.store.run(lambda unit: unit.sessions.note([SessionId(name) for name in names], change))


async def a_repeated_reason_is_counted(cluster: StoredCluster) -> None:
    """One row with a count, a first and a last time, and the latest text."""
    name = cluster.new("s")
    before = await cluster.submit(name)
    for detail in ("a1 is full", "a2 is full", "all are full"):
        await noted(cluster, [name], code="no-room", detail=detail)
    [_, entry] = await session_history(cluster, name)
    expect((entry.times, entry.change.code) == (3, "no-room"), "a repeated reason was not counted")
    expect(entry.change.detail == "all are full", "the newest detail is not shown")
    expect((entry.before, entry.after) == ("pending", "pending"), "a reason moved the session")
    expect(entry.at_ms <= entry.last_ms, "the last time is before the first")
    after = await cluster.session(name)
    expect((after.status, after.version) == (before.status, before.version), "a reason changed the session itself")


async def another_reason_begins_a_new_row(cluster: StoredCluster) -> None:
    """As does the same reason after a move."""
    record = await placed(cluster)
    name = record.session_id
    for code in ("slow", "slow", "slower"):
        await noted(cluster, [name], code=code)
    await cluster.move(name, KernelTrigger.IMAGE_READY)
    await noted(cluster, [name], code="slower")
    entries = [(entry.change.code, entry.times) for entry in await session_history(cluster, name)][2:]
    expect(entries == [("slow", 2), ("slower", 1), ("", 1), ("slower", 1)], f"the history is {entries}")


async def many_sessions_are_noted_at_once(cluster: StoredCluster) -> None:
    """Ended or unknown sessions are ignored."""
    waiting, ended = [cluster.new("s") for _ in range(3)], cluster.new("s")
    for name in (*waiting, ended):
        await cluster.submit(name)
    await noted(cluster, waiting[:1], code="no-room")
    await cluster.stop(ended)
    await noted(cluster, [*waiting, ended, cluster.new("s")], code="no-room")
    times = [(await session_history(cluster, name))[-1].times for name in waiting]
    expect(times == [2, 1, 1], f"reasons were counted as {times}")
    expect(
        (await session_history(cluster, ended))[-1].trigger == "withdrawn",
        "a session that has ended got a reason to wait",
    )
    await cluster.stop(waiting[0])


async def a_history_is_gapless_and_chained(cluster: StoredCluster) -> None:
    """Each row begins with the status that the previous one ended with."""
    record = await placed(cluster, kernels=2, running=True)
    await noted(cluster, [record.session_id], code="idle")
    await cluster.stop(record.session_id)
    await cluster.free(record.session_id, FreeProof.AGENT_TOMBSTONE)
    entries = await cluster.store.read(lambda unit: unit.sessions.history(record.session_id, kernels=True))
    names = {record.session_id, *(kernel.kernel_id for kernel in record.kernels)}
    expect({name for name, _ in entries} == names, "the history of a session leaves out some of its kernels")
    for name in names:
        rows = [entry for one, entry in entries if one == name]
        expect([row.sequence for row in rows] == list(range(1, len(rows) + 1)), f"{name} has a gap")
        expect(rows[0].before is None and rows[0].after == "pending", f"{name} does not begin as PENDING")
        breaks = [(one.after, two.before) for one, two in pairwise(rows) if one.after != two.before]
        expect(not breaks, f"{name} is not chained: {breaks}")
        expect(rows[-1].after == "terminated", f"{name} does not end as TERMINATED")
    times = [entry.at_ms for _, entry in entries]
    expect(times == sorted(times), "the history is not in the order of time")


async def a_history_records_author_and_cause(cluster: StoredCluster) -> None:
    """All fields of the change."""
    record = await placed(cluster)
    change = Change("m1", Cause.COORDINATOR, code="image-cached", detail="nothing to pull: ' \" \\ %s :x ñ")
    await moved(cluster, record, KernelTrigger.IMAGE_READY, change)
    entries = await cluster.store.read(lambda unit: unit.sessions.history(record.session_id, kernels=True))
    for name in (record.session_id, record.kernels[0].kernel_id):
        last = [entry for one, entry in entries if one == name][-1]
        expect(last.change == change, f"the history of {name} lost its author or cause")
    triggers = [entry.trigger for name, entry in entries if name == record.session_id]
    expect(triggers == ["submitted", "allocated", "images_ready"], f"the triggers are {triggers}")


async def a_release_opens_gates_once_and_is_noted(cluster: StoredCluster) -> None:
    """The others stay closed; a copy that was read before does not move the session."""
    before = await cluster.submit(cluster.new("s"), gates=("data", "budget"))
    name = before.session_id
    mark, _ = await cluster.store.read(lambda unit: unit.sessions.changed(None))
    after = await release(cluster.store, name, "data", "other")
    expect(after.spec.gates == ("budget",), f"the gates are {after.spec.gates}")
    expect(after.version > before.version, "the version did not change")
    _, changed = await cluster.store.read(lambda unit: unit.sessions.changed(mark))
    expect(name in changed, "it is not among what changed")
    expect((await release(cluster.store, name, "data")).version == after.version, "a repeated release changed it")
    codes = [entry.change.who for entry in await session_history(cluster, name) if entry.before == entry.after]
    expect(codes == [BY_USER.who], f"the history has notes of {codes}")
    moves = [KernelMove(kernel, KernelTrigger.WITHDRAWN) for kernel in before.kernels]
    moved_ones = await cluster.store.run(lambda unit: unit.sessions.move_many(moves, BY_COORDINATOR))
    expect(not moved_ones, "a copy with closed gates still moves it")


async def only_a_pending_session_is_released(cluster: StoredCluster) -> None:
    """One that was cancelled while held keeps its gates."""
    name = (await cluster.submit(cluster.new("s"), gates=("data",))).session_id
    await cluster.store.run(lambda unit: unit.sessions.set_goal(name, Goal.STOP, BY_USER))
    await refusal(release(cluster.store, name, "data"), Conflict)
    expect((await cluster.session(name)).spec.gates == ("data",), "a gate was opened")
    await refusal(release(cluster.store, cluster.new("s"), "data"), ObjectNotFound)


async def of_many_sessions_those_that_are_held_and_pending_are_released(cluster: StoredCluster) -> None:
    """Sessions without such a gate and those that have ended are left as they are."""
    held, other, ended, free = [cluster.new("s") for _ in range(4)]
    for name, gates in ((held, ("data", "budget")), (other, ("budget",)), (ended, ("data",)), (free, ())):
        await cluster.submit(name, gates=gates)
    await cluster.store.run(lambda unit: unit.sessions.set_goal(SessionId(ended), Goal.STOP, BY_USER))
    names = [SessionId(name) for name in (held, other, ended, free, cluster.new("s"))]
    opened = await cluster.store.run(lambda unit: unit.sessions.release_many(names, ["data"], BY_USER))
    expect(list(opened) == [held], f"released were {opened}")
    gates_left = [(await cluster.session(name)).spec.gates for name in names[:4]]
    expect(gates_left == [("budget",), ("budget",), ("data",), ()], f"the gates are {gates_left}")


CHECKS: tuple[Check, ...] = (
    a_repeated_reason_is_counted,
    another_reason_begins_a_new_row,
    many_sessions_are_noted_at_once,
    a_history_is_gapless_and_chained,
    a_history_records_author_and_cause,
    a_release_opens_gates_once_and_is_noted,
    only_a_pending_session_is_released,
    of_many_sessions_those_that_are_held_and_pending_are_released,
)
