"""The cache of cache sessions: needs, indexes, loading and refreshing."""

from dataclasses import replace
from random import Random  # noqa: TID251  # a fixed series
from typing import Any

import pytest

from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.kernel import FreeProof, KernelStatus
from sokovan.domain.lifecycle.session import Goal, SessionIntent, SessionStatus, session_status
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.records import KernelRecord, SessionRecord
from sokovan.orchestrator.sessions import session_cache
from sokovan.orchestrator.sessions.session_cache import (
    LARGE,
    Need,
    SessionCache,
    SessionCacheReader,
    is_settled,
    needs_of,
)
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.simple_work import work_spec

K = KernelStatus
Moves = list[tuple[SessionRecord | None, SessionRecord]]


def session(*kernels: K, goal: Goal = Goal.RUN, version: int = 1, **options: Any) -> SessionRecord:
    spec = work_spec("s", kernels=len(kernels), **options)
    status = session_status(SessionIntent(goal, spec.gang_size), kernels)
    records = tuple(
        KernelRecord(
            one.kernel_id, spec.session_id, index, kernels[index], 1, one.slots,
            agent_id=None if kernels[index] in {K.PENDING, K.CANCELLED} else AgentId(f"a{index}"),
        )
        for index, one in enumerate(spec.kernels)
    )  # fmt: skip
    return SessionRecord(spec.session_id, spec, status, version, goal, 0, records)


@pytest.mark.parametrize(
    ("kernels", "goal", "needs"),
    [
        ([K.PENDING], Goal.RUN, {Need.SCHEDULING}),
        ([K.SCHEDULED], Goal.RUN, {Need.IMAGES}),
        ([K.PULLING, K.PREPARED], Goal.RUN, {Need.IMAGES, Need.CREATION}),
        ([K.CREATING], Goal.RUN, {Need.CONFIRMATION}),
        ([K.RUNNING], Goal.RUN, {Need.SUPERVISION}),
        ([K.TERMINATING, K.RUNNING], Goal.RUN, {Need.TERMINATION}),
        ([K.TERMINATING], Goal.FORCE, {Need.TERMINATION}),
    ],
)
def test_what_a_session_needs_follows_from_its_kernels(kernels: list[K], goal: Goal, needs: set[Need]) -> None:
    assert needs_of(session(*kernels, goal=goal)) == needs


def test_an_elastic_session_needs_a_place_while_it_runs() -> None:
    assert needs_of(session(K.RUNNING, K.PENDING, min_kernels=1)) == {Need.SCHEDULING, Need.SUPERVISION}
    assert needs_of(session(K.RUNNING, time_limit_s=5)) == {Need.SUPERVISION, Need.TIME_LIMIT}


def test_a_session_ended_by_force_is_settled_when_it_holds_nothing() -> None:
    assert not is_settled(session(K.TERMINATING, goal=Goal.FORCE))
    assert is_settled(session(K.TERMINATED, goal=Goal.FORCE))
    assert is_settled(session(K.CANCELLED, goal=Goal.STOP))


def test_sessions_that_only_wait_have_not_begun() -> None:
    cache = SessionCache(lambda _before, _after: None)
    for version, (kernels, begun) in enumerate(
        [
            ([K.PENDING, K.PENDING], False),
            ([K.PENDING, K.SCHEDULED], True),
            ([K.PENDING, K.PENDING], False),
            ([K.RUNNING, K.RUNNING], True),
        ],
        start=1,
    ):
        cache.put(session(*kernels, version=version))
        assert bool(cache.begun) is begun
    assert {status: count for status, count in cache.statuses.items() if count} == {SessionStatus.RUNNING: 1}
    cache.put(session(K.TERMINATED, K.TERMINATED, goal=Goal.STOP, version=9))
    assert not cache.begun
    assert not +cache.statuses


def test_while_large_sessions_are_hidden_only_small_ones_need_something() -> None:
    cache = SessionCache(lambda _before, _after: None)
    cache.put(session(K.SCHEDULED))
    assert not cache.bulk
    large = session(*[K.SCHEDULED] * (LARGE + 1))
    cache.put(replace(large, session_id=SessionId("large")))
    assert [one.session_id for one in cache.needing(Need.IMAGES)] == ["s", "large"]
    cache.bulk.hidden = True
    assert [one.session_id for one in cache.needing(Need.IMAGES)] == ["s"]
    assert (cache.bulk.hides(SessionId("large")), cache.bulk.hides(SessionId("s"))) == (True, False)
    cache.put(replace(session(K.TERMINATED, version=2), session_id=SessionId("large")))
    assert not cache.bulk


