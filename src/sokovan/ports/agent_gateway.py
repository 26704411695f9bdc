"""The way to agents: requests that may be repeated, and what agents report.

An agent dials out and is there or not; nobody waits for it with a transaction
open. What it was asked for is committed first, and what it reports is compared
with that, so a lost request or answer costs a period and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum, auto
from typing import Protocol

from sokovan.domain.errors import SokovanError, quoted
from sokovan.domain.ids import AgentId, KernelId
from sokovan.ports.runtime import KernelExecution, LogPart
from sokovan.wire.frames import CreateKernel


class AgentUnreachable(SokovanError):
    """An agent did not answer in time; whether it heard the request is not known."""

    code = "agent-unreachable"
    hint = "check that the agent runs and reaches the manager; the request is repeated by itself"

    def __init__(self, *, agent_id: str, problem: str) -> None:
        self.agent_id, self.problem = agent_id, problem
        super().__init__(f"agent {quoted(agent_id)}: {problem}")


class AgentRefused(SokovanError):
    """An agent will not do it: another incarnation, a tombstone, no room.

    `reason` is the agent's word for it, for programs.
    """

    code = "agent-refused"
    hint = "the detail says why; the next cycle decides again on what is true now"

    def __init__(self, *, agent_id: str, problem: str, reason: str = "") -> None:
        self.agent_id, self.problem, self.reason = agent_id, problem, reason
        super().__init__(f"agent {quoted(agent_id)} refuses: {problem}")


class ImageState(StrEnum):
    """What an agent can say of an image."""

    READY = auto()
    PULLING = auto()
    FAILED = auto()
    MISSING = auto()


@dataclass(frozen=True, slots=True)
class ImageReport:
    """An image on one agent; `detail` is progress or the reason of a failure."""

    image: str
    state: ImageState
    detail: str = ""


@dataclass(frozen=True, slots=True)
class GoneProof:
    """An agent's word on a kernel that was to end: whether nothing of it runs.

    `gone` is a proof: the agent has written a tombstone, and refuses to create this
    attempt ever again.
    """

    gone: bool
    exit_code: int | None = None
    detail: Mapping[str, str] = field(default_factory=dict)


class AgentGateway(Protocol):
    """Requests to one agent, each of which names the incarnation it is meant for.

    All may raise AgentUnreachable (try again later) and AgentRefused (decide again).
    """

    async def prepare_image(self, agent_id: AgentId, incarnation: int, image: str) -> ImageReport:
        """Have an image made ready; answers at once with how far it is."""

    async def create_kernel(self, agent_id: AgentId, incarnation: int, launch: CreateKernel) -> None:
        """Have a kernel started, once per (kernel, attempt)."""

    async def stop_kernel(
        self, agent_id: AgentId, incarnation: int, kernel_id: KernelId, attempt: int, *, grace_s: float
    ) -> GoneProof:
        """Have a kernel ended; also one that the agent has never heard of."""

    async def forget_kernel(self, agent_id: AgentId, incarnation: int, kernel_id: KernelId, attempt: int) -> None:
        """What is kept of an ended kernel is no longer needed."""

    async def read_log(
        self, agent_id: AgentId, kernel_id: KernelId, attempt: int, *, offset: int, limit: int
    ) -> LogPart:
        """A part of a kernel's output."""

    def execute(
        self, agent_id: AgentId, kernel_id: KernelId, attempt: int, command: Sequence[str], *, terminal: bool
    ) -> KernelExecution:
        """Run a further command inside a running kernel.

        Raises AgentUnreachable, AgentRefused when entered.
        """

    def connected(self, agent_id: AgentId) -> bool:
        """Whether the agent has a link to this manager now."""
