"""What may happen to an agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from sokovan.agent.journal_records import KernelKey
from sokovan.agent.kernel_table import Token
from sokovan.ports.agent_gateway import ImageReport
from sokovan.ports.runtime import Observation
from sokovan.wire.frames import CreateKernel


@dataclass(frozen=True, slots=True)
class CreateRequested:
    """A manager asks for a kernel."""

    token: Token
    incarnation: int
    launch: CreateKernel


@dataclass(frozen=True, slots=True)
class StopRequested:
    """A manager asks for the end of a kernel."""

    token: Token
    incarnation: int
    key: KernelKey
    grace_s: float


@dataclass(frozen=True, slots=True)
class ForgetRequested:
    """A manager has no more use for what is kept of a kernel."""

    token: Token
    incarnation: int
    key: KernelKey


@dataclass(frozen=True, slots=True)
class PrepareRequested:
    """A manager wants an image to be ready."""

    token: Token
    incarnation: int
    image: str


@dataclass(frozen=True, slots=True)
class StartFinished:
    """The runtime is done with the start of a kernel.

    `problem` is empty if it went well. `certain` says that nothing runs if there was
    one; if not, only an observation can tell.
    """

    key: KernelKey
    problem: str = ""
    code: str = ""
    certain: bool = True


@dataclass(frozen=True, slots=True)
class RuntimeClaim:
    """What a kernel was started with, by a launch record that names this agent."""

    slots: Mapping[str, int]
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Observed:
    """The runtime has listed its kernels; it was asked at tick `begun`."""

    observations: tuple[Observation, ...]
    begun: int
    now_ms: int
    claims: Mapping[KernelKey, RuntimeClaim] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ImageProgressed:
    """There is news of an image."""

    report: ImageReport


@dataclass(frozen=True, slots=True)
class ObstacleObserved:
    """Why nothing new may start on this machine now; empty if it may."""

    obstacle: str


@dataclass(frozen=True, slots=True)
class LinkOpened:
    """A manager has welcomed the agent."""

    link: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class LinkClosed:
    """A link is over; nobody waits for answers on it."""

    link: int


Event: TypeAlias = (
    CreateRequested
    | StopRequested
    | ForgetRequested
    | PrepareRequested
    | StartFinished
    | Observed
    | ImageProgressed
    | ObstacleObserved
    | LinkOpened
    | LinkClosed
)
