"""How fast decisions are committed: `python -m benchmarks.durable [CASE...] [--json]`.

Allocation: 1,000 agents of 8 accelerators with named devices, owners with limits
that are not reached; every placement writes its session, kernel, two histories,
ledger lines, devices, agents, owners' usage and events, and is committed with
fsync. Loading: 5,000 agents and 100,000 pending sessions. PostgreSQL is a real
server that the benchmark starts on loopback. Each case runs in its own
process, so that its peak memory is measured alone.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.command_line import chosen_cases
from sokovan.adapters.sql.snapshots.source import SqlSnapshots
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AccessKey, AgentId, ScalingGroupName, SessionId
from sokovan.domain.lifecycle.session import Goal
from sokovan.domain.owners.policy import ResourcePolicy
from sokovan.domain.owners.tenancy import Domain, Group, Keypair, Owner, User
from sokovan.domain.records import Device
from sokovan.domain.session import SessionSpec
from sokovan.domain.slots import ResourceSlot, SlotLimits
from sokovan.entrypoints.embedded.gc_tuning import deferred_gc
from sokovan.ports.allocation import AllocationContext, Assignment
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.testing.servers import PostgresServer
from sokovan.testing.stored_cluster import BY_AGENT, BY_USER, StoredCluster, assignment, session_spec, submit_all

OWNERS = 20
SLOTS = {"cpu": 1000, "mem": 1 << 30, "cuda.device": 1}
CONTEXT = AllocationContext()


def processor_s() -> float:
    """Seconds of processor time that this process has used: the client's part of a placement."""
    return time.process_time()  # noqa: TID251  # a benchmark reads the clock


def clock() -> float:
    """Seconds of a monotonic clock."""
    return time.perf_counter()  # noqa: TID251  # a benchmark reads the clock


@asynccontextmanager
async def cluster(backend: str) -> AsyncIterator[StoredCluster]:
    """An empty cluster on a real database, with owners that have limits."""
    with tempfile.TemporaryDirectory(prefix="sokovan-bench-") as folder:
        if backend == "sqlite":
            async with StoredCluster.open(f"sqlite:///{Path(folder) / 'state.db'}") as opened:
                yield await _with_owners(opened)
        else:
            with PostgresServer() as server:
                url = await asyncio.to_thread(server.create_database, "bench")
                async with StoredCluster.open(url) as opened:
                    yield await _with_owners(opened)


async def _with_owners(opened: StoredCluster) -> StoredCluster:
    policy = ResourcePolicy(name="wide", slots_max=SlotLimits({"cuda.device": 1 << 40}), sessions_max=1 << 40)
    owners: list[Any] = [policy, Domain("default", policy="wide"), Group("default", "default", policy="wide")]
    for index in range(OWNERS):
        owners.append(User(f"u{index}", "default", ("default",), policy="wide"))
        owners.append(Keypair(AccessKey(f"k{index}"), f"u{index}", policy="wide"))
    await opened.store.run(lambda unit: unit.catalog.put(*owners))
    return opened


def owner(index: int) -> Owner:
    """The owners in turn."""
    number = index % OWNERS
    return Owner(user=f"u{number}", access_key=AccessKey(f"k{number}"))


async def add_agents(opened: StoredCluster, count: int) -> None:
    """Enrol agents of eight accelerators."""
    slots = ResourceSlot({"cpu": 64_000, "mem": 512 << 30, "cuda.device": 8})
    devices = [Device(f"gpu{index}", "cuda.device") for index in range(8)]
    for start in range(0, count, 500):

        async def work(unit: Any, first: int = start) -> None:
            for index in range(first, min(first + 500, count)):
                await unit.fleet.enrol(AgentInfo(AgentId(f"a{index:05}"), slots), BY_AGENT, devices=devices)

        await opened.store.run(work)


async def add_sessions(opened: StoredCluster, specs: Sequence[SessionSpec]) -> None:
    """Enqueue many sessions."""
    for start in range(0, len(specs), 2_000):
        await submit_all(opened.store, specs[start : start + 2_000])


def assignments(sessions: int, kernels: int, agents: int) -> list[Assignment]:
    """Assign every kernel, eight to an agent."""
    placed: list[Assignment] = []
    for index in range(sessions):
        first = index * kernels
        names = [f"a{((first + kernel) // 8) % agents:05}" for kernel in range(kernels)]
        placed.append(assignment(f"s{index:06}", *names))
    return placed


async def allocate(
    backend: str, *, agents: int, sessions: int, kernels: int, batch: int, callers: int = 1
) -> dict[str, Any]:
    """Allocate all sessions: in batches by one caller, or singly by several."""
    async with cluster(backend) as opened:
        await add_agents(opened, agents)
        specs = [session_spec(f"s{i:06}", kernels=kernels, slots=SLOTS, owner=owner(i)) for i in range(sessions)]
        await add_sessions(opened, specs)
        todo = assignments(sessions, kernels, agents)
        batches = [todo[start : start + batch] for start in range(0, len(todo), batch)]
        # A coordinator has read the sessions before.
        everything = SessionFilter()
        records = await opened.store.read(lambda unit: unit.sessions.page(everything, limit=sessions))
        context = AllocationContext(known={record.session_id: record for record in records})
        with deferred_gc():  # as in a server
            begin, used = clock(), processor_s()
            await _by_callers(opened, batches, callers, context)
            seconds, used = clock() - begin, processor_s() - used
    placed = sessions * kernels
    return {
        "placed": placed,
        "seconds": round(seconds, 3),
        "per_s": round(placed / seconds),
        "client_us": round(used * 1e6 / placed),
    }


