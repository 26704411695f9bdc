"""A fake agent gateway whose kernels produce scripted output."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Self

from sokovan.domain.ids import AgentId, KernelId
from sokovan.ports.agent_gateway import AgentRefused, AgentUnreachable, GoneProof, ImageReport, ImageState
from sokovan.ports.runtime import KernelUse, LogPart
from sokovan.wire.frames import CreateKernel


@dataclass
class FakeLog:
    """What a kernel has said so far."""

    content: bytes = b""
    ended: bool = False
    dropped: int = 0


class EchoExecution:
    """A command that says its input back, in capitals, and ends with the input."""

    def __init__(self, kernel: tuple[str, str, int], command: Sequence[str], *, terminal: bool) -> None:
        self.kernel, self.command, self.terminal = kernel, list(command), terminal
        self.said: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.size: tuple[int, int] | None = None
        self.ended = False

    async def __aenter__(self) -> Self:
        await self.said.put(" ".join(self.command).encode() + b"\n")
        return self

    async def __aexit__(self, *details: object) -> None:
        self.ended = True

    async def write(self, data: bytes) -> None:
        await self.said.put(data.upper() if data else None)

    async def resize(self, *, rows: int, columns: int) -> None:
        self.size = (rows, columns)

    async def output(self) -> AsyncIterator[bytes]:
        while (content := await self.said.get()) is not None:
            yield content

    async def wait(self) -> int:
        return 7


class FakeAgents:
    """A fake agent gateway whose kernels produce scripted output."""

    def __init__(self) -> None:
        self.logs: dict[KernelId, FakeLog] = {}
        self.away: set[AgentId] = set()
        self.executions: list[EchoExecution] = []
        self.calls: list[tuple[object, ...]] = []
        self.uses: dict[KernelId, KernelUse] = {}

    def says(self, kernel_id: str, content: bytes = b"", *, ends: bool = False) -> None:
        log = self.logs.setdefault(KernelId(kernel_id), FakeLog())
        log.content += content
        log.ended = log.ended or ends

    def connected(self, agent_id: AgentId) -> bool:
        return agent_id not in self.away

    async def prepare_image(self, agent_id: AgentId, incarnation: int, image: str) -> ImageReport:
        self.calls.append(("prepare", agent_id, incarnation, image))
        return ImageReport(image, ImageState.READY)

    async def create_kernel(self, agent_id: AgentId, incarnation: int, launch: CreateKernel) -> None:
        self.calls.append(("create", agent_id, incarnation, launch))
        self.says(launch.kernel_id)

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
        self.calls.append(("stop", agent_id, incarnation, kernel_id, attempt, grace_s, notice))
        return GoneProof(gone=True)

    async def forget_kernel(self, agent_id: AgentId, incarnation: int, kernel_id: KernelId, attempt: int) -> None:
        self.calls.append(("forget", agent_id, incarnation, kernel_id, attempt))
        self.logs.pop(kernel_id, None)

    async def read_log(
        self, agent_id: AgentId, kernel_id: KernelId, attempt: int, *, offset: int, limit: int
    ) -> LogPart:
        self.calls.append(("read", agent_id, kernel_id, attempt, offset, limit))
        if agent_id in self.away:
            raise AgentUnreachable(agent_id=agent_id, problem="it has no link")
        if kernel_id not in self.logs:
            raise AgentRefused(agent_id=agent_id, problem="no such kernel")
        log = self.logs[kernel_id]
        begin = max(offset, log.dropped)
        data = log.content[begin : begin + limit]
        return LogPart(begin, data, end=log.ended and begin + len(data) >= len(log.content))

    async def measure(self, agent_id: AgentId, kernel_id: KernelId, attempt: int) -> KernelUse:
        self.calls.append(("measure", agent_id, kernel_id, attempt))
        if agent_id in self.away:
            raise AgentUnreachable(agent_id=agent_id, problem="it has no link")
        if kernel_id not in self.uses:
            raise AgentRefused(agent_id=agent_id, problem="no such kernel")
        return self.uses[kernel_id]

    def execute(
        self, agent_id: AgentId, kernel_id: KernelId, attempt: int, command: Sequence[str], *, terminal: bool
    ) -> EchoExecution:
        self.executions.append(EchoExecution((agent_id, kernel_id, attempt), command, terminal=terminal))
        return self.executions[-1]

    def connect(self, agent_id: AgentId, kernel_id: KernelId, attempt: int, port: int) -> EchoExecution:
        self.executions.append(EchoExecution((agent_id, kernel_id, attempt), [f"port {port}"], terminal=False))
        return self.executions[-1]
