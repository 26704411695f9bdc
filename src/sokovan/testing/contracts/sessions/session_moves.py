"""Contract of `ports.repositories.sessions.Sessions`: moves and goals."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from sokovan.domain.errors import ForbiddenCause, IllegalTransition, ObjectNotFound, StaleVersion
from sokovan.domain.ids import AgentId, SessionId
from sokovan.domain.lifecycle.kernel import FreeProof, KernelStatus, KernelTrigger
from sokovan.domain.lifecycle.session import SESSION, Goal, SessionStatus
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.records import Change, HeldSlot, KernelMove, SessionRecord, SessionResult
from sokovan.domain.session import SessionType
from sokovan.ports.storage import UnitOfWork
from sokovan.testing.contracts import expect
from sokovan.testing.contracts.repositories.sessions import session_history
from sokovan.testing.stored_cluster import BY_AGENT, BY_COORDINATOR, BY_USER, StoredCluster, refusal

Check: TypeAlias = Callable[[StoredCluster], Awaitable[None]]


async def move_together(
    cluster: StoredCluster, moves: Sequence[KernelMove], change: Change = BY_COORDINATOR
) -> SessionRecord:
    """Move kernels in one call."""
    return await cluster.store.run(lambda unit: unit.sessions.move_kernels(moves, change))


async def with_goal(cluster: StoredCluster, name: str, goal: Goal, change: Change) -> SessionRecord:
    """Raise the goal of a session that is known, with a cause."""

    async def work(unit: UnitOfWork) -> tuple[SessionRecord, SessionRecord]:
        before = await unit.sessions.get(SessionId(name))
        after = await unit.sessions.set_goal(SessionId(name), goal, change, known=before)
        return after, await unit.sessions.get(SessionId(name))

    after, stored = await cluster.store.run(work)
    expect(after == stored, f"{after} is the record of a session whose goal was raised, {stored} is stored")
    return after


async def placed(
    cluster: StoredCluster, *, kernels: int = 1, running: bool = False, session_type: SessionType = SessionType.BATCH
) -> SessionRecord:
    """A session on its own agent, SCHEDULED or RUNNING."""
    agent, name = cluster.new("a"), cluster.new("s")
    await cluster.agent(agent)
    await cluster.submit(name, kernels=kernels, session_type=session_type)
    await cluster.place(name, *[agent] * kernels)
    return await cluster.start(name) if running else await cluster.session(name)


async def moved(
    cluster: StoredCluster, record: SessionRecord, trigger: KernelTrigger, change: Change = BY_COORDINATOR
) -> SessionRecord:
    """Move the first kernel of a session from the given record."""
    moves = [KernelMove(record.kernels[0], trigger)]
    return await cluster.store.run(lambda unit: unit.sessions.move_kernels(moves, change))


async def exited(cluster: StoredCluster, record: SessionRecord, codes: Sequence[int | None]) -> SessionRecord:
    """Report the exit of the first kernels of a session."""
    pairs = zip(record.kernels, codes, strict=False)
    moves = [KernelMove(kernel, KernelTrigger.EXITED, exit_code=code) for kernel, code in pairs]
    return await move_together(cluster, moves, BY_AGENT)


async def held_with(cluster: StoredCluster, record: SessionRecord) -> Sequence[HeldSlot]:
    """Slots held on the agent of a session's first kernel."""
    agent_id = AgentId(str(record.kernels[0].agent_id))
    return await cluster.store.read(lambda unit: unit.ledger.held(agent_id))


async def a_session_follows_its_kernels(cluster: StoredCluster) -> None:
    """Step by step to RUNNING, with a time for each milestone."""
    record = await placed(cluster, kernels=2)
    expect(record.status is SessionStatus.SCHEDULED, "an allocated session is not SCHEDULED")
    expect(record.scheduled_ms is not None, "an allocated session has no time of it")
    name = record.session_id
    steps = [
        (KernelTrigger.PREPARATION_STARTED, BY_COORDINATOR, SessionStatus.PREPARING),
        (KernelTrigger.PULL_STARTED, BY_AGENT, SessionStatus.PULLING),
        (KernelTrigger.IMAGE_READY, BY_AGENT, SessionStatus.PREPARED),
        (KernelTrigger.CREATION_REQUESTED, BY_COORDINATOR, SessionStatus.CREATING),
        (KernelTrigger.STARTED, BY_AGENT, SessionStatus.RUNNING),
    ]
    for trigger, change, status in steps:
        after = await cluster.move(name, trigger, change)
        expect(after.status is status, f"after {trigger} the session is {after.status}")
        expect(all(kernel.status == status.value for kernel in after.kernels), f"a kernel did not take {trigger}")
    after = await cluster.session(name)
    expect(all(kernel.sent for kernel in after.kernels), "a sent kernel is not marked")
    expect(after.ended_ms is None and after.cause is None, "a running session has an end")


