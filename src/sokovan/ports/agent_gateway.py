"""Idempotent requests to agents, and the reports they answer with.

Agents dial out to the manager; no transaction stays open while one is awaited. The
desired state is committed first and agent reports are compared with it, so a lost request
or response costs one period.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum, auto
from typing import Protocol

from sokovan.domain.errors import SokovanError, quoted
from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.lifecycle.eviction import Checkpoint
from sokovan.ports.runtime import KernelExecution, KernelUse, LogPart
from sokovan.wire.frames import CreateKernel


class AgentUnreachable(SokovanError):
    """An agent did not answer in time; it may have received the request."""

    code = "agent-unreachable"
    hint = "check that the agent runs and can reach the manager; the request is retried automatically"

    def __init__(self, *, agent_id: str, problem: str) -> None:
        self.agent_id, self.problem = agent_id, problem
        super().__init__(f"agent {quoted(agent_id)}: {problem}")


class AgentRefused(SokovanError):
    """An agent rejected a request: other incarnation, tombstone, no capacity.

    `reason` is the agent's code for it.
    """

    code = "agent-refused"
    hint = "see the detail; the next scheduling cycle decides again on the current state"

    def __init__(self, *, agent_id: str, problem: str, reason: str = "") -> None:
        self.agent_id, self.problem, self.reason = agent_id, problem, reason
        super().__init__(f"agent {quoted(agent_id)} refuses: {problem}")


class ImageState(StrEnum):
    """The state of an image on an agent."""

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
    """An agent's answer to a stop request: whether nothing of the kernel runs.

    `gone` is a proof: the agent has written a tombstone, and will never create this
    attempt again. `checkpoint` is the last one that the kernel reported. `by_itself`: it
    is certain that the kernel had ended before it was asked to stop.
    """

    gone: bool
    exit_code: int | None = None
    detail: Mapping[str, str] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    by_itself: bool = False


class UseGateway(Protocol):
    """Asks agents what their kernels use."""

    async def measure(self, agent_id: AgentId, kernel_id: KernelId, attempt: int) -> KernelUse:
        """Measure a running kernel.

        Raises AgentUnreachable; AgentRefused also for an agent of an earlier release.
        """


class KernelGateway(UseGateway, Protocol):
    """Reads and commands of users in kernels.

    All may raise AgentUnreachable (retry later) and AgentRefused.
    """

    async def read_log(
        self, agent_id: AgentId, kernel_id: KernelId, attempt: int, *, offset: int, limit: int
    ) -> LogPart:
        """Read a part of a kernel's output."""

    def execute(
        self, agent_id: AgentId, kernel_id: KernelId, attempt: int, command: Sequence[str], *, terminal: bool
    ) -> KernelExecution:
        """Run another command inside a running kernel.

        Raises AgentUnreachable, AgentRefused on entry.
        """

    def connect(self, agent_id: AgentId, kernel_id: KernelId, attempt: int, port: int) -> KernelExecution:
        """Connect to a port of the agent that a running kernel listens on.

        Raises AgentUnreachable, AgentRefused on entry.
        """

    def connected(self, agent_id: AgentId) -> bool:
        """Whether the agent is connected to this manager now."""


class AgentGateway(KernelGateway, Protocol):
    """Requests to an agent, each for one incarnation of it.

    All may raise AgentUnreachable (retry later) and AgentRefused (decide again).
    """

    async def prepare_image(self, agent_id: AgentId, incarnation: int, image: str) -> ImageReport:
        """Request an image; returns its current state at once."""

    async def create_kernel(self, agent_id: AgentId, incarnation: int, launch: CreateKernel) -> None:
        """Start a kernel, once per (kernel, attempt)."""

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
        """Stop a kernel; also one that the agent does not know.

        `notice` is the text of the file that the kernel finds before it is asked to stop.
        """

    async def forget_kernel(self, agent_id: AgentId, incarnation: int, kernel_id: KernelId, attempt: int) -> None:
        """Let the agent delete the logs and state of an ended kernel."""
