"""The cycle that the coordinators of deployments and of routes share.

Each handler reads the state anew, because the handlers before it have changed it. A
concurrent change makes a write fail; the next cycle decides again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from sokovan.domain.errors import FencedOut, StaleVersion, StoreUnavailable
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.session import Goal
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.records import DETAIL_MAX, Change
from sokovan.orchestrator.coordinator import DEPLOYMENTS_HINT, LEASE_TTL_S, ROUTES_HINT, SESSIONS_HINT, Leadership
from sokovan.orchestrator.deployments.serving_state import ServingState, ServingStateReader
from sokovan.orchestrator.handler import DeadlinePassed, Handler, within
from sokovan.orchestrator.periodic_tasks import TaskSpec
from sokovan.ports.environment import Clock, Telemetry
from sokovan.ports.hints import Hints
from sokovan.ports.leases import Leases
from sokovan.ports.storage import Fence, Store, UnitOfWork

T = TypeVar("T")
R = TypeVar("R")

# The cycle without a hint: idle, and while something is about to change by time.
LONG_CYCLE_S, SHORT_CYCLE_S = 10.0, 1.0
HANDLER_TIMEOUT_S = 60.0


def _ignore(_handler: str, _error: Exception) -> None:
    """Drop a failure report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingDependencies:
    """Ports and callbacks of both coordinators.

    Another manager takes over `lease_ttl_s` after one that was killed.
    """

    store: Store
    leases: Leases
    hints: Hints
    clock: Clock
    telemetry: Telemetry
    on_failure: Callable[[str, Exception], None] = _ignore
    lease_ttl_s: float = LEASE_TTL_S


class ServingWriter:
    """Writes for handlers under the fence of the current leader."""

    def __init__(self, dependencies: ServingDependencies, who: str) -> None:
        self.fence: Fence | None = None
        self._store, self._on_failure, self._who = dependencies.store, dependencies.on_failure, who

    def change(self, code: str = "", detail: str = "") -> Change:
        """A change decided by the coordinator."""
        return Change(self._who, Cause.COORDINATOR, code, detail[:DETAIL_MAX])

    async def run(self, work: Callable[[UnitOfWork], Awaitable[R]]) -> R:
        """Run one transaction. Raises FencedOut, StoreUnavailable."""
        return await self._store.run(work, fence=self.fence)

    async def read(self, work: Callable[[UnitOfWork], Awaitable[R]]) -> R:
        """Read in one transaction. Raises StoreUnavailable."""
        return await self._store.read(work)

    async def each(self, handler: str, items: Iterable[T], work: Callable[[T], Awaitable[bool]]) -> bool:
        """Do the work for each item; whether anything changed. One failure stops no other."""
        moved = False
        for item in items:
            try:
                moved |= await work(item)
            except (FencedOut, StoreUnavailable):
                raise
            except StaleVersion:
                moved = True  # another writer was faster: decide again
            except Exception as error:  # noqa: BLE001  # one object must not stop the others
                self._on_failure(handler, error)
        return moved

    async def stop_session(self, unit: UnitOfWork, session_id: SessionId | None, change: Change) -> None:
        """Ask, in a transaction, that a session ends."""
        if session_id is not None:
            await unit.sessions.set_goals([session_id], Goal.STOP, change)


class ServingCoordinator:
    """Runs handlers over the state of serving while it holds its lease."""

    def __init__(self, name: str, hint: str, dependencies: ServingDependencies, *, holder: str) -> None:
        self._name, self._hint, self._hints = name, hint, dependencies.hints
        self._clock, self._telemetry = dependencies.clock, dependencies.telemetry
        self._on_failure, self._ttl_s = dependencies.on_failure, dependencies.lease_ttl_s
        self.leadership = Leadership(
            dependencies.leases, name=name, holder=holder, clock=dependencies.clock, ttl_s=self._ttl_s
        )
        self._reader = ServingStateReader(dependencies.store)
        self.writer = ServingWriter(dependencies, f"{name}-coordinator")
        self.handlers: tuple[Handler[ServingState], ...] = ()
        self._busy = False

    def tasks(self) -> Sequence[TaskSpec]:
        """The cycles, and the renewal of the lease while a cycle takes long."""
        cycles = TaskSpec(
            self._name,
            self.tick,
            hints=(self._hint,),
            min_interval_s=0.05,
            long_cycle_s=LONG_CYCLE_S,
            due=self.next_due_s,
        )
        return cycles, TaskSpec(f"{self._name}-lease", self._keep_lease, long_cycle_s=self._ttl_s / 3)

    def next_due_s(self) -> float | None:
        """Seconds until a cycle is due without a hint."""
        return SHORT_CYCLE_S if self._busy else self.leadership.due_s

    async def tick(self) -> bool:
        """Run one cycle if this manager leads; whether another is needed at once.

        Raises StoreUnavailable.
        """
        fence = await self.leadership.held()
        began_ms = self._clock.monotonic_ms()
        try:
            if fence != self.writer.fence:
                self._begin_term(fence)
            return fence is not None and await self._cycle()
        except FencedOut:
            self._telemetry.count("fenced_out_total", coordinator=self._name)
            self.leadership.step_down()
            self._begin_term(None)
            return False
        finally:
            seconds = (self._clock.monotonic_ms() - began_ms) / 1000
            self._telemetry.observe("cycle_seconds", seconds, coordinator=self._name)

    async def close(self) -> None:
        """Release the lease."""
        self._begin_term(None)
        with suppress(StoreUnavailable):  # then the lease expires
            await self.leadership.release()

    async def _keep_lease(self) -> bool:
        before = self.leadership.fence
        if await self.leadership.held() != before:
            await self._hints.set(self._hint)
        return False

    async def _cycle(self) -> bool:
        """Run the handlers in order, each on the state as it is then."""
        state = await self._reader.read()
        # Live deployments change by time alone: probes, drains, back-off.
        self._busy = bool(state.deployments or state.routes)
        if not self._busy:
            return False
        moved = False
        for handler in self.handlers:
            if await self._run(handler, state):
                moved = True
                state = await self._reader.read()
        if moved:
            for hint in (DEPLOYMENTS_HINT, ROUTES_HINT, SESSIONS_HINT):
                await self._hints.set(hint)
        return moved

    async def _run(self, handler: Handler[ServingState], state: ServingState) -> bool:
        """Run one handler; a failure or a timeout does not stop the others."""
        try:
            return await within(handler.handle(state), HANDLER_TIMEOUT_S, clock=self._clock)
        except (FencedOut, StoreUnavailable):
            raise
        except Exception as error:  # noqa: BLE001  # one handler must not stop the others
            kind = "timeout" if isinstance(error, DeadlinePassed) else "error"
            self._telemetry.count("handler_failures_total", handler=handler.name, kind=kind)
            self._on_failure(handler.name, error)
            return False

    def _begin_term(self, fence: Fence | None) -> None:
        self.writer.fence = fence
        self._busy = False
        self._reader.clear()
        for handler in self.handlers:
            handler.clear()