async def a_session_is_as_far_as_the_kernels_it_needs(cluster: StoredCluster) -> None:
    """With a minimum of one the first counts, with a gang the last."""
    agent = cluster.new("a")
    await cluster.agent(agent)
    for minimum, status in ((1, SessionStatus.PREPARED), (None, SessionStatus.SCHEDULED)):
        name = cluster.new("s")
        await cluster.submit(name, kernels=2, min_kernels=minimum)
        await cluster.place(name, agent, agent)
        record = await moved(cluster, await cluster.session(name), KernelTrigger.IMAGE_READY)
        expect(record.status is status, f"with a minimum of {minimum} the session is {record.status}")


async def of_concurrent_movers_one_succeeds(cluster: StoredCluster) -> None:
    """The others have a stale version, and leave nothing."""
    record = await placed(cluster)
    attempts = [moved(cluster, record, KernelTrigger.IMAGE_READY) for _ in range(4)]
    results = await asyncio.gather(*attempts, return_exceptions=True)
    lost = [result for result in results if isinstance(result, StaleVersion)]
    expect(len(lost) == 3, f"of four writers on one version {4 - len(lost)} won")
    now = await cluster.session(record.session_id)
    expect(now.kernels[0].version == record.kernels[0].version + 1, "the version counts another number of writes")
    expect(len(await session_history(cluster, record.session_id)) == 3, "a writer that lost is in the history")


async def moves_of_one_call_are_atomic(cluster: StoredCluster) -> None:
    """One stale kernel among three refuses all three."""
    record = await placed(cluster, kernels=3)
    await moved(cluster, record, KernelTrigger.PREPARATION_STARTED)
    before = await cluster.session(record.session_id)
    moves = [KernelMove(kernel, KernelTrigger.IMAGE_READY) for kernel in reversed(record.kernels)]
    await refusal(move_together(cluster, moves), StaleVersion)
    expect(await cluster.session(record.session_id) == before, "some of the moves stayed")


async def kernels_of_other_sessions_are_refused(cluster: StoredCluster) -> None:
    """The moves of one call belong to one session."""
    first, second = await placed(cluster), await placed(cluster)
    moves = [KernelMove(one.kernels[0], KernelTrigger.IMAGE_READY) for one in (first, second)]
    await refusal(move_together(cluster, moves), StaleVersion)


async def only_legal_moves_are_accepted(cluster: StoredCluster) -> None:
    """Other triggers are illegal, other causes forbidden; nothing changes."""
    record = await placed(cluster)
    await refusal(moved(cluster, record, KernelTrigger.STARTED, BY_AGENT), IllegalTransition)
    await refusal(moved(cluster, record, KernelTrigger.PREPARATION_STARTED, BY_AGENT), ForbiddenCause)
    await refusal(moved(cluster, record, KernelTrigger.EXPIRED, BY_USER), ForbiddenCause)
    expect(await cluster.session(record.session_id) == record, "a refused move changed something")


async def allocating_and_freeing_are_not_moves(cluster: StoredCluster) -> None:
    """ALLOCATED belongs to the allocator, GONE to the ledger."""
    waiting = await cluster.submit(cluster.new("s"))
    await refusal(moved(cluster, waiting, KernelTrigger.ALLOCATED), IllegalTransition)
    record = await placed(cluster)
    ending = await cluster.stop(record.session_id)
    await refusal(moved(cluster, ending, KernelTrigger.GONE), IllegalTransition)


async def an_overdue_kernel_stays_terminating(cluster: StoredCluster) -> None:
    """OVERDUE is recorded, moves nothing and frees nothing."""
    record = await placed(cluster, running=True)
    ending = await cluster.stop(record.session_id)
    after = await moved(cluster, ending, KernelTrigger.OVERDUE)
    expect((after.status, after.kernels[0].status) == (ending.status, ending.kernels[0].status), "OVERDUE moved it")
    expect(after.kernels[0].version > ending.kernels[0].version, "OVERDUE was not written down")


async def one_kernel_that_ends_ends_the_session(cluster: StoredCluster) -> None:
    """With the kernel's result and exit code."""
    for code, result in ((0, SessionResult.SUCCESS), (1, SessionResult.FAILURE), (None, SessionResult.FAILURE)):
        record = await exited(cluster, await placed(cluster, kernels=2, running=True), [code])
        expect(record.status is SessionStatus.TERMINATING, "a session continues without its kernel")
        expect(record.result is result, f"exit code {code} gave {record.result}")
        expect(record.cause == "kernel_exited", f"the cause is {record.cause}")
        expect([kernel.exit_code for kernel in record.kernels] == [code, None], "the exit codes are wrong")


