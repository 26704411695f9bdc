"""Contract of `ports.repositories.arrays.ArrayRepository`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from sokovan.domain.arrays import ArrayMember, member_name
from sokovan.domain.errors import Conflict
from sokovan.domain.ids import ArrayId, SessionId
from sokovan.domain.lifecycle.kernel import FreeProof, KernelTrigger
from sokovan.domain.lifecycle.session import Goal, SessionStatus
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.records import USER_REQUESTED, ArrayCounts, ArrayRecord, Change
from sokovan.domain.session import SessionSpec
from sokovan.ports.repositories.sessions import NewSession, SessionFilter
from sokovan.ports.storage import UnitOfWork
from sokovan.testing.contracts import expect
from sokovan.testing.stored_cluster import BY_AGENT, BY_COORDINATOR, BY_USER, StoredCluster, refusal, session_spec

Check: TypeAlias = Callable[[StoredCluster], Awaitable[None]]

LOCKED_S = 0.3
LIVE = SessionFilter(statuses=(SessionStatus.PENDING, SessionStatus.RUNNING))


async def array(cluster: StoredCluster, *, size: int = 2, name: str = "", user: str = "default") -> list[str]:
    """Store an array of sessions; its id, then the ids of its sessions."""
    array_id = cluster.new("a")
    name = name or f"{array_id}-name"
    ids = [f"{array_id}-{index}" for index in range(size)]
    record = ArrayRecord(
        ArrayId(array_id), name, Owner(user=user), "default", "default", indexes=f"0-{size - 1}", size=size, at_once=1
    )
    new = [NewSession(_spec(array_id, name, index, size=size, user=user), BY_USER) for index in range(size)]

    async def work(unit: UnitOfWork) -> None:
        await unit.arrays.add(record)
        await unit.sessions.enqueue_many(new)

    await cluster.store.run(work)
    return [array_id, *ids]


def _spec(array_id: str, name: str, index: int, *, size: int, user: str) -> SessionSpec:
    member = ArrayMember(ArrayId(array_id), index, size, 0, size - 1, at_once=1)
    return session_spec(f"{array_id}-{index}", name=member_name(name, index), owner=Owner(user=user), array=member)


async def end_member(cluster: StoredCluster, name: str, code: int) -> None:
    """Run a session to its end."""
    agent = cluster.new("host")
    await cluster.agent(agent)
    await cluster.place(name, agent)
    await cluster.start(name)
    await cluster.move(name, KernelTrigger.EXITED, BY_AGENT, exit_code=code)
    await cluster.free(name, FreeProof.AGENT_TOMBSTONE)


async def _named(cluster: StoredCluster, text: str, wanted: SessionFilter | None = None) -> Sequence[str]:
    found = await cluster.store.read(lambda unit: unit.arrays.named(text, wanted or SessionFilter()))
    return [one.array_id for one in found]


async def _counts(cluster: StoredCluster, array_id: str) -> ArrayCounts:
    counts = await cluster.store.read(lambda unit: unit.arrays.counts([ArrayId(array_id)]))
    return counts[ArrayId(array_id)]


async def _outcome(cluster: StoredCluster, array_id: str) -> bool | None:
    outcomes = await cluster.store.read(lambda unit: unit.arrays.outcomes([array_id, "nothing"]))
    return outcomes.get(ArrayId(array_id))


async def an_array_is_read_as_it_was_stored(cluster: StoredCluster) -> None:
    """With the store's time, and before its first session in the order of submission."""
    array_id, first, _ = await array(cluster)
    [found] = await cluster.store.read(lambda unit: unit.arrays.named(array_id, SessionFilter()))
    session = await cluster.session(first)
    expect((found.size, found.at_once, found.indexes) == (2, 1, "0-1"), "it was changed")
    expect(found.submitted_ms == session.submitted_ms, "it has another time than its sessions")
    expect(found.place == session.place, "it has another place than its first session")
    members = await cluster.store.read(lambda unit: unit.sessions.page(SessionFilter(array_id=array_id), limit=9))
    expect([one.session_id for one in members] == [first, f"{array_id}-1"], "its sessions are not listed by it")
    outside = SessionFilter(ids=[SessionId(first)], outside_arrays=True)
    expect(not await cluster.store.read(lambda unit: unit.sessions.page(outside, limit=9)), "it is in no array")


