"""The copy of live sessions: who needs what, who is where."""

from dataclasses import replace
from typing import Any

import pytest

from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.lifecycle.session import Goal, SessionIntent, session_status
from sokovan.domain.records import KernelRecord, SessionRecord
from sokovan.orchestrator.sessions.session_cache import Need, SessionCache, needs_of, settled
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
        ([K.PENDING], Goal.RUN, {Need.A_PLACE}),
        ([K.SCHEDULED], Goal.RUN, {Need.IMAGES}),
        ([K.PULLING, K.PREPARED], Goal.RUN, {Need.IMAGES, Need.A_START}),
        ([K.CREATING], Goal.RUN, {Need.NEWS}),
        ([K.RUNNING], Goal.RUN, set()),
        ([K.TERMINATING, K.RUNNING], Goal.RUN, {Need.AN_END}),
        ([K.TERMINATING], Goal.FORCE, {Need.AN_END}),
    ],
)
def test_what_a_session_needs_follows_from_its_kernels(kernels: list[K], goal: Goal, needs: set[Need]) -> None:
    assert needs_of(session(*kernels, goal=goal)) == needs


def test_an_elastic_session_needs_a_place_while_it_runs() -> None:
    assert needs_of(session(K.RUNNING, K.PENDING, min_kernels=1)) == {Need.A_PLACE}
    assert needs_of(session(K.RUNNING, time_limit_s=5)) == {Need.A_LIMIT}


def test_a_session_ended_by_force_is_settled_when_it_holds_nothing() -> None:
    assert not settled(session(K.TERMINATING, goal=Goal.FORCE))
    assert settled(session(K.TERMINATED, goal=Goal.FORCE))
    assert settled(session(K.CANCELLED, goal=Goal.STOP))


def test_sessions_are_found_by_need_and_by_place() -> None:
    moves: Moves = []
    live = SessionCache(lambda before, after: moves.append((before, after)))
    live.put(session(K.CREATING, K.RUNNING))
    assert [one.session_id for one in live.needing(Need.NEWS)] == ["s"]
    assert live.kernels_on(AgentId("a1")) == [KernelId("s.1")]
    assert live.sessions_on(AgentId("a0")) == [SessionId("s")]
    assert live.session_of(KernelId("s.0")) == SessionId("s")
    live.put(session(K.RUNNING, K.RUNNING, version=2))
    assert live.count(Need.NEWS) == 0
    live.put(session(K.TERMINATED, K.TERMINATED, version=3))
    assert (live.get(SessionId("s")), live.kernels_on(AgentId("a1")), list(live.all())) == (None, [], [])
    assert [after.version for _, after in moves] == [1, 2, 3]


def test_what_is_old_or_known_changes_nothing() -> None:
    moves: Moves = []
    live = SessionCache(lambda before, after: moves.append((before, after)))
    live.put(session(K.RUNNING, version=5))
    live.put(session(K.CREATING, version=4))
    live.put(session(K.RUNNING, version=5))
    assert len(moves) == 1
    assert live.take_touched() == ["s"]
    assert live.take_touched() == []
    assert live.knows(SessionId("s"), 5)
    assert not live.knows(SessionId("s"), 6)


def test_a_kernel_that_was_taken_over_is_news_of_the_same_version() -> None:
    live = SessionCache(lambda _before, _after: None)
    known = session(K.RUNNING)
    live.put(known)
    live.take_touched()
    adopted = replace(known, kernels=tuple(replace(one, incarnation=2, version=2) for one in known.kernels))
    live.put(adopted)
    assert live.take_touched() == ["s"]
    assert live.get(SessionId("s")) == adopted


def test_a_session_that_settled_does_not_come_back() -> None:
    moves: Moves = []
    live = SessionCache(lambda before, after: moves.append((before, after)))
    live.put(session(K.TERMINATED))
    live.put(session(K.TERMINATED))
    assert len(moves) == 1
    assert live.knows(SessionId("s"), 99)
    live.doubt([SessionId("s")])
    live.clear()
    assert not live.knows(SessionId("s"), 1)
    assert live.doubtful == {}