async def the_order_of_simultaneous_reports_does_not_matter(cluster: StoredCluster) -> None:
    """Neither for the result nor for the cause."""
    for code, last, result in (
        (0, KernelTrigger.STARTED, SessionResult.SUCCESS),
        (1, KernelTrigger.STARTED, SessionResult.FAILURE),
        (0, KernelTrigger.FAILED, SessionResult.FAILURE),
    ):
        ends = []
        for forwards in (True, False):
            record = await placed(cluster, kernels=2)
            for trigger in (KernelTrigger.IMAGE_READY, KernelTrigger.CREATION_REQUESTED):
                record = await cluster.move(record.session_id, trigger)
            moves = [KernelMove(record.kernels[0], KernelTrigger.EXITED, code), KernelMove(record.kernels[1], last)]
            after = await move_together(cluster, moves if forwards else moves[::-1], BY_AGENT)
            ends.append((after.result, after.cause))
        expect(ends[0] == ends[1], f"EXITED with {code} and {last} depends on the order: {ends}")
        expect(ends[0][0] is result, f"EXITED with {code} and {last} is a {ends[0][0]}")


async def the_first_cause_is_kept(cluster: StoredCluster) -> None:
    """Regardless of later events of an ending session."""
    record = await placed(cluster, kernels=2, running=True)
    failed = Change("agent", Cause.AGENT_REPORT, code="out-of-memory", detail="killed by the kernel")
    first = await moved(cluster, record, KernelTrigger.FAILED, failed)
    later = Change("user", Cause.CONTROLLER, code="user-request", detail="enough")
    name = SessionId(record.session_id)
    for goal in (Goal.STOP, Goal.FORCE):
        after = await with_goal(cluster, name, goal, later)
        found = (after.cause, after.cause_detail, after.result)
        expect(found == ("out-of-memory", "killed by the kernel", SessionResult.FAILURE), f"{goal.name} gave {found}")
    expect(first.cause == "out-of-memory", "the first cause was not kept")
    after = await cluster.free(name, FreeProof.AGENT_TOMBSTONE)
    expect(after.cause == "out-of-memory", "the end overwrote the first cause")


async def a_stopped_pending_session_is_cancelled(cluster: StoredCluster) -> None:
    """Its kernels are withdrawn, and it has ended."""
    for goal in (Goal.STOP, Goal.FORCE):
        name = cluster.new("s")
        await cluster.submit(name, kernels=2)
        record = await cluster.stop(name, goal)
        expect(record.status is SessionStatus.CANCELLED, f"{goal.name} made it {record.status}")
        expect({kernel.status for kernel in record.kernels} == {KernelStatus.CANCELLED}, "a kernel still waits")
        expect(record.ended_ms is not None and record.goal is goal, "it has no end, or another goal")
        expect(record.result is SessionResult.FAILURE, "a session that never ran counts as a success")


async def a_stopped_running_session_ends_with_its_kernels(cluster: StoredCluster) -> None:
    """TERMINATING until there is a proof, then TERMINATED."""
    running = await placed(cluster, kernels=2, running=True)
    record = await cluster.stop(running.session_id)
    expect(record.status is SessionStatus.TERMINATING, f"STOP made it {record.status}")
    expect(
        {kernel.status for kernel in record.kernels} == {KernelStatus.TERMINATING}, "a kernel was not requested to stop"
    )
    expect((record.cause, record.ended_ms) == ("stop_requested", None), "the cause or the end is wrong")
    ended = await cluster.free(record.session_id, FreeProof.AGENT_TOMBSTONE)
    expect(ended.status is SessionStatus.TERMINATED, "a session without kernels has not ended")
    expect(ended.ended_ms is not None and ended.result is SessionResult.FAILURE, "its end is not recorded")


async def an_interactive_session_stopped_by_its_user_succeeds(cluster: StoredCluster) -> None:
    """Unless it never ran, or was ended by force or by a policy."""
    stopped = Change("user", Cause.CONTROLLER, code="user-requested")
    for running, goal, change, result in (
        (True, Goal.STOP, stopped, SessionResult.SUCCESS),
        (False, Goal.STOP, stopped, SessionResult.FAILURE),
        (True, Goal.FORCE, stopped, SessionResult.FAILURE),
        (True, Goal.STOP, BY_COORDINATOR, SessionResult.FAILURE),
    ):
        record = await placed(cluster, kernels=2, running=running, session_type=SessionType.INTERACTIVE)
        ended = await with_goal(cluster, record.session_id, goal, change)
        expect(ended.result is result, f"{goal.name} by {change.by} of one in {record.status} is a {ended.result}")
        later = await with_goal(cluster, record.session_id, Goal.FORCE, stopped)
        expect(later.result is result, "a later report changed the result")


