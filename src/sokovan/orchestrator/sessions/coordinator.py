"""Drives sessions towards their goal, from submission to the end.

A cycle reads what changed, compares it with agent reports, and runs the handlers in the
order in which one enables the next. It never waits for agents: requests run concurrently.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from sokovan.domain.errors import FencedOut, StoreUnavailable
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.session import SESSION
from sokovan.domain.records import SessionRecord
from sokovan.domain.session import SessionType
from sokovan.orchestrator.coordinator import DEPLOYMENTS_HINT, SESSIONS_HINT, Leadership
from sokovan.orchestrator.periodic_tasks import TaskSpec
from sokovan.orchestrator.sessions.config import Dependencies, Timing, TimingInForce
from sokovan.orchestrator.sessions.context import CycleInput, HandlerContext, SessionHandler
from sokovan.orchestrator.sessions.endings import give_up_steps
from sokovan.orchestrator.sessions.handlers.dependencies import WithdrawDependents
from sokovan.orchestrator.sessions.handlers.prepare import PrepareImages
from sokovan.orchestrator.sessions.handlers.schedule import ScheduleSessions
from sokovan.orchestrator.sessions.handlers.start import StartKernels
from sokovan.orchestrator.sessions.handlers.sweep import periodic_sweep
from sokovan.orchestrator.sessions.handlers.terminate import TerminateSessions
from sokovan.orchestrator.sessions.handlers.watch import WatchKernels
from sokovan.orchestrator.sessions.session_cache import Need
from sokovan.orchestrator.sessions.session_writer import SessionMoves, by_coordinator
from sokovan.ports.storage import Fence

LEASE = "sessions"
HANDLER_FAILED = "handler-failed"
# While much is moved, those who have little to move are served at least this often.
SMALL_EVERY_MS = 50


class ScheduleCoordinator:
    """The coordinator of sessions; only the manager with the lease runs cycles."""

    def __init__(self, dependencies: Dependencies, *, holder: str, timing: Timing | None = None) -> None:
        self._timing = TimingInForce(timing or Timing())
        self._clock, self._telemetry = dependencies.clock, dependencies.telemetry
        self._agents, self._hints = dependencies.agents, dependencies.hints
        self.leadership = Leadership(
            dependencies.leases, name=LEASE, holder=holder, clock=self._clock, ttl_s=self._timing.current.lease_ttl_s
        )
        self._context = context = HandlerContext.create(
            dependencies, self._timing, wake=self._wake, changed=self._session_changed
        )
        self._sessions, self._reader, self._scheduler = context.sessions, context.reader, context.scheduler
        self._unfinished = context.sessions.unfinished
        self._writer, self._batches, self._quarantine = context.writer, context.batches, context.quarantine
        self._reports, self._requests, self._backoff = context.reports, context.requests, context.backoff
        self._sweep, self._dependents = periodic_sweep(context, dependencies.ids), WithdrawDependents(context)
        watch, terminate = WatchKernels(context), TerminateSessions(context)
        begin: tuple[SessionHandler, ...] = (
            ScheduleSessions(context),
            PrepareImages(context, dependencies.images),
            StartKernels(context, dependencies.secrets),
        )
        self.recheck_handlers: tuple[SessionHandler, ...] = (watch, terminate, self._dependents)
        self.handlers: tuple[SessionHandler, ...] = (watch, self._sweep, terminate, self._dependents, *begin)
        self.small_handlers: tuple[SessionHandler, ...] = (*self.recheck_handlers, *begin)
        self._small_served_ms = 0
        self._long_cycle_ms: int | None = None
        self._replicas_changed = False

    def tasks(self) -> Sequence[TaskSpec]:
        """The cycles, and what goes on during them: the lease, the time of heartbeats."""
        cycles = TaskSpec(
            "sessions",
            self.tick,
            hints=(SESSIONS_HINT,),
            min_interval_s=self._timing.current.min_interval_s,
            long_cycle_s=self._timing.current.long_cycle_s,
            due=self.next_due_s,
            is_unfinished=lambda: bool(self._unfinished) or self._is_behind,
        )
        timing = self._timing.current
        lease = TaskSpec("sessions-lease", self._keep_lease, long_cycle_s=timing.lease_ttl_s / 3)
        return cycles, lease, TaskSpec("sessions-heartbeats", self._attend, long_cycle_s=timing.sweep_s)

    def retime(self, timing: Timing) -> None:
        """Use other timeouts and limits from now on; intervals of tasks stay as they are."""
        self._timing.current = timing

    async def tick(self) -> bool:
        """Run one cycle if this manager leads; whether another is needed at once.

        Raises StoreUnavailable.
        """
        fence = await self.leadership.held()
        began_ms = self._clock.monotonic_ms()
        try:
            if fence is None or fence != self._batches.fence:
                await self._begin_term(fence)
            return fence is not None and await self._cycle()
        except FencedOut:
            self._telemetry.count("fenced_out_total", coordinator=LEASE)
            self.leadership.step_down()
            await self._begin_term(None)
            return False
        finally:
            seconds = (self._clock.monotonic_ms() - began_ms) / 1000
            self._telemetry.observe("cycle_seconds", seconds, coordinator=LEASE)

    async def close(self) -> None:
        """Cancel pending requests and release the lease; the next leader repeats them."""
        await self._clear()
        with suppress(StoreUnavailable):  # then the lease expires
            await self.leadership.release()

    def next_due_s(self) -> float | None:
        """Seconds until a cycle is due without a hint."""
        if self._batches.fence is None:
            return self.leadership.due_s
        dues = (self._context.next_due_s(), self._sweep.next_due_s(), self._long_cycle_due_s())
        return min(due for due in dues if due is not None)

    async def _cycle(self) -> bool:
        """One cycle; whether another is needed at once."""
        self._small_served_ms = self._clock.monotonic_ms()
        # 1. Refresh the cached sessions and the scheduler's snapshots from the store.
        await self._refresh()
        # 2. Apply agent reports: retry requests to agents that are back, reread what a restart made stale.
        cycle = await self._apply_reports(long=self._begins_long_cycle())
        # 3. Run the handlers in order: watch kernels, sweep (heartbeats, lost agents, deadlines, health of agents and
        #    devices, garbage collection, housekeeping), terminate, withdraw dependents, schedule, prepare images, start
        #    kernels.
        #    Each moves a slice, users in turn; the rest follows in the next cycle. After one that took long, and after
        #    a long refresh, those who have little to move are served.
        self._unfinished.clear()
        again = await self._serve_small_sessions()
        for handler in self.handlers:
            await self._context.run(handler, cycle, timeout_s=self._timing.current.handler_timeout_s)
            again |= await self._serve_small_sessions()
        # 4. Recheck: short kernels have started or even ended during the cycle.
        moved = await self._recheck(cycle)
        # 5. Quarantine sessions that could not be handled; give up those that failed too often.
        await self._quarantine_failures()
        # 6. Let the coordinator of deployments see what became of their replicas.
        if self._replicas_changed:
            self._replicas_changed = False
            await self._hints.set(DEPLOYMENTS_HINT)
        unfinished = bool(self._unfinished or self._sessions.stale or self._dependents.unfinished)
        return moved or again or unfinished or self._is_behind or self._requests.waiting > 0

    async def _serve_small_sessions(self) -> bool:
        """Run the handlers without the bulk, if that has kept others waiting; whether they did.

        What is reported of large sessions, and those of users who have much to move, is seen
        by the next cycle.
        """
        waited_ms = self._clock.monotonic_ms() - self._small_served_ms
        if not self._sessions.bulk or waited_ms < SMALL_EVERY_MS:
            return False
        self._sessions.bulk.hidden = True
        try:
            await self._reader.refresh()
            served = self._sessions.bulk.others_move
            if served:
                await self._scheduler.refresh(sessions=False)
                cycle = await self._apply_reports(long=False)
                for handler in self.small_handlers:
                    await self._context.run(handler, cycle, timeout_s=self._timing.current.handler_timeout_s)
        finally:
            self._sessions.bulk.hidden = False
        self._small_served_ms = self._clock.monotonic_ms()
        return served

    async def _refresh(self) -> None:
        """Read committed changes; before the reports, so that a reported kernel is known."""
        await self._reader.refresh()
        # A large session takes long to read; sessions are refreshed when one of them waits.
        await self._scheduler.refresh(sessions=False)

    @property
    def _is_behind(self) -> bool:
        """Whether new sessions were left for the next cycle."""
        is_scheduling_behind = self._scheduler.is_behind and self._sessions.count(Need.SCHEDULING) > 0
        return len(self._reader.unread) > 0 or is_scheduling_behind

    def _begins_long_cycle(self) -> bool:
        is_due = self._long_cycle_due_s() <= 0
        if is_due:
            self._long_cycle_ms = self._clock.monotonic_ms()
        return is_due

    async def _apply_reports(self, *, long: bool) -> CycleInput:
        diff = self._reports.update(await self._agents.fresh(), now_ms=self._clock.monotonic_ms())
        self._backoff.retry_failed(set(diff.updated))
        if diff.enrolled:
            self._backoff.retry_all(set(diff.restarted))
            # Kernels that were adopted now belong to the new incarnation.
            self._sessions.mark_stale(
                kernel.session_id for agent_id in diff.enrolled for kernel in self._sessions.kernels_on(agent_id)
            )
            await self._reader.refresh()
        return CycleInput(long=long, diff=diff, agents=self._scheduler.agents())

    async def _recheck(self, cycle: CycleInput) -> bool:
        """Handle reports that came during the cycle; whether a session moved."""
        diff = self._reports.update(await self._agents.fresh(), now_ms=self._clock.monotonic_ms())
        if not diff.kernels:
            return False
        moved, again = False, CycleInput(diff=diff, agents=cycle.agents)
        for handler in self.recheck_handlers:
            moved |= await self._context.run(handler, again, timeout_s=self._timing.current.handler_timeout_s)
            moved |= await self._serve_small_sessions()
        return moved

    async def _quarantine_failures(self) -> None:
        """Note failures in the history of their sessions; end those that failed too often."""
        for failed in self._quarantine.take():
            self._telemetry.count("handler_failures_total", handler=failed.handler, kind="session")
            session_id = SessionId(failed.subject)
            change = by_coordinator(HANDLER_FAILED, f"{failed.handler}: {failed.detail} [{failed.code}]")
            session = self._sessions.get(session_id)
            if session is None or not failed.exhausted:
                await self._writer.note([session_id], change)
                continue
            steps = give_up_steps(session, change)
            if steps:
                await self._writer.move(failed.handler, [SessionMoves(session, steps)])

    async def _begin_term(self, fence: Fence | None) -> None:
        """Forget the state of an earlier term; load all sessions if a new term begins."""
        await self._clear()
        if fence is not None:
            await self._reader.load()
            self._batches.fence = fence

    async def _clear(self) -> None:
        await self._context.clear()
        for handler in self.handlers:
            handler.clear()
        self._long_cycle_ms = None

    def _session_changed(self, before: SessionRecord | None, after: SessionRecord) -> None:
        self._dependents.session_changed(after)
        self._sweep.session_changed(before, after)
        self._replicas_changed |= after.spec.session_type is SessionType.INFERENCE
        if before is None or before.status is after.status:
            return
        lasted_s = (after.since_ms - before.since_ms) / 1000
        self._telemetry.observe("state_seconds", lasted_s, state=before.status.value)
        if after.status in SESSION.terminal:
            result = "none" if after.result is None else after.result.value
            self._telemetry.count("sessions_ended_total", result=result)

    async def _keep_lease(self) -> bool:
        before = self.leadership.fence
        if await self.leadership.held() != before:
            await self._wake()
        return False

    async def _attend(self) -> bool:
        self._sweep.attend()
        return False

    async def _wake(self) -> None:
        await self._hints.set(SESSIONS_HINT)

    def _long_cycle_due_s(self) -> float:
        if self._long_cycle_ms is None:
            return 0.0
        passed_ms = self._clock.monotonic_ms() - self._long_cycle_ms
        return max(0.0, self._timing.current.long_cycle_s - passed_ms / 1000)
