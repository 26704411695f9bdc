"""What an agent is to do next, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from sokovan.agent.journal_records import JournalRecord, KernelKey
from sokovan.agent.kernel_table import KernelTable, Token
from sokovan.ports.agent_gateway import GoneProof, ImageReport
from sokovan.wire.frames import CreateKernel


@dataclass(frozen=True, slots=True)
class StartInstruction:
    """Have the runtime start a kernel; StartFinished tells how it went."""

    launch: CreateKernel


@dataclass(frozen=True, slots=True)
class StopInstruction:
    """Have the runtime end a kernel; an observation tells when it is over."""

    key: KernelKey
    grace_s: float


@dataclass(frozen=True, slots=True)
class ForgetInstruction:
    """Have the runtime remove what it keeps of an ended kernel."""

    key: KernelKey


@dataclass(frozen=True, slots=True)
class PrepareInstruction:
    """Have an image made ready; ImageProgressed tells how it goes."""

    image: str


@dataclass(frozen=True, slots=True)
class SendAnswer:
    """Answer a request; None says that it is done."""

    token: Token
    word: GoneProof | ImageReport | None = None


@dataclass(frozen=True, slots=True)
class SendProblem:
    """Refuse a request."""

    token: Token
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class SendHeartbeat:
    """Tell every manager at once what runs."""


Instruction: TypeAlias = (
    StartInstruction
    | StopInstruction
    | ForgetInstruction
    | PrepareInstruction
    | SendAnswer
    | SendProblem
    | SendHeartbeat
)


@dataclass(frozen=True, slots=True)
class AgentStep:
    """What follows from an event.

    The records are durable before any instruction is carried out and before anybody
    sees the new holdings. If they cannot be written, the step has not happened.
    """

    holdings: KernelTable
    records: tuple[JournalRecord, ...] = ()
    instructions: tuple[Instruction, ...] = ()
