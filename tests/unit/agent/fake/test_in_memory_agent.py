"""The state machine without journal and link: events in, calls of a simulation out."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.agent.fake.in_memory_agent import InMemoryAgent, empty_table_of
from sokovan.agent.fake.shape import FleetShape
from sokovan.agent.journal_records import JournalRecord, KernelKey
from sokovan.agent.kernel_table import Token
from sokovan.agent.messages import (
    CreateRequested,
    ForgetRequested,
    LinkOpened,
    Observed,
    PrepareRequested,
    StartFinished,
    StopRequested,
)
from sokovan.ports.agent_gateway import AgentRefused, GoneProof, ImageReport, ImageState
from sokovan.ports.runtime import KernelState
from sokovan.wire.frames import CreateKernel
from tests.unit.agent.supervisor_harness import key, launch, seen

SHAPE = FleetShape(count=1, gpus=1, kernels_max=1)


class Recorded(InMemoryAgent):
    """Records the calls that a simulation would get."""

    def __init__(self) -> None:
        super().__init__(empty_table_of(SHAPE.agents()[0], SHAPE.devices()))
        self.calls: list[str] = []
        self.outcomes: list[GoneProof | ImageReport | AgentRefused | None] = []
        self.records: list[JournalRecord] = []

    def _record(self, records: Sequence[JournalRecord]) -> None:
        self.records += records

    def _start_kernel(self, launch: CreateKernel) -> None:
        self.calls.append(f"start {launch.kernel_id}")
        self.apply(StartFinished(KernelKey.of(launch)))

    def _stop_kernel(self, key: KernelKey, grace_s: float) -> None:
        self.calls.append(f"stop {key.kernel_id} {grace_s}")

    def _forget_kernel(self, key: KernelKey) -> None:
        self.calls.append(f"forget {key.kernel_id}")

    def _answer(self, token: Token, outcome: GoneProof | ImageReport | AgentRefused | None) -> None:
        assert token == Token(1, 1)
        self.outcomes.append(outcome)

    def _send_heartbeat(self) -> None:
        self.calls.append("heartbeat")


def ready() -> Recorded:
    agent = Recorded()
    agent.apply(LinkOpened(1, 4))
    agent.apply(Observed((), begun=0, now_ms=0))
    agent.calls.clear()
    return agent


def test_a_kernel_is_started_stopped_and_forgotten_by_the_simulation() -> None:
    agent = ready()
    agent.apply(CreateRequested(Token(1, 1), 4, launch()))
    agent.apply(StopRequested(Token(1, 1), 4, key(), 2.0))
    agent.apply(Observed((seen(state=KernelState.EXITED, exit_code=143),), begun=agent.table.tick, now_ms=0))
    agent.apply(ForgetRequested(Token(1, 1), 4, key()))
    assert [call for call in agent.calls if call != "heartbeat"] == ["start k1", "stop k1 2.0", "forget k1"]
    assert "heartbeat" in agent.calls
    assert agent.outcomes[0] is None
    assert len(agent.records) >= 3
    assert (agent.agent_id, agent.incarnation) == (SHAPE.agents()[0].agent_id, 4)


def test_a_refusal_has_the_code_and_message_of_the_agent() -> None:
    agent = ready()
    agent.apply(CreateRequested(Token(1, 1), 4, launch("k1")))
    agent.apply(CreateRequested(Token(1, 1), 4, launch("k2")))
    refused = agent.outcomes[-1]
    assert isinstance(refused, AgentRefused)
    assert (refused.reason, refused.problem) == ("no-room", "1 kernels run here, the limit is 1 [no-room]")


def test_images_are_ready_by_default() -> None:
    agent = ready()
    agent.apply(PrepareRequested(Token(1, 1), 4, "python"))
    assert agent.outcomes == [ImageReport("python", ImageState.READY)]
