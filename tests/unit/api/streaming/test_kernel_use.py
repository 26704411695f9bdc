"""One measurement of a kernel answers all who ask for it within a second."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from sokovan.api.streaming.kernel_use import AT_ONCE, SHARED_MS, KernelMeter
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.records import KernelRecord
from sokovan.domain.slots import NO_SLOTS
from sokovan.ports.runtime import KernelUse
from sokovan.testing.clock import VirtualClock
from tests.unit.api.fake_agents import FakeAgents

RUNNING = KernelRecord(
    KernelId("k"), SessionId("s"), 0, KernelStatus.RUNNING, 1, NO_SLOTS, agent_id=AgentId("a1"), sent=True
)
USE = KernelUse(5, cpu_ms=100, memory_bytes=7, processes=2)


class SlowAgents(FakeAgents):
    """Agents that answer when the test lets them."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = asyncio.Event()
        self.waiting = self.most = 0
        self.are_full = asyncio.Event()

    async def measure(self, agent_id: AgentId, kernel_id: KernelId, attempt: int) -> KernelUse:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        if self.waiting == AT_ONCE:
            self.are_full.set()
        try:
            await self.may_answer.wait()
            return await super().measure(agent_id, kernel_id, attempt)
        finally:
            self.waiting -= 1


async def test_requests_within_a_second_share_one_measurement() -> None:
    agents, clock = FakeAgents(), VirtualClock()
    agents.uses[KernelId("k")] = USE
    meter = KernelMeter(agents, clock)
    answers = await asyncio.gather(*[meter.measured([RUNNING]) for _ in range(100)])
    assert answers == [[USE]] * 100
    await clock.advance((SHARED_MS - 1) / 1000)
    await meter.measured([RUNNING])
    assert len(agents.calls) == 1
    await clock.advance(0.001)
    await meter.measured([RUNNING, replace(RUNNING, attempt=2)])
    assert [call[3] for call in agents.calls] == [1, 1, 2]


async def test_a_measurement_that_takes_long_is_shared_as_well_and_outlives_who_asked_first() -> None:
    agents, clock = SlowAgents(), VirtualClock()
    agents.uses[KernelId("k")] = USE
    meter = KernelMeter(agents, clock)
    first = asyncio.ensure_future(meter.measured([RUNNING]))
    await clock.advance(2 * SHARED_MS / 1000)
    second = asyncio.ensure_future(meter.measured([RUNNING]))
    await clock.advance(0)
    first.cancel()
    agents.may_answer.set()
    assert await second == [USE]
    assert len(agents.calls) == 1


async def test_only_so_many_agents_are_asked_at_a_time() -> None:
    agents = SlowAgents()
    kernels = [replace(RUNNING, kernel_id=KernelId(f"k{number}")) for number in range(2 * AT_ONCE)]
    agents.uses = {kernel.kernel_id: USE for kernel in kernels}
    measuring = asyncio.ensure_future(KernelMeter(agents, VirtualClock()).measured(kernels))
    await agents.are_full.wait()
    agents.may_answer.set()
    assert await measuring == [USE] * len(kernels)
    assert agents.most == AT_ONCE


async def test_a_kernel_that_cannot_be_measured_says_why_and_others_are() -> None:
    agents = FakeAgents()
    agents.uses[KernelId("k")] = USE
    agents.away.add(AgentId("a2"))
    found = await KernelMeter(agents, VirtualClock()).measured(
        [
            RUNNING,
            replace(RUNNING, kernel_id=KernelId("away"), agent_id=AgentId("a2")),
            replace(RUNNING, kernel_id=KernelId("unknown")),
            replace(RUNNING, status=KernelStatus.TERMINATED),
            replace(RUNNING, status=KernelStatus.PENDING, agent_id=None, sent=False),
        ]
    )
    assert found == [
        USE,
        "agent 'a2': it has no link",
        "agent 'a1' refuses: no such kernel",
        "the kernel has ended",
        "the kernel has not started",
    ]
    assert len(agents.calls) == 3


async def test_an_agent_that_does_not_answer_is_given_up() -> None:
    agents = SlowAgents()
    [found] = await KernelMeter(agents, VirtualClock(), limit_s=0.0).measured([RUNNING])
    assert found == "agent a1 did not answer in time"


async def test_an_unexpected_failure_of_one_measurement_is_a_text() -> None:
    class BrokenAgents(FakeAgents):
        async def measure(self, agent_id: AgentId, kernel_id: KernelId, attempt: int) -> KernelUse:
            raise OSError(agent_id, kernel_id, attempt)

    assert await KernelMeter(BrokenAgents(), VirtualClock()).measured([RUNNING]) == ["agent a1: OSError"]
