"""Benchmark of evictions: `python -m benchmarks.evict [CASE...]`.

Each case is a whole cycle on a full cluster in which sessions starve. The snapshot and its
HyperNode tree are built outside the measured time. The first run is a warm-up; the best of
the runs after it is reported.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from dataclasses import replace
from random import Random  # noqa: TID251  # seeded: the same draws on every run

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.ids import AgentId, KernelId, QueueName, SessionId
from sokovan.domain.session import TopologyConstraint, TopologyMode
from sokovan.domain.slots import ResourceSlot, SlotLimits
from sokovan.scheduling.engine.evictions import search
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload, SystemSnapshot

PER_AGENT = 8
GAP = "gap"  # the case that compares costs, not times
ONE_DEVICE = ResourceSlot({"cuda.device": 1})
PREEMPT = SchedulingProfile(queue_policy="capacity", actions=("allocate", "preempt"))
RECLAIM = SchedulingProfile(queue_policy="capacity", actions=("allocate", "reclaim"))


def _agents(count: int) -> tuple[AgentInfo, ...]:
    full = ResourceSlot({"cuda.device": PER_AGENT})
    return tuple(AgentInfo(AgentId(f"n{i:05}"), full, full, kernel_count=PER_AGENT) for i in range(count))


def _running(agents: int, *, gang: int = 1, queues: int = 1) -> list[SessionWorkload]:
    """Sessions of so many kernels each, one after another over the agents, of four priorities."""
    sessions = []
    for number in range(agents * PER_AGENT // gang):
        places = range(number * gang, (number + 1) * gang)
        kernels = tuple(
            KernelWorkload(KernelId(f"r{place:06}"), ONE_DEVICE, agent=AgentId(f"n{place // PER_AGENT:05}"))
            for place in places
        )
        queue = QueueName(f"q{number % queues}")
        sessions.append(
            SessionWorkload(SessionId(f"s{number:06}"), kernels, submitted=number, priority=number % 4, queue=queue)
        )
    return sessions


def _taker(name: str, kernels: int, *, queue: str = "q0", near: TopologyConstraint | None = None) -> SessionWorkload:
    waiting = tuple(KernelWorkload(KernelId(f"{name}.{i}"), ONE_DEVICE) for i in range(kernels))
    return SessionWorkload(
        SessionId(name), waiting, submitted=10**6, priority=100, queue=QueueName(queue), topology=near
    )


def gang_of_256(agents: int) -> tuple[SystemSnapshot, SchedulingProfile]:
    """A gang of 256 kernels takes from sessions of one kernel each."""
    return SystemSnapshot(_agents(agents), (*_running(agents), _taker("high", 256))), PREEMPT


def hard_tier() -> tuple[SystemSnapshot, SchedulingProfile]:
    """A gang of 64 bound to tier 3 (12 agents) on 6,000 agents under 9,600 HyperNodes takes from gangs of four."""
    agents, nodes = 6000, []
    members = [f"n{i:05}" for i in range(agents)]
    for tier, width in ((1, 1), (2, 2), (3, 6), (4, 5)):
        groups = [members[i : i + width] for i in range(0, len(members), width)]
        nodes += [HyperNode(f"t{tier}-{i:05}", tier, tuple(group)) for i, group in enumerate(groups)]
        members = [f"t{tier}-{i:05}" for i in range(len(groups))]
    taker = _taker("high", 64, near=TopologyConstraint(TopologyMode.HARD, 3))
    sessions = (*_running(agents, gang=4), taker)
    return SystemSnapshot(_agents(agents), sessions, hypernodes=tuple(nodes)), PREEMPT


def many_queues() -> tuple[SystemSnapshot, SchedulingProfile]:
    """1,000 starving sessions of 25 queues reclaim from 25 others."""
    agents = 1000
    running = [
        SessionWorkload(s.session_id, s.kernels, submitted=s.submitted, queue=QueueName(f"q{i % 25 + 25}"))
        for i, s in enumerate(_running(agents))
    ]
    share = SlotLimits({"cuda.device": 160})
    queues = tuple(Queue(name=QueueName(f"q{i}"), deserved=share) for i in range(50))
    takers = [_taker(f"t{i:04}", 1, queue=f"q{i % 25}") for i in range(1000)]
    return SystemSnapshot(_agents(agents), (*running, *takers), queues=queues), RECLAIM


def nobody_to_take_from() -> tuple[SystemSnapshot, SchedulingProfile]:
    """1,000 starving sessions without a legal victim: all have the same priority."""
    agents = 1000
    running = [
        SessionWorkload(s.session_id, s.kernels, submitted=s.submitted, priority=100, queue=s.queue)
        for s in _running(agents)
    ]
    takers = [_taker(f"t{i:04}", 1 + i % 4) for i in range(1000)]
    return SystemSnapshot(_agents(agents), (*running, *takers)), PREEMPT


def backfill() -> tuple[SystemSnapshot, SchedulingProfile]:
    """10,000 sessions run, 5,000 wait: eight gangs of 512, of which one fits now, then single kernels.

    All have time limits: the start of the second gang is computed and kept, and the single ones run
    before it only where they end in time.
    """
    agents = 1375
    running = [
        replace(one, priority=0, running_since_ms=0, time_limit_ms=3_600_000 + 1_000 * number)
        for number, one in enumerate(_running(1250))
    ]
    waiting = [
        replace(_taker(f"t{number:04}", 512 if number < 8 else 1), priority=0, submitted=10**6 + number,
                time_limit_ms=600_000 if number % 2 else 10**8)
        for number in range(5000)
    ]  # fmt: skip
    full = ResourceSlot({"cuda.device": PER_AGENT})
    idle = tuple(AgentInfo(AgentId(f"n{i:05}"), full) for i in range(1250, agents))
    profile = SchedulingProfile(queue_policy="capacity", actions=("allocate", "backfill"))
    return SystemSnapshot((*_agents(1250), *idle), (*running, *waiting)), profile


def nobody_starves() -> tuple[SystemSnapshot, SchedulingProfile]:
    """A full cluster of 1,000 agents on which no session waits: what the action itself costs."""
    return SystemSnapshot(_agents(1000), tuple(_running(1000))), PREEMPT


CASES: dict[str, tuple[str, Callable[[], tuple[SystemSnapshot, SchedulingProfile]]]] = {
    "gang-1k": ("<= 100 ms", lambda: gang_of_256(1000)),
    "gang-10k": ("<= 1 s", lambda: gang_of_256(10_000)),
    "hard-tier": ("<= 300 ms", hard_tier),
    "reclaim-50-queues": ("<= 1 s", many_queues),
    "no-victim": ("<= 200 ms", nobody_to_take_from),
    "backfill": ("<= 200 ms", backfill),
    "no-starving": ("<= 1 ms more", nobody_starves),
}


def _mixed(drawn: Random) -> SystemSnapshot:
    """Ten kernels of three shapes on four agents, and a taker of three kernels of two shapes."""
    free = {f"n{i}": PER_AGENT for i in range(4)}
    sessions: list[SessionWorkload] = []
    for number in range(5):
        kernels = []
        for index in range(2):
            amount = drawn.choice([one for one in (1, 2, 4) if one <= max(free.values())])
            host = drawn.choice([name for name, left in free.items() if left >= amount])
            free[host] -= amount
            slots, at = ResourceSlot({"cuda.device": amount}), AgentId(host)
            kernels.append(KernelWorkload(KernelId(f"r{number}{index}"), slots, agent=at, priority=drawn.randint(0, 2)))
        sessions.append(
            SessionWorkload(
                SessionId(f"s{number}"), tuple(kernels), submitted=number, min_kernels=drawn.randint(1, 2),
                priority=drawn.randint(0, 2), running_since_ms=drawn.randint(0, 10**6),
            )
        )  # fmt: skip
    agents = tuple(
        # Full, so that no idle room decides.
        AgentInfo(AgentId(name), ResourceSlot({"cuda.device": PER_AGENT - left}),
                  ResourceSlot({"cuda.device": PER_AGENT - left}), kernel_count=1)
        for name, left in free.items()
    )  # fmt: skip
    waiting = tuple(
        KernelWorkload(KernelId(f"t{index}"), ResourceSlot({"cuda.device": amount}))
        for index, amount in enumerate((drawn.choice((2, 4)), 1, 1))
    )
    taker = SessionWorkload(SessionId("taker"), waiting, submitted=10**6, priority=100, queue=QueueName("q0"))
    queues = (Queue(name=QueueName("q0"), min_runtime_s=0),)
    running = (replace(one, queue=QueueName("q0")) for one in sessions)
    return SystemSnapshot(agents, (*running, taker), queues=queues, now_ms=10**6)


def gap(cases: int) -> str:
    """How often the search by columns finds a dearer set than the trial of all sets, for kernels of several shapes."""
    drawn = Random(1)  # noqa: S311  # the same draws on every run
    takers = worse = more = missed = 0
    exactly = search.SETS_MAX
    for _ in range(cases):
        snapshot, costs = _mixed(drawn), []
        for search.SETS_MAX in (exactly, 0):
            costs.append(next((one.cost for one in schedule(snapshot, PREEMPT).evictions), None))
        search.SETS_MAX = exactly
        best, by_columns = costs
        if best is None:
            continue
        takers += 1
        missed += by_columns is None
        if by_columns is not None and by_columns != best:
            worse += 1
            more += by_columns.kernels - best.kernels
    alike = takers - worse - missed
    found = f"{alike} sets cost as little as the best of all, {worse} more ({more:+} kernels in total)"
    return f"{takers} takers of several shapes, by columns: {found}, {missed} were not found"


def measure(make: Callable[[], tuple[SystemSnapshot, SchedulingProfile]], *, runs: int) -> tuple[float, float, int]:
    """Seconds of the best run with evictions, of the best without, and the number of evictions."""
    evicting: list[float] = []
    plain: list[float] = []
    evicted = 0
    for _ in range(runs + 1):
        for actions, seconds in ((None, evicting), (("allocate",), plain)):
            snapshot, profile = make()
            if actions is not None:
                profile = SchedulingProfile(queue_policy="capacity", actions=actions)
            _ = snapshot.tree
            gc.collect()
            begin = time.perf_counter()  # noqa: TID251  # a benchmark reads the clock
            plan = schedule(snapshot, profile)
            seconds.append(time.perf_counter() - begin)  # noqa: TID251  # a benchmark reads the clock
            evicted = max(evicted, len(plan.evictions))
    return min(evicting[1:]), min(plain[1:]), evicted


def main() -> int:
    """Run the named cases, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evict", description=__doc__.partition("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join((*CASES, GAP)))
    parser.add_argument("--runs", type=int, default=3, help="runs after the warm-up; the best counts")
    options = parser.parse_args()
    unknown = set(options.cases) - {*CASES, GAP}
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    for name, (goal, make) in CASES.items():
        if not options.cases or name in options.cases:
            seconds, plain, evicted = measure(make, runs=max(1, options.runs))
            added = (seconds - plain) * 1000
            print(
                f"{name:20} {seconds * 1000:8.1f} ms, {added:8.1f} ms for {evicted} evictions (goal {goal})", flush=True
            )
    if not options.cases or GAP in options.cases:
        print(f"{GAP:20} {gap(200)}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
