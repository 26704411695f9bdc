"""The status of sessions follows their kernels."""

from __future__ import annotations

from functools import cache
from itertools import combinations_with_replacement, product

import pytest

from sokovan.adapters.sql.repositories.sessions.transitions import Transitions
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.errors import ForbiddenCause, IllegalTransition
from sokovan.domain.lifecycle.kernel import ALIVE, KERNEL, KernelStatus, KernelTrigger
from sokovan.domain.lifecycle.session import (
    Goal,
    SessionIntent,
    SessionStatus,
    SessionTrigger,
    following_trigger,
    session_status,
)
from sokovan.testing.stored_cluster import BY_AGENT, BY_COORDINATOR, StoredCluster
from tests.unit.adapters.sql.cluster_rows import kernel_state, session_state
from tests.unit.adapters.sql.statements import recorded_statements

Kernels = tuple[KernelStatus, ...]
Step = tuple[Kernels, tuple[KernelTrigger, ...], Kernels]


@cache
def steps(count: int) -> list[Step]:
    """Every way in which some of `count` kernels make one legal move each, in one call."""
    found: list[Step] = []
    ways: dict[KernelStatus, list[tuple[KernelTrigger | None, KernelStatus]]] = {
        status: [(None, status), *((move.trigger, move.after) for move in KERNEL.moves if move.before is status)]
        for status in KernelStatus
    }
    for before in combinations_with_replacement(KernelStatus, count):
        for chosen in product(*(ways[status] for status in before)):
            triggers = tuple(trigger for trigger, _ in chosen if trigger is not None)
            if triggers:
                found.append((before, triggers, tuple(after for _, after in chosen)))
    return found


def misses(goal: Goal, required: int, count: int) -> list[Step]:
    """The steps after which the session's table has no row for what follows."""
    intent, missed = SessionIntent(goal=goal, required=required), []
    status_of = cache(lambda kernels: session_status(intent, kernels))
    for before, triggers, after in steps(count):
        first, second = status_of(before), status_of(after)
        if first is second:
            continue
        try:
            for trigger in triggers:
                following_trigger(first, second, trigger)
        except IllegalTransition:
            missed.append((before, triggers, after))
    return missed


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("goal", Goal, ids=lambda goal: goal.name)
def test_the_table_has_a_row_for_whatever_kernels_do_together(goal: Goal, count: int) -> None:
    """With three exceptions, which never occur: kernels that get an agent, or wait again, while their session ends.

    The allocator refuses a session whose goal is past RUN, and `set_goal` withdraws what waits in the same step.
    Kernels wait again only in a session that is retried: its goal is RUN, and none of its kernels is alive. Kernels
    are spared only together, and then enough of them run.
    """
    for required in range(1, count + 1):
        for before, triggers, after in misses(goal, required, count):
            if KernelTrigger.REQUEUED in triggers:
                assert goal is not Goal.RUN or any(status in ALIVE for status in (*before, *after))
                continue
            if KernelTrigger.SPARED in triggers:
                assert goal is not Goal.RUN or after.count(KernelStatus.RUNNING) < required
                continue
            assert goal is not Goal.RUN
            assert KernelTrigger.ALLOCATED in triggers
            assert KernelStatus.PENDING in before


async def settled(cluster: StoredCluster, *statuses: KernelStatus, goal: Goal, status: SessionStatus) -> list[str]:
    """The triggers by which a session follows its kernels."""
    kernels = [kernel_state(f"s.{index}", status=one) for index, one in enumerate(statuses)]
    session = session_state("s", *kernels, status=status, goal=goal, required=1)

    async def work(unit: SqlUnitOfWork) -> list[str]:
        transitions = Transitions(unit.transaction, BY_COORDINATOR)
        transitions.settle(session, KernelTrigger.STOP_REQUESTED)
        unit.transaction.events.clear()
        return [line.trigger for part in transitions._history for line in part.sessions]

    return await cluster.store.run_sql(work)


async def test_an_end_before_the_kernels_end_is_a_forced_one() -> None:
    going, gone = KernelStatus.TERMINATING, KernelStatus.TERMINATED
    async with StoredCluster.open() as cluster:
        forced = await settled(cluster, going, gone, goal=Goal.FORCE, status=SessionStatus.TERMINATING)
        natural = await settled(cluster, gone, gone, goal=Goal.FORCE, status=SessionStatus.TERMINATING)
        assert forced == [SessionTrigger.FORCED.value]
        assert natural == [SessionTrigger.KERNELS_GONE.value]


async def test_an_unchanged_session_publishes_nothing() -> None:
    async with StoredCluster.open() as cluster:
        events = await settled(cluster, KernelStatus.RUNNING, goal=Goal.RUN, status=SessionStatus.RUNNING)
        assert events == []


async def test_a_kernel_that_cannot_move_stops_everything() -> None:
    kernel = kernel_state("s.0", status=KernelStatus.RUNNING)
    session = session_state("s", kernel, status=SessionStatus.RUNNING)
    async with StoredCluster.open() as cluster:

        async def work(unit: SqlUnitOfWork) -> None:
            transaction = unit.transaction
            with pytest.raises(IllegalTransition):
                Transitions(transaction, BY_COORDINATOR).move_kernel(session, kernel, KernelTrigger.ALLOCATED)
            with pytest.raises(ForbiddenCause):
                Transitions(transaction, BY_AGENT).move_kernel(session, kernel, KernelTrigger.EXPIRED)

        await cluster.store.run_sql(work)
    assert (kernel.status, kernel.version) == (KernelStatus.RUNNING, 1)


def updated_columns(statements: list[str], table: str) -> list[set[str]]:
    """The columns that each update of a table sets."""
    updates = [text.partition("SET ")[2].partition(" FROM ")[0] for text in statements if f"UPDATE {table}" in text]
    return [{part.partition("=")[0].strip() for part in text.split(", ") if "=" in part} for text in updates]


async def test_what_a_move_does_not_change_is_not_written() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1")
        await cluster.submit("s")
        with recorded_statements(cluster) as statements:
            await cluster.place("s", "a1")
            await cluster.start("s")
            await cluster.stop("s")
        always = {"status", "version", "history_sequence", "goal", "since_ms", "stamp"}
        placed, *started, stopped = updated_columns(statements, "sessions")
        assert placed == always | {"scheduled_ms"}
        assert all(columns == always for columns in started)
        assert stopped == always | {"cause", "cause_detail", "result"}


async def test_columns_of_kernels_that_no_move_changes_are_not_written() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1", slots={"cpu": 1_000_000, "mem": 1 << 50})
        await cluster.submit("s", kernels=2)
        with recorded_statements(cluster) as statements:
            await cluster.place("s", "a1", "a1")
            await cluster.start("s")
            await cluster.stop("s")
        always = {"status", "version", "history_sequence", "since_ms"}
        placed, *started, stopped = updated_columns(statements, "kernels")
        assert placed == always | {"agent_id", "incarnation", "rank", "host_ports"}
        assert [columns - always for columns in started if columns != always] == [{"sent"}]
        assert stopped == always
