"""What a cycle without changes costs: `python -m benchmarks.idle_cycle [--agents N] [--pending N] [--json]`.

A coordinator of sessions on a real PostgreSQL, in this process and in virtual time, with agents that
report and sessions that wait for a label that no agent has. Measured are the processor time and the
statements of cycles: right after another one, after a heartbeat of each agent, with
the sweep of each second, and with the comparison of everything that follows every ten seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
from typing import Any

import sqlalchemy as sa

from benchmarks.durable import add_agents, add_sessions, processor_s
from benchmarks.embedded_server import milliseconds
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.session import KernelSpec, SessionSpec
from sokovan.domain.slots import ResourceSlot
from sokovan.ports.agent_states import AgentState
from sokovan.testing.clock import VirtualClock
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.servers import PostgresServer
from sokovan.testing.stored_cluster import StoredCluster

RUNS = 6
FRESH_S = 15.0
# Seconds of virtual time before a cycle of each kind.
KINDS = {"at-once": 0.02, "heartbeats": 0.02, "sweep": 1.0, "long": 10.0}
# Verdicts are stored a part at a time, and each session has one: cycles in which nothing else happens are as many.
SESSIONS_PER_CYCLE = 1_000
SLOTS = ResourceSlot({"cpu": 1000, "mem": 1 << 30})


class IdleCluster:
    """Agents that report, and a coordinator whose statements are counted."""

    def __init__(self, stored: StoredCluster, clock: VirtualClock, agents: int) -> None:
        self.cluster, self._clock = OrchestratedCluster(stored, clock), clock
        self._agents, self._sequence, self._statements = agents, 0, 0
        sa.event.listen(stored.store.database.engine.sync_engine, "before_cursor_execute", self._count)

    def _count(self, *_: Any) -> None:
        self._statements += 1

    async def beat(self) -> None:
        """A heartbeat of each agent."""
        self._sequence += 1
        for index in range(self._agents):
            state = AgentState(AgentId(f"a{index:05}"), 1, self._sequence)
            await self.cluster.cache.put(state, ttl_s=FRESH_S)

    async def cycle(self, kind: str) -> tuple[float, int]:
        """The processor time and statements of one cycle."""
        await self._clock.advance(KINDS[kind])
        if kind != "at-once":
            await self.beat()
        gc.collect()
        before, counted = processor_s(), self._statements
        await self.cluster.coordinator.tick()
        return processor_s() - before, self._statements - counted

    async def figures(self, kind: str) -> dict[str, list[Any]]:
        """The figures of several cycles of a kind."""
        runs = [await self.cycle(kind) for _ in range(RUNS)]
        return {"ms": [milliseconds(seconds) for seconds, _ in runs], "statements": [count for _, count in runs]}


def waiting_spec(number: int) -> SessionSpec:
    """A session that no agent suits."""
    kernel = KernelSpec(KernelId(f"s{number:06}.0"), SLOTS, require={"none": "has"})
    return SessionSpec(SessionId(f"s{number:06}"), (kernel,))


async def measure(agents: int, pending: int) -> dict[str, Any]:
    """The figures of all kinds of cycles."""
    clock, figures = VirtualClock(), dict[str, Any](agents=agents, pending=pending)
    with PostgresServer() as server:
        url = await asyncio.to_thread(server.create_database, "bench")
        async with StoredCluster.open(url, clock=clock) as stored:
            idle = IdleCluster(stored, clock, agents)
            await add_agents(stored, agents)
            await add_sessions(stored, [waiting_spec(number) for number in range(pending)])
            first_s, _ = await idle.cycle("sweep")
            figures["first_ms"] = milliseconds(first_s)
            for _ in range(pending // SESSIONS_PER_CYCLE + 2):
                await idle.cycle("sweep")
            for kind in KINDS:
                figures[kind] = await idle.figures(kind)
                sys.stderr.write(f"{kind}: {json.dumps(figures[kind])}\n")
            await idle.cluster.coordinator.close()
            assert not idle.cluster.failures, idle.cluster.failures
    return figures


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--agents", type=int, default=5_000)
    parser.add_argument("--pending", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    figures = asyncio.run(measure(given.agents, given.pending))
    sys.stdout.write(json.dumps(figures, indent=None if given.json else 2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
