"""Brings sessions from what was asked for to what is, and to their end.

A round reads what changed, compares it with what agents report, and gives every
session the work it needs, in the order in which one kind of work makes another
possible. It waits for nobody: requests to agents run beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from sokovan.domain.errors import FencedOut, StoreUnavailable
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.kernel import ALIVE, KernelStatus, KernelTrigger
from sokovan.domain.records import Change, SessionRecord
from sokovan.orchestrator.agent_registry import SESSIONS_HINT
from sokovan.orchestrator.coordinator import Leadership
from sokovan.orchestrator.handler import DeadlinePassed, Handler, within
from sokovan.orchestrator.periodic_tasks import TaskSpec
from sokovan.orchestrator.sessions.config import Dependencies, Timing
from sokovan.orchestrator.sessions.context import Cycle
from sokovan.orchestrator.sessions.session_writer import SessionMoves, SessionStep, by_coordinator
from sokovan.orchestrator.sessions.workshop import Workshop
from sokovan.ports.storage import Fence

LEASE = "sessions"
HANDLER_FAILED = "handler-failed"


class ScheduleCoordinator:
    """The coordinator of sessions. Of any number of them, one works at a time."""

    def __init__(self, parts: Dependencies, *, holder: str, pace: Timing | None = None) -> None:
        self._parts, self._pace = parts, pace or Timing()
        self.leadership = Leadership(
            parts.leases, name=LEASE, holder=holder, clock=parts.clock, ttl_s=self._pace.lease_ttl_s
        )
        self._shop = Workshop(parts, self._pace, wake=self._wake)
        self._long_ms: int | None = None

    def tasks(self) -> Sequence[TaskSpec]:
        """The rounds, and keeping the lease while a round takes long."""
        rounds = TaskSpec(
            "sessions",
            self.tick,
            hints=(SESSIONS_HINT,),
            apart_s=self._pace.apart_s,
            long_cycle_s=self._pace.long_cycle_s,
            due=self.next_due_s,
        )
        return rounds, TaskSpec("sessions-lease", self._keep_lease, long_cycle_s=self._pace.lease_ttl_s / 3)

    async def tick(self) -> bool:
        """One round; whether there is more to do at once. Raises StoreUnavailable.

        Whoever does not lead does nothing, and tries for the lease when it is time.
        """
        fence = await self.leadership.held()
        began_ms = self._parts.clock.monotonic_ms()
        try:
            if fence is None or fence != self._shop.batches.fence:
                await self._begin_term(fence)
            if fence is None:
                return False
            return await self._round()
        except FencedOut:
            self.leadership.step_down()
            await self._begin_term(None)
            return False
        finally:
            seconds = (self._parts.clock.monotonic_ms() - began_ms) / 1000
            self._parts.telemetry.observe("cycle_seconds", seconds, coordinator=LEASE)

    async def close(self) -> None:
        """Give up the lease and what is under way; whoever leads next asks again."""
        await self._shop.clear()
        with suppress(StoreUnavailable):  # then the lease ends by itself
            await self.leadership.release()

    def next_due_s(self) -> float | None:
        """How long until there is work without any hint."""
        if self._shop.batches.fence is None:
            return self._pace.lease_ttl_s / 3
        return min(self._shop.next_due_s(), self._long_due_s())

    async def _begin_term(self, fence: Fence | None) -> None:
        """Forget what an earlier term knew; read everything if a new one begins."""
        await self._shop.clear()
        self._long_ms = None
        if fence is not None:
            await self._shop.reader.load()
            self._shop.batches.fence = fence

    async def _round(self) -> bool:
        shop = self._shop
        long = self._long_due_s() <= 0
        if long:
            self._long_ms = self._parts.clock.monotonic_ms()
        seen = await self._look(long=long)
        for handler in shop.crew.first:
            await self._run(handler, seen)
        again = await self._look_again(seen)
        await self._heed_casualties()
        return again or shop.errands.waiting > 0 or bool(shop.live.doubtful)

    async def _look(self, *, long: bool) -> Cycle:
        """Sessions first, then what agents report: what is in neither was lost by nobody."""
        shop = self._shop
        await shop.reader.refresh()
        await shop.scheduler.look()
        news = shop.reports.take_in(await self._parts.agents.fresh(), now_ms=self._parts.clock.monotonic_ms())
        shop.errands.pauses.hurry_failed(set(news.spoke))
        if news.reborn:
            shop.errands.pauses.hurry_all(set(news.restarted))
            # Kernels that were taken over belong to the new incarnation since.
            shop.live.doubt(session for agent_id in news.reborn for session in shop.live.sessions_on(agent_id))
            await shop.reader.refresh()
        return Cycle(long=long, news=news, agents=await shop.scheduler.agents())

    async def _look_again(self, seen: Cycle) -> bool:
        """What happened during the round: quick kernels have begun, or even ended."""
        shop = self._shop
        news = shop.reports.take_in(await self._parts.agents.fresh(), now_ms=self._parts.clock.monotonic_ms())
        if not news.kernels:
            return False
        moved = False
        for handler in shop.crew.again:
            moved |= await self._run(handler, Cycle(news=news, agents=seen.agents))
        return moved

    async def _run(self, handler: Handler[Cycle], seen: Cycle) -> bool:
        """One kind of work; if it fails or hangs, the others have their turn all the same."""
        try:
            return await within(handler.handle(seen), self._pace.handler_s, clock=self._parts.clock)
        except (FencedOut, StoreUnavailable):
            raise
        except Exception as error:  # noqa: BLE001  # one kind of work must not stop the others
            kind = "timeout" if isinstance(error, DeadlinePassed) else "error"
            self._parts.telemetry.count("handler_failures_total", handler=handler.name, kind=kind)
            self._parts.failed(handler.name, error)
            return False

    async def _heed_casualties(self) -> None:
        """Tell sessions that could not be handled, and give up those that failed too often."""
        writer, live = self._shop.writer, self._shop.live
        for casualty in self._shop.quarantine.take():
            self._parts.telemetry.count("handler_failures_total", handler=casualty.handler, kind="session")
            session_id = SessionId(casualty.subject)
            change = by_coordinator(HANDLER_FAILED, f"{casualty.handler}: {casualty.detail} [{casualty.code}]")
            session = live.get(session_id)
            if session is None or not casualty.hopeless:
                await writer.note([session_id], change)
                continue
            plan = SessionMoves(session, tuple(step for step in _given_up(session, change) if step.kernels))
            if plan.steps:
                await writer.move(casualty.handler, [plan])

    async def _keep_lease(self) -> bool:
        before = self.leadership.fence
        after = await self.leadership.held()
        if after != before:
            await self._wake()
        return False

    async def _wake(self) -> None:
        await self._parts.hints.set(SESSIONS_HINT)

    def _long_due_s(self) -> float:
        if self._long_ms is None:
            return 0.0
        passed_ms = self._parts.clock.monotonic_ms() - self._long_ms
        return max(0.0, self._pace.long_cycle_s - passed_ms / 1000)


def _given_up(session: SessionRecord, change: Change) -> tuple[SessionStep, ...]:
    """End a session that cannot be handled, as far as its table allows."""
    alive = tuple(kernel.kernel_id for kernel in session.kernels if kernel.status in ALIVE)
    waiting = tuple(kernel.kernel_id for kernel in session.kernels if kernel.status is KernelStatus.PENDING)
    return SessionStep(KernelTrigger.FAILED, change, alive), SessionStep(KernelTrigger.WITHDRAWN, change, waiting)
