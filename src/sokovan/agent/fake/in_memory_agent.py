"""The agent's state machine without journal, link or threads.

Events are applied at once, and their instructions executed by a simulated runtime.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from sokovan.agent.journal_records import JournalRecord, KernelKey
from sokovan.agent.kernel_table import KernelTable, Token
from sokovan.agent.messages import (
    EndRemainsInstruction,
    Event,
    ForgetInstruction,
    ImageProgressed,
    Instruction,
    PrepareInstruction,
    RemainsEnded,
    SendAnswer,
    SendHeartbeat,
    SendProblem,
    StartInstruction,
    StopInstruction,
)
from sokovan.agent.supervisor import step
from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AgentId
from sokovan.domain.records import Device
from sokovan.domain.slots import ResourceSlot
from sokovan.ports.agent_gateway import AgentRefused, GoneProof, ImageReport, ImageState
from sokovan.wire.frames import CreateKernel


class InMemoryAgent(ABC):
    """Applies events to a kernel table; subclasses simulate the runtime and the link."""

    def __init__(self, table: KernelTable) -> None:
        self.table = table

    @property
    def agent_id(self) -> AgentId:
        """The id of the agent."""
        return self.table.agent_id

    @property
    def incarnation(self) -> int:
        """The incarnation that a manager has accepted the agent as; 0 before that."""
        return self.table.incarnation

    def apply(self, event: Event) -> None:
        """Apply an event and execute its instructions."""
        done = step(self.table, event)
        self.table = done.table
        if done.records:
            self._record(done.records)
        for instruction in done.instructions:
            self._execute(instruction)

    def _record(self, records: Sequence[JournalRecord]) -> None:  # noqa: B027  # a fake agent has no journal
        """Take the journal records of an event; dropped by default."""

    @abstractmethod
    def _start_kernel(self, launch: CreateKernel) -> None:
        """Start a simulated kernel; applies StartFinished now or later."""

    @abstractmethod
    def _stop_kernel(self, key: KernelKey, grace_s: float) -> None:
        """Stop a simulated kernel."""

    @abstractmethod
    def _forget_kernel(self, key: KernelKey) -> None:
        """Remove a simulated kernel that has ended."""

    def _prepare_image(self, image: str) -> None:
        """Prepare an image; by default every image is ready at once."""
        self.apply(ImageProgressed(ImageReport(image, ImageState.READY)))

    @abstractmethod
    def _answer(self, token: Token, outcome: GoneProof | ImageReport | AgentRefused | None) -> None:
        """Deliver the outcome of a request."""

    @abstractmethod
    def _send_heartbeat(self) -> None:
        """Send a heartbeat soon."""

    def _execute(self, instruction: Instruction) -> None:
        match instruction:
            case SendAnswer():
                self._answer(instruction.token, instruction.result)
            case SendHeartbeat():
                self._send_heartbeat()
            case StartInstruction():
                self._start_kernel(instruction.launch)
            case StopInstruction():
                self._stop_kernel(instruction.key, instruction.grace_s)
            case ForgetInstruction():
                self._forget_kernel(instruction.key)
            case EndRemainsInstruction():
                self.apply(RemainsEnded(instruction.key))  # a simulated kernel leaves nothing
            case PrepareInstruction():
                self._prepare_image(instruction.image)
            case SendProblem():
                self._answer(instruction.token, self.refusal(instruction.code, instruction.message))

    def refusal(self, code: str, message: str) -> AgentRefused:
        """A refusal as a manager receives it."""
        return AgentRefused(agent_id=self.agent_id, problem=f"{message} [{code}]", reason=code)


def empty_table_of(info: AgentInfo, devices: Sequence[Device]) -> KernelTable:
    """The kernel table of an agent without kernels, from its description."""
    return KernelTable(
        agent_id=info.agent_id,
        capacity=ResourceSlot(info.available_slots),
        device_units={device.device_id: device.units for device in devices},
        kernels_max=info.kernels_max,
    )