def one_of(user: str, number: int, status: K = K.SCHEDULED, **options: Any) -> SessionRecord:
    record = session(status, owner=Owner(user=user), **options)
    return replace(record, session_id=SessionId(f"{user}-{number}"))


def test_while_the_bulk_is_hidden_sessions_of_users_with_many_to_move_need_nothing() -> None:
    cache = SessionCache(lambda _before, _after: None)
    for number in range(LARGE):
        cache.put(one_of("ada", number))
    cache.put(one_of("bob", 0))
    assert (bool(cache.bulk), cache.bulk.others_move) == (False, True)
    cache.put(one_of("ada", LARGE))
    assert bool(cache.bulk)
    cache.bulk.hidden = True
    assert [one.session_id for one in cache.needing(Need.IMAGES)] == ["bob-0"]
    assert (cache.count(Need.IMAGES), cache.bulk.others_move) == (1, True)
    cache.put(one_of("bob", 0, K.RUNNING, version=2))  # of which nothing is to be done now
    assert (cache.count(Need.IMAGES), cache.bulk.others_move) == (0, False)
    assert (cache.bulk.hides(SessionId("ada-0")), cache.bulk.hides(SessionId("bob-0"))) == (True, False)
    cache.put(one_of("ada", 0, K.RUNNING, version=2))
    assert (bool(cache.bulk), cache.count(Need.IMAGES)) == (False, LARGE)
    cache.clear()
    assert not cache.bulk.others_move


def test_sessions_are_found_by_need_and_by_place() -> None:
    moves: Moves = []
    cache = SessionCache(lambda before, after: moves.append((before, after)))
    cache.put(session(K.CREATING, K.RUNNING))
    assert [one.session_id for one in cache.needing(Need.CONFIRMATION)] == ["s"]
    assert [one.kernel_id for one in cache.kernels_on(AgentId("a1"))] == [KernelId("s.1")]
    held = cache.kernel(KernelId("s.0"))
    assert held is not None
    assert (held.session_id, held.agent_id) == (SessionId("s"), AgentId("a0"))
    cache.put(session(K.RUNNING, K.RUNNING, version=2))
    assert cache.count(Need.CONFIRMATION) == 0
    cache.put(session(K.TERMINATED, K.TERMINATED, version=3))
    assert (cache.get(SessionId("s")), cache.kernels_on(AgentId("a1")), list(cache.all())) == (None, [], [])
    assert [after.version for _, after in moves] == [1, 2, 3]


def test_what_is_old_or_known_changes_nothing() -> None:
    moves: Moves = []
    cache = SessionCache(lambda before, after: moves.append((before, after)))
    cache.put(session(K.RUNNING, version=5))
    cache.put(session(K.CREATING, version=4))
    cache.put(session(K.RUNNING, version=5))
    assert len(moves) == 1
    assert cache.take_changed() == ["s"]
    assert cache.take_changed() == []
    assert cache.knows(SessionId("s"), 5)
    assert not cache.knows(SessionId("s"), 6)


def test_a_kernel_that_was_taken_over_is_news_of_the_same_version() -> None:
    cache = SessionCache(lambda _before, _after: None)
    known = session(K.RUNNING)
    cache.put(known)
    cache.take_changed()
    adopted = replace(known, kernels=tuple(replace(one, incarnation=2, version=2) for one in known.kernels))
    cache.put(adopted)
    assert cache.take_changed() == ["s"]
    assert cache.get(SessionId("s")) == adopted


def test_a_session_that_settled_does_not_come_back() -> None:
    moves: Moves = []
    cache = SessionCache(lambda before, after: moves.append((before, after)))
    cache.put(session(K.TERMINATED))
    cache.put(session(K.TERMINATED))
    assert len(moves) == 1
    assert cache.knows(SessionId("s"), 99)
    cache.mark_stale([SessionId("s")])
    cache.clear()
    assert not cache.knows(SessionId("s"), 1)
    assert cache.stale == {}