async def _by_callers(
    opened: StoredCluster, batches: list[list[Assignment]], callers: int, context: AllocationContext
) -> None:
    waiting = iter(batches)

    async def caller() -> None:
        for batch in waiting:
            result = await opened.allocator.allocate_batch(batch, context)
            assert len(result.allocated) == len(batch), result.refused

    await asyncio.gather(*[caller() for _ in range(callers)])


async def load(backend: str, *, agents: int, sessions: int, changes: int) -> dict[str, Any]:
    """Load snapshots: for the first time, after changes, and unchanged."""
    async with cluster(backend) as opened:
        await add_agents(opened, agents)
        specs = [session_spec(f"s{i:06}", slots=SLOTS, owner=owner(i)) for i in range(sessions)]
        await add_sessions(opened, specs)
        del specs
        gc.collect()
        source = SqlSnapshots(opened.store)
        first = await _timed(lambda: _refreshed(source))
        changed, unchanged = [], []
        for round_number in range(5):
            await _change(opened, changes, round_number)
            changed.append(await _timed(lambda: _refreshed(source)))
            unchanged.append(await _timed(lambda: _refreshed(source)))
    return {
        "first_ms": round(first * 1000),
        "changed_ms": round(min(changed) * 1000, 1),
        "unchanged_ms": round(min(unchanged) * 1000, 2),
        "changed_ms_each": [round(one * 1000, 1) for one in changed],
        "unchanged_ms_each": [round(one * 1000, 2) for one in unchanged],
    }


async def _refreshed(source: SqlSnapshots) -> None:
    await source.refresh()
    await source.snapshot(ScalingGroupName("default"))


async def _change(opened: StoredCluster, changes: int, round_number: int) -> None:
    """Apply changes: a third each of allocations, new sessions and cancellations."""
    third = changes // 3
    base = round_number * changes
    todo = [assignment(f"s{base + i:06}", f"a{(base + i) % 1000:05}") for i in range(changes - 2 * third)]
    result = await opened.allocator.allocate_batch(todo, CONTEXT)
    assert not result.refused, result.refused
    await add_sessions(opened, [session_spec(f"n{base + i}", slots=SLOTS, owner=owner(i)) for i in range(third)])
    for index in range(third):
        name = SessionId(f"s{base + changes + 50_000 + index:06}")

        async def cancel(unit: SqlUnitOfWork, session_id: SessionId = name) -> None:
            await unit.sessions.set_goal(session_id, Goal.STOP, BY_USER)

        await opened.store.run(cancel)


async def _timed(work: Callable[[], Awaitable[None]]) -> float:
    begin = clock()
    await work()
    return clock() - begin


ALLOCATION = {"agents": 1_000, "sessions": 8_000, "kernels": 1}
CASES: dict[str, tuple[str, Callable[[], Coroutine[Any, Any, dict[str, Any]]]]] = {
    "postgresql-batch": (">= 4,000 placements/s", lambda: allocate("postgresql", **ALLOCATION, batch=500)),
    "postgresql-gangs": (
        "none",
        lambda: allocate("postgresql", agents=1_000, sessions=250, kernels=32, batch=16),
    ),
    "postgresql-single": (
        ">= 1,000 placements/s",
        lambda: allocate("postgresql", **ALLOCATION, batch=1, callers=64),
    ),
    "postgresql-one-caller": (
        "none",
        lambda: allocate("postgresql", agents=1_000, sessions=1_000, kernels=1, batch=1),
    ),
    "sqlite-batch": ("none", lambda: allocate("sqlite", **ALLOCATION, batch=500)),
    "sqlite-gangs": ("none", lambda: allocate("sqlite", agents=1_000, sessions=250, kernels=32, batch=16)),
    "sqlite-single": ("none", lambda: allocate("sqlite", **ALLOCATION, batch=1, callers=64)),
    "sqlite-one-caller": ("none", lambda: allocate("sqlite", agents=1_000, sessions=1_000, kernels=1, batch=1)),
    "postgresql-load": (
        "changed <= 50 ms, unchanged <= 5 ms, memory <= 1 GB",
        lambda: load("postgresql", agents=5_000, sessions=100_000, changes=100),
    ),
    "sqlite-load": (
        "changed <= 50 ms, unchanged <= 5 ms, memory <= 1 GB",
        lambda: load("sqlite", agents=5_000, sessions=100_000, changes=100),
    ),
}


def main() -> int:
    """Run the named cases, or all."""
    chosen, as_json = chosen_cases("benchmarks.durable", __doc__, CASES)
    for name in chosen:
        figures = measure(name) if len(chosen) == 1 else _in_child(name)
        print(json.dumps(figures) if as_json else _row(figures), flush=True)
    return 0


def measure(name: str) -> dict[str, Any]:
    """Run one case in this process."""
    goal, work = CASES[name]
    figures = asyncio.run(work())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return {"case": name, "goal": goal, **figures, "peak_rss_mb": peak}


def _in_child(name: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.durable", name, "--json"]
    figures: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return figures


def _row(figures: dict[str, Any]) -> str:
    hidden = {"case", "goal"}
    shown = "  ".join(f"{name} {value}" for name, value in figures.items() if name not in hidden)
    return f"{figures['case']:24} {shown}  goal {figures['goal']}"


if __name__ == "__main__":
    sys.exit(main())
