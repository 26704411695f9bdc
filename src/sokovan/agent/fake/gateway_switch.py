"""Combines two gateways: each request goes to the one that has the agent."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.domain.ids import AgentId, KernelId
from sokovan.ports.agent_gateway import AgentGateway, GoneProof, ImageReport
from sokovan.ports.runtime import KernelExecution, KernelUse, LogPart
from sokovan.wire.frames import CreateKernel


class GatewaySwitch:
    """The AgentGateway port over two gateways; the second is the fallback."""

    def __init__(self, first: AgentGateway, second: AgentGateway) -> None:
        self._first, self._second = first, second

    def connected(self, agent_id: AgentId) -> bool:
        """See the port."""
        return self._of(agent_id).connected(agent_id)

    async def prepare_image(self, agent_id: AgentId, incarnation: int, image: str) -> ImageReport:
        """See the port."""
        return await self._of(agent_id).prepare_image(agent_id, incarnation, image)

    async def create_kernel(self, agent_id: AgentId, incarnation: int, launch: CreateKernel) -> None:
        """See the port."""
        await self._of(agent_id).create_kernel(agent_id, incarnation, launch)

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
        """See the port."""
        gateway = self._of(agent_id)
        return await gateway.stop_kernel(agent_id, incarnation, kernel_id, attempt, grace_s=grace_s, notice=notice)

    async def forget_kernel(self, agent_id: AgentId, incarnation: int, kernel_id: KernelId, attempt: int) -> None:
        """See the port."""
        await self._of(agent_id).forget_kernel(agent_id, incarnation, kernel_id, attempt)

    async def read_log(
        self, agent_id: AgentId, kernel_id: KernelId, attempt: int, *, offset: int, limit: int
    ) -> LogPart:
        """See the port."""
        return await self._of(agent_id).read_log(agent_id, kernel_id, attempt, offset=offset, limit=limit)

    async def measure(self, agent_id: AgentId, kernel_id: KernelId, attempt: int) -> KernelUse:
        """See the port."""
        return await self._of(agent_id).measure(agent_id, kernel_id, attempt)

    def execute(
        self, agent_id: AgentId, kernel_id: KernelId, attempt: int, command: Sequence[str], *, terminal: bool
    ) -> KernelExecution:
        """See the port."""
        return self._of(agent_id).execute(agent_id, kernel_id, attempt, command, terminal=terminal)

    def connect(self, agent_id: AgentId, kernel_id: KernelId, attempt: int, port: int) -> KernelExecution:
        """See the port."""
        return self._of(agent_id).connect(agent_id, kernel_id, attempt, port)

    def _of(self, agent_id: AgentId) -> AgentGateway:
        return self._first if self._first.connected(agent_id) else self._second
