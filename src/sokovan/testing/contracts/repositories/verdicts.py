"""Contract of `ports.repositories.verdicts.Verdicts`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from sokovan.domain.ids import ScalingGroupName, SessionId
from sokovan.ports.repositories.sessions import SessionFilter, SessionProperty
from sokovan.ports.repositories.verdicts import StoredVerdict
from sokovan.testing.contracts import expect
from sokovan.testing.stored_cluster import DEFAULT_GROUP, StoredCluster

Check: TypeAlias = Callable[[StoredCluster], Awaitable[None]]

DOCUMENT = '{"reasons":[{"code":"no-slots","detail":"näme \' \\" \\\\ %s :x"}]}'


async def put(cluster: StoredCluster, *verdicts: StoredVerdict) -> None:
    """Store verdicts."""
    await cluster.store.run(lambda unit: unit.verdicts.put(verdicts))


async def of(cluster: StoredCluster, *names: str) -> Mapping[SessionId, StoredVerdict]:
    """The verdicts on sessions."""
    return await cluster.store.read(lambda unit: unit.verdicts.of([SessionId(name) for name in names]))


async def got(cluster: StoredCluster, name: str) -> StoredVerdict | None:
    """The verdict on one session."""
    return await cluster.store.read(lambda unit: unit.verdicts.get(SessionId(name)))


async def _waiting(cluster: StoredCluster) -> StoredVerdict:
    """A pending session, and a verdict on it that is not stored yet."""
    name = cluster.new("s")
    await cluster.submit(name)
    return StoredVerdict(SessionId(name), "no-slots", "it waits for 2 gpu", DOCUMENT)


async def a_verdict_is_read_as_it_was_stored(cluster: StoredCluster) -> None:
    """With the store's time."""
    verdict = await _waiting(cluster)
    expect(await got(cluster, verdict.session_id) is None, "a session has a verdict before one was given")
    await put(cluster, replace(verdict, first_ms=1, last_ms=2, times=99))
    found = await got(cluster, verdict.session_id)
    expect(found is not None, "a verdict was not kept")
    if found is not None:
        expect((found.code, found.summary, found.document) == ("no-slots", verdict.summary, DOCUMENT), "it was changed")
        expect(found.first_ms == found.last_ms > 2 and found.times == 1, "the first of its kind is counted otherwise")


async def sessions_are_listed_by_the_code_of_their_verdict(cluster: StoredCluster) -> None:
    """Those that wait for it now."""
    code, other, verdict = cluster.new("code"), await _waiting(cluster), await _waiting(cluster)
    wanted = SessionFilter(reason=code)
    await put(cluster, other, replace(verdict, code=code))
    page = await cluster.store.read(lambda unit: unit.sessions.page(wanted, limit=9))
    expect([one.session_id for one in page] == [verdict.session_id], "another session is listed, or this one is not")
    found = await cluster.store.read(lambda unit: unit.sessions.counts(wanted, SessionProperty.STATUS, most=9))
    expect(found == {"pending": 1}, "sessions are not counted by the code")
    await put(cluster, verdict)
    expect(not await cluster.store.read(lambda unit: unit.sessions.page(wanted, limit=9)), "a former reason is found")
    invalid = SessionFilter(reason="no such code")
    expect(not await cluster.store.read(lambda unit: unit.sessions.page(invalid, limit=9)), "an invalid code is found")


async def a_repeated_code_is_counted(cluster: StoredCluster) -> None:
    """From the first time; its text may change. Another code resets the count."""
    verdict = await _waiting(cluster)
    await put(cluster, verdict)
    first = await got(cluster, verdict.session_id)
    await cluster.elapse(0.05)
    await put(cluster, replace(verdict, summary="it waits for 1 gpu", document="{}"))
    again = await got(cluster, verdict.session_id)
    expect(first is not None and again is not None, "a verdict was not kept")
    if first is None or again is None:
        return
    expect(
        (again.times, again.first_ms, again.summary) == (2, first.first_ms, "it waits for 1 gpu"), "it is not counted"
    )
    expect(again.last_ms > first.last_ms and again.document == "{}", "the last time or its document is not kept")
    await put(cluster, replace(verdict, code="quota"))
    other = await got(cluster, verdict.session_id)
    expect(other is not None and other.times == 1 and other.first_ms >= again.last_ms, "another code is counted")


async def a_held_session_is_not_eligible(cluster: StoredCluster) -> None:
    """It is from the first verdict that does not hold it, until one does."""
    verdict = await _waiting(cluster)

    async def after(*, held: bool, code: str) -> int | None:
        await cluster.elapse(0.05)
        await put(cluster, replace(verdict, code=code, held=held, eligible_ms=7))
        found = await got(cluster, verdict.session_id)
        expect(found is not None and found.held is held, "it is not kept whether the session is held")
        return None if found is None else found.eligible_ms

    expect(await after(held=True, code="quota") is None, "a held session is eligible")
    first = await after(held=False, code="no-slots")
    expect(first is not None and first > 7, "a session is not eligible by the store's time")
    expect(await after(held=False, code="reserved") == first, "another code changes since when it is eligible")
    expect(await after(held=True, code="reserved") is None, "a session stays eligible although it is held")
    again = await after(held=False, code="reserved")
    expect(again is not None and first is not None and again > first, "the time of holding counts")


