"""The agent's state machine in a test: events in, instructions and records out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from sokovan.agent.journal_records import JournalRecord, JournalState, KernelKey, replayed
from sokovan.agent.kernel_table import KernelTable, ManagedKernel, Token, restored
from sokovan.agent.messages import (
    CreateRequested,
    Event,
    ForgetRequested,
    Instruction,
    LinkOpened,
    Observed,
    RuntimeClaim,
    SendAnswer,
    SendProblem,
    StartFinished,
    StartInstruction,
    StopRequested,
)
from sokovan.agent.supervisor import step
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.slots import ResourceSlot
from sokovan.ports.agent_gateway import GoneProof
from sokovan.ports.runtime import KernelState, Observation
from sokovan.wire.frames import CreateKernel

T = TypeVar("T")

INCARNATION = 1
FRESH = KernelTable(
    agent_id=AgentId("a1"),
    capacity=ResourceSlot({"cpu": 4000, "mem": 8 << 30, "cuda.device": 2}),
    device_units={"gpu0": 1, "gpu1": 1},
    kernels_max=8,
    boot="boot-1",
)


def key(name: str = "k1", attempt: int = 1) -> KernelKey:
    return KernelKey(KernelId(name), attempt)


def launch(
    name: str = "k1",
    attempt: int = 1,
    *,
    slots: Mapping[str, int] | None = None,
    devices: Mapping[str, tuple[str, ...]] | None = None,
) -> CreateKernel:
    return CreateKernel(
        kernel_id=KernelId(name),
        attempt=attempt,
        session_id=SessionId("s1"),
        image="python",
        command=("true",),
        slots={"cpu": 1000} if slots is None else dict(slots),
        devices=dict(devices or {}),
    )


def seen(
    name: str = "k1", attempt: int = 1, *, state: KernelState, exit_code: int | None = None, reason: str = ""
) -> Observation:
    return Observation(KernelId(name), attempt, state, exit_code=exit_code, reason=reason)


class SupervisorHarness:
    """One agent: its table, its journal and its instructions."""

    def __init__(
        self, table: KernelTable = FRESH, *, journal: JournalState | None = None, connected: bool = True
    ) -> None:
        self.journal = journal or JournalState()
        self.table = restored(table, self.journal) if journal else table
        self.done: list[Instruction] = []
        self.records: list[JournalRecord] = []
        self._number = 0
        self.now_ms = 0
        if connected:
            self.apply(LinkOpened(1, INCARNATION))
            self.observe()

    def apply(self, event: Event) -> tuple[Instruction, ...]:
        result = step(self.table, event)
        self.table = result.table
        self.journal = replayed(self.journal, result.records)
        self.records.extend(result.records)
        self.done.extend(result.instructions)
        return result.instructions

    def token(self) -> Token:
        self._number += 1
        return Token(1, self._number)

    def create(self, what: CreateKernel, *, incarnation: int = INCARNATION) -> tuple[Instruction, ...]:
        return self.apply(CreateRequested(self.token(), incarnation, what))

    def start(self, what: CreateKernel) -> None:
        """A create that goes well, up to the observation that shows it running."""
        assert StartInstruction(what) in self.create(what)
        self.apply(StartFinished(KernelKey.of(what)))
        listed = [
            seen(other.kernel_id, other.attempt, state=KernelState.RUNNING)
            for other, kernel in self.table.kernels.items()
            if kernel.exit_code is None
        ]
        self.observe(*listed)

    def stop(self, which: KernelKey, *, incarnation: int = INCARNATION, grace_s: float = 3.0) -> GoneProof | None:
        """What the agent says to a stop; None if it refuses."""
        done = self.apply(StopRequested(self.token(), incarnation, which, grace_s))
        results = [instruction.result for instruction in done if isinstance(instruction, SendAnswer)]
        assert len(results) <= 1
        result = results[0] if results else None
        assert result is None or isinstance(result, GoneProof)
        return result

    def forget(self, which: KernelKey, *, incarnation: int = INCARNATION) -> tuple[Instruction, ...]:
        return self.apply(ForgetRequested(self.token(), incarnation, which))

    def observe(
        self,
        *observations: Observation,
        begun: int | None = None,
        claims: Mapping[KernelKey, RuntimeClaim] | None = None,
        complete: bool = True,
    ) -> tuple[Instruction, ...]:
        at = self.table.tick if begun is None else begun
        return self.apply(Observed(observations, at, self.now_ms, claims or {}, complete))

    def kernel(self, which: KernelKey) -> ManagedKernel:
        return self.table.kernels[which]


def problem_of(done: tuple[Instruction, ...]) -> str:
    """The code of the one refusal among what is done, empty if there is none."""
    problems = [instruction for instruction in done if isinstance(instruction, SendProblem)]
    assert len(problems) <= 1
    return problems[0].code if problems else ""


def of_kind(done: tuple[Instruction, ...], kind: type[T]) -> list[T]:
    return [instruction for instruction in done if isinstance(instruction, kind)]