def test_kernels_that_stay_the_same_objects_are_found_as_if_all_were_indexed_anew() -> None:
    cache, source = SessionCache(lambda _before, _after: None), Random(7)  # noqa: S311  # a fixed series
    record, states = session(*[K.PENDING] * 6), tuple(K)
    for version in range(2, 200):
        kernels = list(record.kernels)
        for index in source.sample(range(6), source.randrange(4)):
            status = source.choice(states)
            placed = None if status in {K.PENDING, K.CANCELLED} else AgentId(f"a{source.randrange(3)}")
            kernels[index] = replace(kernels[index], status=status, agent_id=placed)
        record = replace(record, kernels=tuple(kernels), version=version, status=SessionStatus.RUNNING)
        cache.put(record)
        fresh = SessionCache(lambda _before, _after: None)
        fresh.put(record)
        for kernel in record.kernels:
            assert cache.kernel(kernel.kernel_id) is fresh.kernel(kernel.kernel_id)
        for agent_id in map(AgentId, ("a0", "a1", "a2")):
            found, expected = cache.kernels_on(agent_id), fresh.kernels_on(agent_id)
            assert sorted(one.index for one in found) == sorted(one.index for one in expected)


def cached(cluster: OrchestratedCluster) -> tuple[SessionCache, SessionCacheReader, list[SessionRecord]]:
    changed: list[SessionRecord] = []
    cache = SessionCache(lambda _before, after: changed.append(after))
    return cache, SessionCacheReader(cache, cluster.store), changed


@pytest.mark.slow
async def test_all_unsettled_sessions_are_loaded(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1")
    for name in ("waiting", "running", "forced", "over"):
        await cluster.submit(name)
    for name in ("running", "forced", "over"):
        await cluster.stored.place(name, "a1")
    await cluster.stored.start("running")
    await cluster.stored.start("forced")
    await cluster.stop("forced", forced=True)
    await cluster.stop("over")
    await cluster.stored.free("over", FreeProof.NEVER_SENT)
    cache, reader, _ = cached(cluster)
    await reader.load()
    assert sorted(one.session_id for one in cache.all()) == ["forced", "running"], "those that wait are read later"
    await reader.refresh()
    assert sorted(one.session_id for one in cache.all()) == ["forced", "running", "waiting"]
    assert [one.session_id for one in cache.needing(Need.TERMINATION)] == ["forced"]


@pytest.mark.slow
async def test_what_others_write_is_read_at_the_next_refresh(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1")
    cache, reader, changed = cached(cluster)
    await reader.load()
    await cluster.submit("s")
    await reader.refresh()
    assert cache.get(SessionId("s")) is not None
    assert cache.now_ms == cluster.clock.now_ms()
    await cluster.stop("s")
    await reader.refresh()
    assert cache.get(SessionId("s")) is None
    await reader.refresh()
    assert [one.status for one in changed] == [SessionStatus.PENDING, SessionStatus.CANCELLED]


@pytest.mark.slow
async def test_what_we_wrote_ourselves_is_not_read_again(cluster: OrchestratedCluster) -> None:
    cache, reader, changed = cached(cluster)
    await reader.load()
    cache.put(await cluster.submit("s"))
    await reader.refresh()
    assert len(changed) == 1


async def test_of_many_new_sessions_a_part_is_read_at_a_time_and_users_take_turns(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_cache, "READ_AT_ONCE", 3)
    cache, reader, _ = cached(cluster)
    await reader.load()
    for number in range(5):
        await cluster.submit(f"s{number}", owner=Owner(user="ada"))
    await cluster.submit("shell", owner=Owner(user="bob"))
    await reader.refresh()
    assert (sorted(one.session_id for one in cache.all()), len(reader.unread)) == (["s0", "s1", "shell"], 3)
    await cluster.stop("s0")  # a session that is known is read at once
    await cluster.stop("s4")
    await reader.refresh()
    assert (sorted(one.session_id for one in cache.all()), len(reader.unread)) == (["s1", "s2", "s3", "shell"], 0)


@pytest.mark.slow
async def test_what_is_in_doubt_is_read_again(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    cache, reader, _ = cached(cluster)
    await reader.load()
    await agent.restart()  # the kernel goes over to the new incarnation, and its session is not written
    await reader.refresh()
    before = cache.get(SessionId("s"))
    cache.mark_stale([SessionId("s")])
    await reader.refresh()
    after = cache.get(SessionId("s"))
    assert before is not None
    assert after is not None
    assert (before.kernels[0].incarnation, after.kernels[0].incarnation) == (1, 2)
    assert cache.stale == {}
