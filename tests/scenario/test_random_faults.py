"""Random faults in any order: the cluster converges and no invariant is violated."""

from contextlib import suppress

import pytest

from sokovan.domain.errors import SokovanError
from sokovan.domain.session import EndPolicy, LostPolicy
from sokovan.domain.slots import NO_SLOTS, ResourceSlot
from sokovan.orchestrator.sessions.config import HeartbeatTimeouts, Timing
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.runtime import KernelState
from sokovan.testing.acting_agents import ActingAgent, Fault
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.random_work import Dice

STEPS = 60
TIMING = Timing(heartbeats=HeartbeatTimeouts(suspect_s=4, lost_s=4), session_lost_s=6)
KINDS = ("prepare", "create", "stop")


class Chaos:
    """People, kernels, networks and machines, each with a will of its own."""

    def __init__(self, cluster: OrchestratedCluster, dice: Dice) -> None:
        self._cluster, self._dice, self._count = cluster, dice, 0

    async def step(self) -> None:
        acts = (
            self.submit, self.submit, self.submit, self.stop, self.kernel_ends, self.kernel_ends, self.lose,
            self.mend, self.silence, self.reconnect, self.restart, self.wipe, self.take_over, self.wait, self.round,
            self.round,
        )  # fmt: skip
        with suppress(SokovanError):
            await self._dice.pick(acts)()
        self.check_machines()

    async def submit(self) -> None:
        self._count += 1
        kernels = 1 + self._dice.roll(3)
        await self._cluster.submit(
            f"s{self._count}",
            kernels=kernels,
            slots={"cpu": 1000 * (1 + self._dice.roll(3)), "mem": 1 << 30, "cuda.device": self._dice.roll(2)},
            image=self._dice.pick(("python", "slow", "")),
            ends_with=self._dice.pick(tuple(EndPolicy)),
            tolerates_failures=self._dice.roll(4) == 0,
            min_kernels=self._dice.pick((None, 1)),
            on_agent_lost=self._dice.pick(tuple(LostPolicy)),
        )

    async def stop(self) -> None:
        if self._count:
            await self._cluster.stop(f"s{1 + self._dice.roll(self._count)}", forced=self._dice.roll(3) == 0)

    async def kernel_ends(self) -> None:
        agent = self._agent()
        if agent.running():
            await agent.ends(self._dice.pick(agent.running()), self._dice.pick((0, 0, 1)))

    async def lose(self) -> None:
        self._agent().faults[self._dice.pick(KINDS)] = self._dice.pick((Fault.REQUEST_LOST, Fault.ANSWER_LOST))

    async def mend(self) -> None:
        self._agent().faults.clear()

    async def silence(self) -> None:
        self._agent().goes_silent()

    async def reconnect(self) -> None:
        await self._agent().connect()

    async def restart(self) -> None:
        await self._agent().restart(journal_lost=self._dice.roll(4) == 0)

    async def wipe(self) -> None:
        if self._dice.roll(3) == 0:
            self._agent().loses_its_machine()

    async def take_over(self) -> None:
        if self._dice.roll(2) == 0:
            dead = self._cluster.coordinator
            await self._cluster.fail_over()
            await dead._context.clear()

    async def wait(self) -> None:
        await self._cluster.pass_time(1 + self._dice.roll(6))

    async def round(self) -> None:
        await self._cluster.settle()

    async def heal(self) -> None:
        """Every fault is over, and every agent there."""
        for agent in self._cluster.agents.all.values():
            agent.faults.clear()
            await agent.connect()

    def check_machines(self) -> None:
        """No machine ever runs more than it has, whatever the books say."""
        for agent in self._cluster.agents.all.values():
            live = [one for one in agent.machine.values() if one.state is not KernelState.EXITED]
            used = sum((ResourceSlot(one.launch.slots) for one in live), NO_SLOTS)
            assert used.fits(agent._slots), f"{agent.agent_id} runs {used}"
            devices = [device for one in live for ids in one.launch.devices.values() for device in ids]
            assert len(set(devices)) == len(devices), f"{agent.agent_id} has a device in two kernels"

    def _agent(self) -> ActingAgent:
        return self._dice.pick(tuple(self._cluster.agents.all.values()))


async def run_history(seed: int) -> None:
    async with OrchestratedCluster.open(timing=TIMING) as cluster:
        for number in range(3):
            await cluster.agent(f"a{number}", slots={"cpu": 6000, "mem": 32 << 30, "cuda.device": 2})
        chaos = Chaos(cluster, Dice(f"faults {seed}"))
        for _ in range(STEPS):
            await chaos.step()
        await cluster.check_invariants()
        await chaos.heal()
        await cluster.pass_time(60, step_s=2)
        chaos.check_machines()
        await everything_is_where_the_books_say(cluster)
        await everybody_can_be_ended(cluster)
        assert cluster.failures == []


async def everything_is_where_the_books_say(cluster: OrchestratedCluster) -> None:
    sessions = await cluster.store.read(lambda unit: unit.sessions.page(SessionFilter(), limit=1000))
    statuses = {session.status.value for session in sessions}
    assert statuses <= {"pending", "running", "terminated", "cancelled"}, f"something is stuck: {statuses}"
    booked: dict[str, list[str]] = {agent: [] for agent in cluster.agents.all}
    for session in sessions:
        for kernel in session.kernels:
            assert kernel.status.value in {"pending", "running", "terminated", "cancelled"}
            if kernel.status.value == "running":
                booked[str(kernel.agent_id)].append(kernel.kernel_id)
    for name, agent in cluster.agents.all.items():
        assert set(agent.running()) <= set(booked[name]), f"{name} runs what is not booked"
        there = {key.kernel_id for key in agent.machine}
        assert set(booked[name]) <= there, f"{name} does not have what is booked on it"


async def everybody_can_be_ended(cluster: OrchestratedCluster) -> None:
    sessions = await cluster.store.read(lambda unit: unit.sessions.page(SessionFilter(), limit=1000))
    for session in sessions:
        await cluster.stop(session.session_id)
    await cluster.pass_time(30, step_s=2)
    for agent in cluster.agents.all.values():
        assert agent.running() == []
        assert await cluster.used(agent.agent_id) == {}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
async def test_faults_in_any_order_leave_everything_in_order(seed: int) -> None:
    await run_history(seed)