async def an_array_is_found_by_id_name_and_prefix(cluster: StoredCluster) -> None:
    """Of those with the same name the live one, else the newest."""
    name = cluster.new("sweep")
    first, *members = await array(cluster, name=name)
    for text in (first, name, name[:-1], first[:-1]):
        expect(first in await _named(cluster, text), f"it is not found by {text}")
    expect(not await _named(cluster, "no such name"), "an invalid name is found")
    expect(not await _named(cluster, name, SessionFilter(user="another")), "it is found for another user")
    for member in members:
        await cluster.stop(member)
    expect(not await _named(cluster, f"{name[:-1]}"), "an array that has ended is found by a prefix")
    second, *_ = await array(cluster, name=name)
    expect(await _named(cluster, name) == [second], "the live one is not preferred")


async def arrays_are_listed_newest_first(cluster: StoredCluster) -> None:
    """Those with a session that matches."""
    user = cluster.new("user")
    arrays = [(await array(cluster, user=user))[0] for _ in range(3)]
    for index in range(2):
        await cluster.stop(f"{arrays[0]}-{index}")
    wanted = SessionFilter(user=user)

    async def page(limit: int, after: int | None = None, *, live: bool = False) -> list[ArrayRecord]:
        chosen = SessionFilter(user=user, statuses=LIVE.statuses) if live else wanted
        return list(await cluster.store.read(lambda unit: unit.arrays.page(chosen, limit=limit, after=after)))

    first = await page(2)
    expect([one.array_id for one in first] == arrays[:0:-1], "the order is not newest first")
    rest = await page(2, first[-1].place)
    expect([one.array_id for one in rest] == arrays[:1], "the next page does not continue")
    expect([one.array_id for one in await page(9, live=True)] == arrays[:0:-1], "one without a live session is listed")


async def sessions_are_counted_by_status_and_result(cluster: StoredCluster) -> None:
    """An array succeeds with all of its sessions, and fails with one of them."""
    array_id, first, second, third = await array(cluster, size=3)
    expect(await _outcome(cluster, array_id) is None, "an array that waits has an outcome")
    await end_member(cluster, first, 0)
    counts = await _counts(cluster, array_id)
    expect((counts.succeeded, counts.failed) == (1, 0), "a success is not counted")
    expect(counts.statuses == {SessionStatus.PENDING: 2, SessionStatus.TERMINATED: 1}, "the statuses are wrong")
    expect(await _outcome(cluster, array_id) is None, "it succeeded before all of its sessions did")
    await end_member(cluster, second, 0)
    await end_member(cluster, third, 0)
    expect(await _outcome(cluster, array_id) is True, "it did not succeed although all of its sessions did")
    other, failing, ended = await array(cluster)
    change = Change("user", Cause.CONTROLLER, code=USER_REQUESTED)
    await cluster.store.run(lambda unit: unit.sessions.set_goal(SessionId(ended), Goal.STOP, change))
    counts = await _counts(cluster, other)
    expect((counts.failed, counts.cancelled) == (0, 1), "what a user ended has failed")
    await end_member(cluster, failing, 1)
    counts = await _counts(cluster, other)
    expect((counts.failed, counts.cancelled) == (1, 1), "a failure is not counted")
    expect(await _outcome(cluster, other) is False, "it has not failed although one of its sessions has")


