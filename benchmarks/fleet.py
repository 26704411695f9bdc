"""The cost of the fleet's stream: `python -m benchmarks.fleet [--agents 5000] [--sessions 5000]`.

Agents of eight devices, and sessions of one device, in a store on disk. Printed are the processor time of one
reading, of the difference, and of its encoding for one kind of reader, and the size of the event: when nothing has
changed, when ten sessions have ended, and when the figures of all devices have. For comparison, that of the
whole columns, and of a reading of everything.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
from collections.abc import Awaitable, Callable
from itertools import pairwise

import msgspec

from benchmarks.durable import SLOTS, add_agents, add_sessions, assignments, cluster, owner, processor_s
from sokovan.adapters.inprocess.agents import InProcessAgentStates
from sokovan.adapters.local.clock import SystemClock
from sokovan.agent.fake.device_use import STEADY_MS, simulated_figures
from sokovan.api.fleet.changes import change_view, fleet_difference
from sokovan.api.fleet.columns import fleet_view, seen_by
from sokovan.api.fleet.reader import FleetReader
from sokovan.domain.lifecycle.kernel import FreeProof
from sokovan.domain.owners.access import UNOWNED
from sokovan.entrypoints.embedded.gc_tuning import deferred_gc
from sokovan.ports.agent_states import AgentState
from sokovan.ports.allocation import AllocationContext
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.testing.stored_cluster import StoredCluster, session_spec
from tests.unit.api.fake_agents import FakeAgents

TIMES = 5
ENDED = 10
TTL_S = 3600
EVERYONE = seen_by(UNOWNED)


class Bench:
    """A cluster, and the reader of its fleet in a server."""

    def __init__(self, opened: StoredCluster, sessions: int) -> None:
        clock = SystemClock()
        self._cluster, self._sessions = opened, sessions
        self._states = InProcessAgentStates(clock)
        self._reader = FleetReader(opened.store, self._states, FakeAgents(), clock)
        self._heartbeats = self._ended = 0

    async def fill(self, agents: int) -> None:
        """Enrol agents and place all sessions."""
        await add_agents(self._cluster, agents)
        specs = [session_spec(f"s{index:06}", slots=SLOTS, owner=owner(index)) for index in range(self._sessions)]
        await add_sessions(self._cluster, specs)
        todo = assignments(self._sessions, 1, agents)
        wanted = SessionFilter()
        records = await self._cluster.store.read(lambda unit: unit.sessions.page(wanted, limit=self._sessions))
        context = AllocationContext(known={record.session_id: record for record in records})
        for start in range(0, len(todo), 500):
            result = await self._cluster.allocator.allocate_batch(todo[start : start + 500], context)
            assert not result.refused, result.refused
        await self.measure_devices()

    async def nothing(self) -> None:
        """Change nothing."""

    async def measure_devices(self) -> None:
        """A heartbeat of each agent, with other figures of all devices that work."""
        self._heartbeats += 1
        for one in await self._cluster.store.read(lambda unit: unit.fleet.all()):
            working = [(device.device_id, str(one.info.agent_id)) for device in one.devices if one.info.kernel_count]
            figures = simulated_figures(one.devices, working, now_ms=self._heartbeats * STEADY_MS)
            state = AgentState(one.info.agent_id, 1, self._heartbeats, devices=figures)
            await self._states.put(state, ttl_s=TTL_S)

    async def end_sessions(self) -> None:
        """Ten sessions end, on different agents."""
        for _ in range(ENDED):
            name = f"s{self._ended * 97 % self._sessions:06}"
            self._ended += 1
            await self._cluster.start(name)
            await self._cluster.stop(name)
            await self._cluster.free(name, FreeProof.AGENT_TOMBSTONE)

    async def whole(self) -> None:
        """Print the cost of all columns."""
        used = processor_s()
        state = await self._reader.current(kept_ms=0)
        read_s = processor_s() - used
        used = processor_s()
        body = msgspec.json.encode(fleet_view(state.fleet, EVERYONE))
        print(_line("first reading", read_s * 1000, 0.0, 0.0, event=b""))
        print(_line("whole columns", 0.0, 0.0, (processor_s() - used) * 1000, event=body))

    async def changes(self, what: str, change: Callable[[], Awaitable[None]]) -> None:
        """Print the least cost of a reading after a change, of its difference, and of the event."""
        costs: list[tuple[float, float, float]] = []
        event = b""
        for _ in range(TIMES):
            before = await self._reader.current(kept_ms=0)
            await change()
            times = [processor_s()]
            after = await self._reader.current(kept_ms=0)
            times.append(processor_s())
            found = fleet_difference(before.fleet, after.fleet)
            times.append(processor_s())
            event = b"" if found is None else msgspec.json.encode(change_view(found, EVERYONE))
            times.append(processor_s())
            read, compared, encoded = ((end - start) * 1000 for start, end in pairwise(times))
            costs.append((read, compared, encoded))
        print(_line(what, *min(costs), event=event))


def _line(what: str, *costs_ms: float, event: bytes) -> str:
    costs = "  ".join(
        f"{name} {cost:6.1f} ms" for name, cost in zip(("read", "compare", "encode"), costs_ms, strict=True)
    )
    return f"{what:24}{costs}  {len(event):9,} B, {len(gzip.compress(event)):7,} B compressed"


async def run(agents: int, sessions: int) -> None:
    """Measure and print."""
    async with cluster("sqlite") as opened:
        bench = Bench(opened, sessions)
        await bench.fill(agents)
        with deferred_gc():  # as in a server
            await bench.whole()
            await bench.changes("nothing changed", bench.nothing)
            await bench.changes(f"{ENDED} sessions ended", bench.end_sessions)
            await bench.changes("figures of all devices", bench.measure_devices)


def main() -> None:
    """Measure with the chosen sizes."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--agents", type=int, default=5_000)
    options.add_argument("--sessions", type=int, default=5_000)
    chosen = options.parse_args()
    asyncio.run(run(chosen.agents, chosen.sessions))


if __name__ == "__main__":
    main()
