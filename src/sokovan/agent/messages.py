"""Messages of the agent's state machine: events in, instructions out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from msgspec import Struct

from sokovan.agent.journal_records import JournalRecord, KernelKey
from sokovan.agent.kernel_table import KeepLimits, KernelTable, Token
from sokovan.ports.agent_gateway import GoneProof, ImageReport
from sokovan.ports.runtime import Observation
from sokovan.wire.frames import CreateKernel


@dataclass(frozen=True, slots=True)
class CreateRequested:
    """A manager requests a new kernel."""

    token: Token
    incarnation: int
    launch: CreateKernel


@dataclass(frozen=True, slots=True)
class StopRequested:
    """A manager requests that a kernel is stopped, with a notice of it or without."""

    token: Token
    incarnation: int
    key: KernelKey
    grace_s: float
    notice: str = ""


@dataclass(frozen=True, slots=True)
class ForgetRequested:
    """A manager no longer needs the data kept for a kernel."""

    token: Token
    incarnation: int
    key: KernelKey


@dataclass(frozen=True, slots=True)
class PrepareRequested:
    """A manager requests an image."""

    token: Token
    incarnation: int
    image: str


@dataclass(frozen=True, slots=True)
class StartFinished:
    """The runtime has finished starting a kernel.

    `problem` is empty on success. After a problem, `certain` means that nothing runs;
    otherwise only an observation shows whether something does.
    """

    key: KernelKey
    problem: str = ""
    code: str = ""
    certain: bool = True
    traces: str = ""


@dataclass(frozen=True, slots=True)
class RemainsEnded:
    """The remains of a vanished kernel were ended; `left` is what could not be."""

    key: KernelKey
    left: str = ""


@dataclass(frozen=True, slots=True)
class RuntimeClaim:
    """The resources of a kernel whose launch record names this agent."""

    slots: Mapping[str, int]
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Observed:
    """The runtime has listed its kernels; the listing began at tick `begun`.

    Unless it is `complete`, nothing follows from what it leaves out.
    """

    observations: tuple[Observation, ...]
    begun: int
    now_ms: int
    claims: Mapping[KernelKey, RuntimeClaim] = field(default_factory=dict)
    complete: bool = True


@dataclass(frozen=True, slots=True)
class ImageProgressed:
    """The state of an image has changed."""

    report: ImageReport


@dataclass(frozen=True, slots=True)
class ObstacleObserved:
    """The reason why no kernel may start on this machine now; empty if they may."""

    obstacle: str


@dataclass(frozen=True, slots=True)
class DevicesChecked:
    """The devices that have a fault now, with the reason."""

    faults: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LinkOpened:
    """A manager has accepted the agent; `keep` says what it keeps of ended kernels."""

    link: int
    incarnation: int
    keep: KeepLimits | None = None


@dataclass(frozen=True, slots=True)
class LinkClosed:
    """A link is closed; answers to its requests are not needed any more."""

    link: int


Event: TypeAlias = (
    CreateRequested
    | StopRequested
    | ForgetRequested
    | PrepareRequested
    | StartFinished
    | RemainsEnded
    | Observed
    | ImageProgressed
    | ObstacleObserved
    | DevicesChecked
    | LinkOpened
    | LinkClosed
)


@dataclass(frozen=True, slots=True)
class StartInstruction:
    """Start a kernel; StartFinished reports the outcome."""

    launch: CreateKernel


@dataclass(frozen=True, slots=True)
class StopInstruction:
    """Stop a kernel, with a notice if there is one; an observation reports its end."""

    key: KernelKey
    grace_s: float
    notice: str = ""


@dataclass(frozen=True, slots=True)
class ForgetInstruction:
    """Remove what the runtime keeps of an ended kernel."""

    key: KernelKey


@dataclass(frozen=True, slots=True)
class EndRemainsInstruction:
    """End what is left of a vanished kernel; RemainsEnded reports the outcome."""

    key: KernelKey
    traces: str


@dataclass(frozen=True, slots=True)
class PrepareInstruction:
    """Prepare an image; ImageProgressed reports the progress."""

    image: str


@dataclass(frozen=True, slots=True)
class SendAnswer:
    """Answer a request; a `result` of None means success without a value."""

    token: Token
    result: GoneProof | ImageReport | None = None


@dataclass(frozen=True, slots=True)
class SendProblem:
    """Refuse a request."""

    token: Token
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class SendHeartbeat:
    """Send a heartbeat to every manager now."""


Instruction: TypeAlias = (
    StartInstruction
    | StopInstruction
    | ForgetInstruction
    | EndRemainsInstruction
    | PrepareInstruction
    | SendAnswer
    | SendProblem
    | SendHeartbeat
)


class AgentStep(Struct, frozen=True):
    """The outcome of one event: the new table, journal records, instructions.

    The records are durable before any instruction runs and before the new table is
    visible. If they cannot be written, the step has not happened.
    """

    table: KernelTable
    records: tuple[JournalRecord, ...] = ()
    instructions: tuple[Instruction, ...] = ()