async def sessions_that_are_still_to_be_stored_are_taken_once(cluster: StoredCluster) -> None:
    """Until then they count as pending, and the array lives."""
    array_id, first = await array(cluster, size=1)
    await end_member(cluster, first, 0)
    [stored] = await cluster.store.read(lambda unit: unit.arrays.named(array_id, SessionFilter()))
    unfinished = replace(stored, array_id=ArrayId(cluster.new("a")), name=cluster.new("n"), size=3, unstored=3)
    await cluster.store.run(lambda unit: unit.arrays.add(unfinished))

    async def take(known: int, count: int) -> bool:
        known_array = replace(unfinished, unstored=known)
        return await cluster.store.run(lambda unit: unit.arrays.take_unstored(known_array, count))

    async def listed(before_ms: int) -> list[tuple[str, int]]:
        found = await cluster.store.read(lambda unit: unit.arrays.unfinished(before_ms=before_ms, limit=99))
        return [(one.array_id, one.unstored) for one in found if one.array_id in {array_id, unfinished.array_id}]

    expect(await take(3, 2), "the first sessions could not be taken")
    expect(not await take(3, 2), "the same sessions were taken twice")
    expect(
        await listed(stored.submitted_ms + 3_600_000) == [(unfinished.array_id, 1)], "it is not listed as unfinished"
    )
    expect(not await listed(stored.submitted_ms), "a new array counts as interrupted")
    expect((await _counts(cluster, unfinished.array_id)).statuses == {SessionStatus.PENDING: 1}, "it is not counted")
    expect(await _outcome(cluster, unfinished.array_id) is None, "it ended before all of its sessions were stored")
    await refusal(array(cluster, name=unfinished.name), Conflict)
    expect(await take(1, 1), "the last session could not be taken")
    expect(not await listed(stored.submitted_ms + 3_600_000), "a complete array is listed")


async def a_replaced_session_does_not_count(cluster: StoredCluster) -> None:
    """The one that replaces it does."""
    array_id, first = await array(cluster, size=1)
    before = await cluster.session(first)
    await cluster.stop(first, Goal.FORCE)
    spec = session_spec(f"{first}-again", name=before.spec.name, array=before.spec.array)
    await cluster.store.run(lambda unit: unit.sessions.enqueue(spec, BY_COORDINATOR, in_place_of=SessionId(first)))
    expect(await _outcome(cluster, array_id) is None, "the session that was replaced counts")
    expect((await _counts(cluster, array_id)).statuses == {SessionStatus.PENDING: 1}, "both are counted")


async def goals_of_many_sessions_are_set_at_once(cluster: StoredCluster) -> None:
    """Those that have ended, and those with the goal already, do not change."""
    _, first, second = await array(cluster)
    ids = [SessionId(first), SessionId(second), SessionId("nothing")]
    await cluster.stop(first)

    async def stopped() -> Sequence[str]:
        changed = await cluster.store.run(lambda unit: unit.sessions.set_goals(ids, Goal.STOP, BY_USER))
        return [one.session_id for one in changed]

    expect(await stopped() == [second], "other sessions than the live one changed")
    expect((await cluster.session(second)).status is SessionStatus.CANCELLED, "it still waits")
    expect(not await stopped(), "a session changed twice")


async def a_name_is_unique_among_live_sessions_and_arrays(cluster: StoredCluster) -> None:
    """Also if both are stored concurrently; nothing of the second is stored."""
    user, taken = cluster.new("u"), cluster.new("taken")
    await array(cluster, name=taken, user=user)
    session = cluster.submit(cluster.new("s"), name=taken, owner=Owner(user=user))
    await refusal(session, Conflict)
    await refusal(array(cluster, name=taken, user=user), Conflict)
    name = cluster.new("taken")

    async def first(unit: UnitOfWork) -> None:
        await unit.sessions.enqueue(session_spec(cluster.new("s"), name=name, owner=Owner(user=user)), BY_USER)
        second = asyncio.create_task(array(cluster, name=name, user=user))
        seconds.append(second)
        # It waits for this unit of work; without a lock it would be stored by now.
        await asyncio.wait([second], timeout=LOCKED_S)

    seconds: list[asyncio.Task[list[str]]] = []
    await cluster.store.run(first)
    await refusal(seconds[0], Conflict)
    expect(not await _named(cluster, name), "the second was stored")


CHECKS: tuple[Check, ...] = (
    a_name_is_unique_among_live_sessions_and_arrays,
    an_array_is_read_as_it_was_stored,
    an_array_is_found_by_id_name_and_prefix,
    arrays_are_listed_newest_first,
    sessions_are_counted_by_status_and_result,
    sessions_that_are_still_to_be_stored_are_taken_once,
    a_replaced_session_does_not_count,
    goals_of_many_sessions_are_set_at_once,
)
