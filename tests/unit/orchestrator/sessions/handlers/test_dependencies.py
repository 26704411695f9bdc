"""Who depends on a failure is withdrawn; who depends on a success is not."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sokovan.domain.arrays import ArrayMember
from sokovan.domain.errors import Conflict, StoreUnavailable
from sokovan.domain.ids import ArrayId, SessionId
from sokovan.domain.lifecycle.session import Goal
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.records import ArrayRecord
from sokovan.domain.session import SessionType
from sokovan.orchestrator.sessions.context import CycleInput
from sokovan.orchestrator.sessions.handlers.dependencies import STEP_SESSIONS_MAX, STEPS_MAX, WithdrawDependents
from sokovan.ports.storage import UnitOfWork
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.simple_work import work_spec
from sokovan.testing.stored_cluster import BY_COORDINATOR, BY_USER

pytestmark = pytest.mark.slow

# More than any agent has, so that it stays pending.
HUGE = {"cpu": 10**9}


def handler_of(cluster: OrchestratedCluster) -> WithdrawDependents:
    return cluster.coordinator._dependents


def once(then: Callable[..., Awaitable[object]], problem: Exception) -> Callable[..., Awaitable[object]]:
    """The same work, which fails the first time."""
    problems = [problem]

    async def work(*args: object, **options: object) -> object:
        if problems:
            raise problems.pop()
        return await then(*args, **options)

    return work


async def someone_waits_for_a_failure(cluster: OrchestratedCluster) -> None:
    """`second` depends on `first`, which has failed; both are cached but not handled yet."""
    agent = await cluster.agent("a1")
    await cluster.submit("first")
    await cluster.submit("second", dependencies=(SessionId("first"),))
    await cluster.settle()
    coordinator = cluster.coordinator
    coordinator.handlers, coordinator.recheck_handlers = coordinator.handlers[:3], coordinator.recheck_handlers[:2]
    await agent.ends("first.0", 1)
    await cluster.settle()
    assert await cluster.status("second") == "pending"


class RequeuedMeanwhile:
    """A handler that replaces `first` once, as a requeue whose response was lost does."""

    name = "requeued-meanwhile"

    def __init__(self, cluster: OrchestratedCluster) -> None:
        self._cluster, self._done = cluster, False

    def clear(self) -> None:
        pass

    async def handle(self, cycle: CycleInput) -> bool:
        del cycle
        if not self._done:
            self._done = True
            await self._cluster.store.run(self._replace)
        return False

    async def _replace(self, unit: UnitOfWork) -> None:
        first = SessionId("first")
        await unit.sessions.set_goal(first, Goal.FORCE, BY_COORDINATOR)
        await unit.sessions.enqueue(work_spec("successor", slots=HUGE), BY_COORDINATOR, in_place_of=first)


@pytest.mark.parametrize("place", range(8))
async def test_a_copy_from_before_a_requeue_does_not_withdraw_a_dependent(
    cluster: OrchestratedCluster, place: int
) -> None:
    await cluster.submit("first", slots=HUGE)
    await cluster.submit("second", dependencies=(SessionId("first"),))
    handlers = cluster.coordinator.handlers
    assert place <= len(handlers)
    # The cycle has read `second` before; the requeue commits before the handler at this place.
    cluster.coordinator.handlers = (*handlers[:place], RequeuedMeanwhile(cluster), *handlers[place:])
    await cluster.settle()
    second = await cluster.session("second")
    assert (second.status.value, second.spec.dependencies) == ("pending", ("successor",))
    assert await cluster.status("first") == "cancelled"


async def test_a_cancelled_dependency_is_a_failed_one(cluster: OrchestratedCluster) -> None:
    await cluster.submit("first")
    await cluster.submit("second", dependencies=(SessionId("first"),))
    await cluster.settle()
    await cluster.stop("first")
    await cluster.settle()
    session = await cluster.session("second")
    assert (session.status.value, session.cause) == ("cancelled", "dependency-failed")
    assert "first" in (session.cause_detail or "")


async def test_one_failure_among_many_is_enough(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    for name in ("good", "bad"):
        await cluster.submit(name)
    await cluster.submit("third", dependencies=(SessionId("good"), SessionId("bad")))
    await cluster.settle()
    await agent.ends("good.0", 0)
    await cluster.settle()
    assert await cluster.status("third") == "pending"
    await agent.ends("bad.0", 1)
    await cluster.settle()
    assert (await cluster.session("third")).cause == "dependency-failed"


async def test_a_new_leader_knows_who_waits_for_whom(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("first")
    await cluster.submit("second", dependencies=(SessionId("first"),))
    await cluster.settle()
    await agent.ends("first.0", 1)
    await cluster.fail_over()
    await cluster.settle()
    assert (await cluster.session("second")).cause == "dependency-failed"


async def test_nothing_is_read_while_no_session_has_dependencies(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    await agent.ends("s.0", 1)
    await cluster.settle()
    assert cluster.coordinator._dependents._dependents == {}


async def test_sessions_are_checked_again_after_the_store_was_unavailable(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await someone_waits_for_a_failure(cluster)
    handler = handler_of(cluster)
    monkeypatch.setattr(handler, "_failed", once(handler._failed, StoreUnavailable("gone")))
    with pytest.raises(StoreUnavailable):
        await handler.handle(CycleInput())
    assert await handler.handle(CycleInput())
    assert (await cluster.session("second")).cause == "dependency-failed"


async def test_one_that_could_not_be_withdrawn_is_tried_again_in_time(cluster: OrchestratedCluster) -> None:
    await someone_waits_for_a_failure(cluster)
    handler, context = handler_of(cluster), cluster.coordinator._context
    context.quarantine.failed("second", handler="schedule", error=Conflict("no"))
    assert not await handler.handle(CycleInput())
    assert await cluster.status("second") == "pending"
    await cluster.clock.advance(60)
    assert await handler.handle(CycleInput())
    assert (await cluster.session("second")).cause == "dependency-failed"


async def test_a_session_that_stops_waiting_is_removed_from_the_index(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("first")
    await cluster.settle()
    await agent.ends("first.0", 0)
    await cluster.settle()
    await cluster.submit("second", dependencies=(SessionId("first"),))
    await cluster.submit("third", dependencies=(SessionId("second"),))
    await cluster.settle()
    assert list(handler_of(cluster)._dependents) == ["second"]
    await cluster.stop("third")
    await cluster.settle()
    assert handler_of(cluster)._dependents == {}


@pytest.mark.parametrize(
    ("session_type", "forced", "then"),
    [
        (SessionType.INTERACTIVE, False, "running"),
        (SessionType.INTERACTIVE, True, "cancelled"),
        (SessionType.BATCH, False, "cancelled"),
    ],
)
async def test_who_waits_for_an_interactive_session_goes_on_when_its_user_is_done_with_it(
    cluster: OrchestratedCluster, session_type: SessionType, forced: bool, then: str
) -> None:
    await cluster.agent("a1")
    await cluster.submit("notebook", session_type=session_type)
    await cluster.submit("report", dependencies=(SessionId("notebook"),))
    await cluster.settle()
    assert [await cluster.status(name) for name in ("notebook", "report")] == ["running", "pending"]
    await cluster.stop("notebook", forced=forced)
    await cluster.pass_time(2)
    assert [await cluster.status(name) for name in ("notebook", "report")] == ["terminated", then]


async def test_a_long_chain_is_withdrawn_in_parts_and_others_start_meanwhile(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1")
    chain = [f"c{number}" for number in range(3 * STEPS_MAX)]
    for before, name in zip(["", *chain], chain, strict=False):
        await cluster.submit(name, slots=HUGE, dependencies=(SessionId(before),) if before else ())
    await cluster.settle()
    await cluster.stop("c0")
    await cluster.submit("another")
    assert await cluster.tick(), "another cycle is needed at once"
    statuses = [await cluster.status(name) for name in chain]
    assert 1 < statuses.count("cancelled") < len(chain)
    assert await cluster.status("another") != "pending"
    await cluster.settle()
    assert [await cluster.status(name) for name in chain] == ["cancelled"] * len(chain)
    assert not handler_of(cluster).unfinished


async def test_many_dependents_are_withdrawn_in_parts(cluster: OrchestratedCluster) -> None:
    await cluster.submit("first", slots=HUGE)
    names = [f"d{number}" for number in range(STEP_SESSIONS_MAX + 1)]

    async def work(unit: UnitOfWork) -> None:
        for name in names:
            await unit.sessions.enqueue(work_spec(name, slots=HUGE, dependencies=(SessionId("first"),)), BY_USER)

    await cluster.store.run(work)
    await cluster.hints.set("sessions")
    await cluster.settle()
    await cluster.stop("first")
    await cluster.settle()
    assert {await cluster.status(name) for name in names} == {"cancelled"}


async def submit_array(cluster: OrchestratedCluster, *names: str, at_once: int | None = None, **options: Any) -> None:
    """The array `x`, whose sessions have these ids."""
    record = ArrayRecord(ArrayId("x"), "x", Owner(), "default", "default", "0-9", len(names))

    async def work(unit: UnitOfWork) -> None:
        await unit.arrays.add(record)
        for index, name in enumerate(names):
            member = ArrayMember(ArrayId("x"), index, len(names), 0, len(names) - 1, at_once=at_once)
            await unit.sessions.enqueue(work_spec(name, array=member, name=f"x[{index}]", **options), BY_USER)

    await cluster.store.run(work)


async def test_a_session_waits_for_all_sessions_of_an_array(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await submit_array(cluster, "first", "second")
    await cluster.submit("after", array_dependencies=(ArrayId("x"),))
    await cluster.settle()
    await agent.ends("first.0", 0)
    await cluster.settle()
    assert await cluster.status("after") == "pending"
    await agent.ends("second.0", 0)
    await cluster.settle()
    assert await cluster.status("after") == "running"


async def test_one_failed_session_of_an_array_withdraws_what_depends_on_it(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await submit_array(cluster, "first", "second")
    await cluster.submit("after", array_dependencies=(ArrayId("x"),))
    await cluster.settle()
    await agent.ends("first.0", 1)
    await cluster.settle()
    session = await cluster.session("after")
    assert (session.status.value, session.cause) == ("cancelled", "dependency-failed")
    assert await cluster.status("second") == "running"


async def test_no_more_sessions_of_an_array_run_than_may_run_at_once(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    names = ("first", "second", "third")
    await submit_array(cluster, *names, at_once=1)
    await cluster.settle()
    assert [await cluster.status(name) for name in names] == ["running", "pending", "pending"]
    await cluster.stop("first")
    await agent.ends("first.0", 143)
    await cluster.settle()
    assert [await cluster.status(name) for name in names] == ["terminated", "running", "pending"]


async def test_a_session_of_an_array_that_is_requeued_does_not_fail_the_array(cluster: OrchestratedCluster) -> None:
    await submit_array(cluster, "first", slots=HUGE)
    await cluster.submit("after", array_dependencies=(ArrayId("x"),))
    await cluster.settle()

    async def requeue(unit: UnitOfWork) -> None:
        spec = (await unit.sessions.get(SessionId("first"))).spec
        await unit.sessions.set_goal(SessionId("first"), Goal.FORCE, BY_COORDINATOR)
        copy = work_spec("again", slots=HUGE, name=spec.name, array=spec.array)
        await unit.sessions.enqueue(copy, BY_COORDINATOR, in_place_of=SessionId("first"))

    await cluster.store.run(requeue)
    await cluster.hints.set("sessions")
    await cluster.settle()
    assert [await cluster.status(name) for name in ("first", "after")] == ["cancelled", "pending"]
