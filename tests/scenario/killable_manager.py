"""A manager that is killed at a chosen moment: before or after one of its acts."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from sokovan.domain.ids import AgentId, KernelId
from sokovan.ports.agent_gateway import GoneProof, ImageReport
from sokovan.ports.allocation import AllocationContext, Assignment, BatchResult, SchedulingAllocator
from sokovan.ports.storage import BatchedWork, Fence, Store, StoreRetention, UnitOfWork
from sokovan.testing.acting_agents import ActingAgents
from sokovan.wire.frames import CreateKernel

T = TypeVar("T")
R = TypeVar("R")


class Killed(BaseException):
    """The process is gone; its next step does not happen."""


class KillPoint:
    """Counts what a manager does, and ends it at one of its acts, before or after."""

    def __init__(self, *, at: int | None = None, after: bool = False) -> None:
        self.acts, self.dead = 0, False
        self._at, self._after = at, after

    async def act(self, work: Callable[[], Awaitable[R]]) -> R:
        if self.dead:
            raise Killed
        self.acts += 1
        last = self.acts == self._at
        if last and not self._after:
            self.dead = True
            raise Killed
        result = await work()
        if last:
            self.dead = True
            raise Killed
        return result


class KillableStore:
    """A store as a killable manager uses it."""

    def __init__(self, store: Store, kill_point: KillPoint) -> None:
        self._store, self._kill_point = store, kill_point

    async def run(self, work: Callable[[UnitOfWork], Awaitable[R]], *, fence: Fence | None = None) -> R:
        return await self._kill_point.act(lambda: self._store.run(work, fence=fence))

    async def run_batched(self, work: BatchedWork[T, R], item: T) -> R:
        return await self._kill_point.act(lambda: self._store.run_batched(work, item))

    async def read(self, work: Callable[[UnitOfWork], Awaitable[R]]) -> R:
        if self._kill_point.dead:
            raise Killed
        return await self._store.read(work)

    async def prune(self, *, older_than_s: float) -> int:
        return await self._store.prune(older_than_s=older_than_s)

    async def expire(self, keep: StoreRetention) -> bool:
        return await self._store.expire(keep)


class KillableAllocator(SchedulingAllocator):
    """An allocator as a killable manager uses it."""

    def __init__(self, allocator: SchedulingAllocator, kill_point: KillPoint) -> None:
        self._allocator, self._kill_point = allocator, kill_point

    async def allocate_batch(self, assignments: Sequence[Assignment], context: AllocationContext) -> BatchResult:
        return await self._kill_point.act(lambda: self._allocator.allocate_batch(assignments, context))


class KillableGateway:
    """The way to agents, for as long as the manager lives."""

    def __init__(self, agents: ActingAgents, kill_point: KillPoint) -> None:
        self._agents, self._kill_point = agents, kill_point

    async def prepare_image(self, agent_id: AgentId, incarnation: int, image: str) -> ImageReport:
        return await self._kill_point.act(lambda: self._agents.prepare_image(agent_id, incarnation, image))

    async def create_kernel(self, agent_id: AgentId, incarnation: int, launch: CreateKernel) -> None:
        await self._kill_point.act(lambda: self._agents.create_kernel(agent_id, incarnation, launch))

    async def stop_kernel(
        self,
        agent_id: AgentId,
        incarnation: int,
        kernel_id: KernelId,
        attempt: int,
        *,
        grace_s: float,
        notice: str = "",
    ) -> GoneProof:
        return await self._kill_point.act(
            lambda: self._agents.stop_kernel(agent_id, incarnation, kernel_id, attempt, grace_s=grace_s, notice=notice)
        )

    async def forget_kernel(self, *details: Any) -> None:
        await self._kill_point.act(lambda: self._agents.forget_kernel(*details))

    def connected(self, agent_id: AgentId) -> bool:
        return self._agents.connected(agent_id)