async def pending_kernels_are_withdrawn_and_live_ones_stopped(cluster: StoredCluster) -> None:
    """In a session that has grown in part."""
    agent, name = cluster.new("a"), cluster.new("s")
    await cluster.agent(agent)
    await cluster.submit(name, kernels=3, min_kernels=1)
    await cluster.place(name, agent)
    record = await cluster.stop(name)
    statuses = [kernel.status for kernel in record.kernels]
    expect(statuses == [KernelStatus.TERMINATING, KernelStatus.CANCELLED, KernelStatus.CANCELLED], f"{statuses}")


async def force_ends_the_session_and_frees_nothing(cluster: StoredCluster) -> None:
    """The session ends at once; kernels keep their slots until a proof."""
    for goals in ((Goal.FORCE,), (Goal.STOP, Goal.FORCE)):
        running = await placed(cluster, kernels=2, running=True)
        for goal in goals:
            await cluster.stop(running.session_id, goal)
        record = await cluster.session(running.session_id)
        expect(record.status is SessionStatus.TERMINATED, f"FORCE made it {record.status}")
        expect({kernel.status for kernel in record.kernels} == {KernelStatus.TERMINATING}, "kernels ended with it")
        expect(len(await held_with(cluster, record)) == 4, "slots were freed without a proof")
        expect(record.cause == "stop_requested", f"the cause is {record.cause}, not the user's request")
        last = (await session_history(cluster, running.session_id))[-1]
        expect(last.trigger == "forced", f"it ended by {last.trigger}")


async def goals_only_increase(cluster: StoredCluster) -> None:
    """A goal that is set already changes nothing."""
    running = await placed(cluster, running=True)
    stopped = await cluster.stop(running.session_id)
    for goal in (Goal.STOP, Goal.RUN):
        expect(await cluster.stop(running.session_id, goal) == stopped, f"{goal.name} after STOP changed something")
    forced = await cluster.stop(running.session_id, Goal.FORCE)
    for goal in Goal:
        expect(await cluster.stop(running.session_id, goal) == forced, f"{goal.name} after FORCE changed something")


async def a_missing_session_has_no_goal(cluster: StoredCluster) -> None:
    """ObjectNotFound, for reading too."""
    missing = SessionId(cluster.new("s"))
    await refusal(cluster.stop(missing), ObjectNotFound)
    await refusal(cluster.session(missing), ObjectNotFound)


async def an_end_is_final(cluster: StoredCluster) -> None:
    """No goal, move or allocation changes it."""
    cancelled = await cluster.submit(cluster.new("s"))
    cancelled = await cluster.stop(cancelled.session_id)
    terminated = await placed(cluster)
    await cluster.stop(terminated.session_id)
    terminated = await cluster.free(terminated.session_id, FreeProof.NEVER_SENT)
    agent = cluster.new("a")
    await cluster.agent(agent)
    for ended in (cancelled, terminated):
        expect(ended.status in SESSION.terminal, f"{ended.status} is not an end")
        for trigger in KernelTrigger:
            await refusal(moved(cluster, ended, trigger), IllegalTransition)
        for goal in Goal:
            await cluster.stop(ended.session_id, goal)
        refused = (await cluster.place(ended.session_id, agent)).refused
        expect(list(refused) == [ended.session_id], "a session that has ended was allocated")
        expect(await cluster.session(ended.session_id) == ended, "a session moved after its end")


CHECKS: tuple[Check, ...] = (
    a_session_follows_its_kernels,
    a_session_is_as_far_as_the_kernels_it_needs,
    of_concurrent_movers_one_succeeds,
    moves_of_one_call_are_atomic,
    kernels_of_other_sessions_are_refused,
    only_legal_moves_are_accepted,
    allocating_and_freeing_are_not_moves,
    an_overdue_kernel_stays_terminating,
    one_kernel_that_ends_ends_the_session,
    the_order_of_simultaneous_reports_does_not_matter,
    the_first_cause_is_kept,
    a_stopped_pending_session_is_cancelled,
    a_stopped_running_session_ends_with_its_kernels,
    an_interactive_session_stopped_by_its_user_succeeds,
    pending_kernels_are_withdrawn_and_live_ones_stopped,
    force_ends_the_session_and_frees_nothing,
    goals_only_increase,
    a_missing_session_has_no_goal,
    an_end_is_final,
)
