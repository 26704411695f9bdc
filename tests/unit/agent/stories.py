"""An agent's judgement in a test: events in, what it says and does out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from sokovan.agent.instructions import Instruction, SendAnswer, SendProblem, StartInstruction
from sokovan.agent.journal_records import JournalRecord, KernelKey, Memory, recalled
from sokovan.agent.kernel_table import KernelTable, ManagedKernel, Token, restored
from sokovan.agent.messages import (
    CreateRequested,
    Event,
    ForgetRequested,
    LinkOpened,
    Observed,
    RuntimeClaim,
    StartFinished,
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


class Story:
    """One agent: its holdings, its journal, and what it was told to do."""

    def __init__(self, holdings: KernelTable = FRESH, *, memory: Memory | None = None, looks: bool = True) -> None:
        self.memory = memory or Memory()
        self.holdings = restored(holdings, self.memory) if memory else holdings
        self.done: list[Instruction] = []
        self.records: list[JournalRecord] = []
        self._number = 0
        self.now_ms = 0
        if looks:
            self.happens(LinkOpened(1, INCARNATION))
            self.observes()

    def happens(self, event: Event) -> tuple[Instruction, ...]:
        result = step(self.holdings, event)
        self.holdings = result.holdings
        self.memory = recalled(self.memory, result.records)
        self.records.extend(result.records)
        self.done.extend(result.instructions)
        return result.instructions

    def token(self) -> Token:
        self._number += 1
        return Token(1, self._number)

    def creates(self, what: CreateKernel, *, incarnation: int = INCARNATION) -> tuple[Instruction, ...]:
        return self.happens(CreateRequested(self.token(), incarnation, what))

    def starts(self, what: CreateKernel) -> None:
        """A create that goes well, up to the observation that shows it running."""
        assert StartInstruction(what) in self.creates(what)
        self.happens(StartFinished(KernelKey.of(what)))
        shown = [
            seen(other.kernel_id, other.attempt, state=KernelState.RUNNING)
            for other, held in self.holdings.kernels.items()
            if held.exit_code is None
        ]
        self.observes(*shown)

    def stops(self, which: KernelKey, *, incarnation: int = INCARNATION, grace_s: float = 3.0) -> GoneProof | None:
        """What the agent says to a stop; None if it refuses."""
        done = self.happens(StopRequested(self.token(), incarnation, which, grace_s))
        words = [instruction.word for instruction in done if isinstance(instruction, SendAnswer)]
        assert len(words) <= 1
        word = words[0] if words else None
        assert word is None or isinstance(word, GoneProof)
        return word

    def forgets(self, which: KernelKey, *, incarnation: int = INCARNATION) -> tuple[Instruction, ...]:
        return self.happens(ForgetRequested(self.token(), incarnation, which))

    def observes(
        self,
        *observations: Observation,
        begun: int | None = None,
        claims: Mapping[KernelKey, RuntimeClaim] | None = None,
    ) -> tuple[Instruction, ...]:
        at = self.holdings.tick if begun is None else begun
        return self.happens(Observed(observations, at, self.now_ms, claims or {}))

    def held(self, which: KernelKey) -> ManagedKernel:
        return self.holdings.kernels[which]


def problem_of(done: tuple[Instruction, ...]) -> str:
    """The code of the one refusal among what is done, empty if there is none."""
    problems = [instruction for instruction in done if isinstance(instruction, SendProblem)]
    assert len(problems) <= 1
    return problems[0].code if problems else ""


def of_kind(done: tuple[Instruction, ...], kind: type[T]) -> list[T]:
    return [instruction for instruction in done if isinstance(instruction, kind)]
