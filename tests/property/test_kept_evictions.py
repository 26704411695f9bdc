"""What evictions keep for a cycle: plans are the same as if everything were computed again for each taker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random  # noqa: TID251  # cases by their number

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.queue import ROOT_QUEUE, Queue
from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.ids import AgentId, KernelId, QueueName, SessionId
from sokovan.domain.session import TopologyConstraint, TopologyMode
from sokovan.domain.slots import ResourceSlot, SlotLimits
from sokovan.scheduling.engine.evictions import evict, many, queue_columns, search
from sokovan.scheduling.engine.evictions.order import SharedOrder
from sokovan.scheduling.engine.evictions.trial import EvictionTrial, Proof
from sokovan.scheduling.engine.pending_session import PendingSession
from sokovan.scheduling.engine.workspace import Ints, LoggedColumn
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload, SystemSnapshot
from tests.quick import at_most

Cycle = tuple[SystemSnapshot, SchedulingProfile]
SHAPES = ({"cuda.device": 1}, {"cuda.device": 2}, {"cuda.device": 1, "cpu": 1})
ACTIONS = (("allocate", "preempt"), ("allocate", "reclaim"), ("allocate", "preempt", "reclaim"))


def recomputed(
    self: LoggedColumn, log: Sequence[int], compute: Callable[[Ints | slice], Ints], one: Callable[[int], int]
) -> Ints:
    del self, log, one
    return compute(slice(None))


def each_time(self: EvictionTrial, pending: PendingSession) -> Callable[[Sequence[int]], Proof | None]:
    return lambda rows: self.fits(pending, rows)


@contextmanager
def nothing_kept() -> Iterator[None]:
    """Every taker is served as if it were the first: whole orders, fresh columns, every set tried."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LoggedColumn, "updated", recomputed)
        patch.setattr(SharedOrder, "gone", lambda *_: None)
        patch.setattr(queue_columns, "_kept", lambda _, __, make: make())
        patch.setattr(many, "FIRST_ROWS", 1 << 40)
        patch.setattr(evict.Evictions, "_has_seats", lambda *_: True)
        patch.setattr(evict.Evictions, "_proved_later", lambda *_: False)
        patch.setattr(EvictionTrial, "proofs", each_time)
        yield


@contextmanager
def searched_by_columns(first_rows: int) -> Iterator[None]:
    """No set is found by comparing all; so many rows of an order are looked at first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "SETS_MAX", 0)
        patch.setattr(search, "_KERNELS_MAX", 0)
        patch.setattr(many, "FIRST_ROWS", first_rows)
        yield


def some_cycle(seed: int) -> Cycle:
    """Agents that are rather full, sessions of several queues, and some that take one after another."""
    chance = Random(seed)  # noqa: S311  # not a secret
    names = [f"n{index}" for index in range(chance.choice([3, 6, 10]))]
    queue_names = [f"q{index}" for index in range(chance.choice([1, 2, 4]))]
    shapes = SHAPES[: chance.choice([1, 3])]
    free = {name: {"cuda.device": 4, "cpu": 4} for name in names}
    running = _running(chance, queue_names, shapes, free)
    agents = tuple(
        AgentInfo(
            AgentId(name), ResourceSlot({"cuda.device": 4, "cpu": 4}),
            ResourceSlot({slot: 4 - left for slot, left in free[name].items()}),
            kernel_count=sum(kernel.agent == name for one in running for kernel in one.kernels),
        )
        for name in names
    )  # fmt: skip
    hierarchy = len(queue_names) > 2 and chance.random() < 0.5
    queues = [
        Queue(
            name=QueueName(name), priority=chance.randrange(2),
            deserved=SlotLimits({"cuda.device": chance.randrange(4 * len(names) // len(queue_names) + 2)}),
            parent=QueueName("above") if hierarchy and name != "q0" and chance.random() < 0.5 else ROOT_QUEUE,
        )
        for name in queue_names
    ]  # fmt: skip
    if hierarchy:
        queues.append(Queue(name=QueueName("above"), deserved=SlotLimits({"cuda.device": 2 * len(names)})))
    nodes = tuple(HyperNode(f"h{part}", 1, tuple(names[2 * part :][:2])) for part in range((len(names) + 1) // 2))
    sessions = (*running, *_takers(chance, queue_names, shapes))
    policy = chance.choice(["capacity", "capacity", "proportion"])
    profile = SchedulingProfile(queue_policy=policy, hierarchy=hierarchy, actions=chance.choice(ACTIONS))
    return SystemSnapshot(agents, sessions, queues=tuple(queues), hypernodes=nodes, now_ms=1_000_000), profile


def _running(
    chance: Random, queue_names: Sequence[str], shapes: Sequence[dict[str, int]], free: dict[str, dict[str, int]]
) -> list[SessionWorkload]:
    """Sessions that run, with what they use taken from what is free."""
    sessions = []
    for index in range(4 * len(free)):
        kernels = []
        for part in range(chance.choice([1, 1, 2, 3])):
            slots, host = chance.choice(shapes), chance.choice(list(free))
            if all(free[host][slot] >= amount for slot, amount in slots.items()):
                free[host] = {slot: left - slots.get(slot, 0) for slot, left in free[host].items()}
                name, priority = KernelId(f"r{index}.{part}"), chance.randrange(2)
                kernels.append(KernelWorkload(name, ResourceSlot(slots), agent=AgentId(host), priority=priority))
        if kernels:
            sessions.append(
                SessionWorkload(
                    SessionId(f"r{index}"), tuple(kernels), submitted=index, priority=chance.randrange(3),
                    min_kernels=chance.randint(1, len(kernels)), queue=QueueName(chance.choice(queue_names)),
                    running_since_ms=chance.choice([None, None, 0, 990_000]),
                )
            )  # fmt: skip
    return sessions


def _takers(chance: Random, queue_names: Sequence[str], shapes: Sequence[dict[str, int]]) -> list[SessionWorkload]:
    sessions = []
    for index in range(chance.choice([4, 12])):
        count, slots = chance.choice([1, 1, 2, 4]), chance.choice(shapes)
        kernels = [KernelWorkload(KernelId(f"t{index}.{part}"), ResourceSlot(slots)) for part in range(count)]
        near = TopologyConstraint(TopologyMode.HARD, 1) if chance.random() < 0.15 else None
        sessions.append(
            SessionWorkload(
                SessionId(f"t{index}"), tuple(kernels), submitted=100 + index, min_kernels=chance.randint(1, count),
                priority=chance.choice([2, 4]), queue=QueueName(chance.choice(queue_names)), topology=near,
            )
        )  # fmt: skip
    return sessions


def check_same(cycle: Cycle) -> int:
    plan = schedule(*cycle)
    with nothing_kept():
        assert schedule(*cycle) == plan
    return len(plan.evictions)


@pytest.mark.slow
@pytest.mark.parametrize("first_rows", [1, 3, 64])
def test_takers_that_share_columns_and_orders_get_the_plan_of_those_that_share_nothing(first_rows: int) -> None:
    with searched_by_columns(first_rows):
        assert sum(check_same(some_cycle(seed)) for seed in range(first_rows, 3000, 64)) > 100


@pytest.mark.slow
def test_few_candidates_are_compared_exactly_whatever_is_kept() -> None:
    assert sum(check_same(some_cycle(seed)) for seed in range(40)) > 20


@pytest.mark.slow
@at_most(60)
@given(st.integers(0, 1 << 32), st.integers(1, 9))
def test_any_other_cluster_gives_the_same_plan_as_well(seed: int, first_rows: int) -> None:
    with searched_by_columns(first_rows):
        check_same(some_cycle(seed))