async def eligible_sessions_are_found_by_time(cluster: StoredCluster) -> None:
    """Those of the scaling group, longest first, up to a limit."""
    verdicts = [await _waiting(cluster) for _ in range(4)]
    times = []
    for verdict in verdicts:
        await put(cluster, replace(verdict, held=verdict is verdicts[2]))
        times.append((await of(cluster, verdict.session_id))[verdict.session_id].last_ms)
        await cluster.elapse(0.05)
    await cluster.stop(verdicts[3].session_id)
    ours = [one.session_id for one in verdicts]

    async def found(until_ms: int, *, limit: int = 1_000, group: ScalingGroupName = DEFAULT_GROUP) -> list[SessionId]:
        ids = await cluster.store.read(lambda unit: unit.verdicts.eligible_before(group, until_ms, limit=limit))
        return [one for one in ids if one in ours]

    expect(await found(times[-1]) == ours[:2], "not the waiting sessions that nothing holds, longest first")
    expect(await found(times[0]) == ours[:1], "a session that became eligible later is found")
    expect(await found(times[0] - 1) == [], "a session is found before it was eligible")
    expect(await found(times[-1], limit=0) == [], "there is no limit")
    expect(await found(times[-1], group=ScalingGroupName(cluster.new("g"))) == [], "those of another group are found")


async def many_verdicts_are_stored_at_once(cluster: StoredCluster) -> None:
    """The last one per session counts; unknown sessions are ignored."""
    verdicts = [await _waiting(cluster) for _ in range(5)]
    nobody = replace(verdicts[0], session_id=SessionId(cluster.new("s")))
    await put(cluster, nobody, *reversed(verdicts), replace(verdicts[0], code="quota"))
    found = await of(cluster, *[one.session_id for one in verdicts], nobody.session_id)
    expect(sorted(found) == sorted(one.session_id for one in verdicts), "not every verdict was kept, or one too many")
    expect(found[verdicts[0].session_id].code == "quota", "the last verdict on a session does not count")
    expect(found[verdicts[0].session_id].times == 1, "two verdicts of one call were counted")
    await put(cluster)
    expect(await of(cluster) == {}, "an unknown session has a verdict")


async def a_session_that_started_or_ended_has_none(cluster: StoredCluster) -> None:
    """Even if the verdict was not removed; a late one is ignored."""
    started, ended = await _waiting(cluster), await _waiting(cluster)
    await put(cluster, started, ended)
    agent = cluster.new("a")
    await cluster.agent(agent)
    await cluster.place(started.session_id, agent)
    await cluster.stop(ended.session_id)
    for verdict in (started, ended):
        expect(await got(cluster, verdict.session_id) is None, "a session that is not pending has a verdict")
    await cluster.store.prune(older_than_s=3600)
    await put(cluster, started, ended)
    expect(await of(cluster, started.session_id, ended.session_id) == {}, "a late verdict was kept")
    expect(await cluster.store.prune(older_than_s=3600) == 0, "a late verdict was stored all the same")


async def a_removed_verdict_is_gone(cluster: StoredCluster) -> None:
    """Others stay; sessions without one are ignored."""
    gone, stays = await _waiting(cluster), await _waiting(cluster)
    await put(cluster, gone, stays)
    missing = SessionId(cluster.new("s"))
    await cluster.store.run(lambda unit: unit.verdicts.remove([gone.session_id, missing]))
    await cluster.store.run(lambda unit: unit.verdicts.remove([]))
    expect(list(await of(cluster, gone.session_id, stays.session_id)) == [stays.session_id], "another one is gone")
    await put(cluster, gone)
    again = await got(cluster, gone.session_id)
    expect(again is not None and again.times == 1, "a removed verdict is still counted")


async def concurrent_verdicts_are_all_counted(cluster: StoredCluster) -> None:
    """In any order."""
    verdicts = [await _waiting(cluster) for _ in range(4)]
    await asyncio.gather(*(put(cluster, *order) for order in (verdicts, verdicts[::-1], verdicts[1:])))
    found = await of(cluster, *[one.session_id for one in verdicts])
    expect([found[one.session_id].times for one in verdicts] == [2, 3, 3, 3], "a verdict was not counted")


CHECKS: tuple[Check, ...] = (
    a_verdict_is_read_as_it_was_stored,
    sessions_are_listed_by_the_code_of_their_verdict,
    a_repeated_code_is_counted,
    a_held_session_is_not_eligible,
    eligible_sessions_are_found_by_time,
    many_verdicts_are_stored_at_once,
    a_session_that_started_or_ended_has_none,
    a_removed_verdict_is_gone,
    concurrent_verdicts_are_all_counted,
)
