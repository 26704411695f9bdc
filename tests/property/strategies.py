"""Random slots, trees, queues and invalid values for property tests."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from hypothesis import strategies as st

from sokovan.domain.cluster.queue import ROOT_QUEUE, Queue
from sokovan.domain.cluster.topology import ROOT, HyperNode, HyperNodeTree
from sokovan.domain.ids import QueueName
from sokovan.domain.slots import AMOUNT_MAX, ResourceSlot

# At least one name of every kind, few enough that two random vectors share some.
SLOT_NAMES = ("cpu", "mem", "cuda.mem", "cuda.shares", "cuda.device", "fpga")

# Amounts that have a short written form: the interesting ones for printing.
_ROUND = st.builds(
    lambda number, unit, power: min(AMOUNT_MAX, number * unit**power),
    st.integers(0, 2000),
    st.sampled_from([1000, 1024]),
    st.integers(0, 5),
)


def amounts(most: int = AMOUNT_MAX) -> st.SearchStrategy[int]:
    """Amounts that are small, round, large, or the maximum."""
    drawn = st.one_of(st.integers(0, 10), st.integers(0, most), _ROUND, st.just(most))
    return drawn.map(lambda amount: min(amount, most))


def slots(most: int = AMOUNT_MAX) -> st.SearchStrategy[ResourceSlot]:
    """Vectors over a few shared slots, so that they overlap in some."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys(SLOT_NAMES, amounts(most))).map(ResourceSlot)


def slot_names() -> st.SearchStrategy[str]:
    """Any legal slot name, including those with a kind of their own."""
    word = st.builds("{}{}".format, st.sampled_from("abcxyz"), st.text("az09_-", max_size=6))
    dotted = st.builds("{}.{}".format, word, st.one_of(st.sampled_from(["mem", "shares", "device", "0"]), word))
    return st.one_of(st.sampled_from(SLOT_NAMES), word, dotted)


def any_slots() -> st.SearchStrategy[ResourceSlot]:
    """Vectors over any legal names."""
    return st.dictionaries(slot_names(), amounts(), max_size=8).map(ResourceSlot)


@dataclass(frozen=True)
class Network:
    """Agents and HyperNodes that form a tree, the tree, and a naive model of it."""

    agents: tuple[str, ...]
    hypernodes: tuple[HyperNode, ...]

    @property
    def tree(self) -> HyperNodeTree:
        return HyperNodeTree(self.agents, self.hypernodes)

    @property
    def names(self) -> tuple[str, ...]:
        """All names of agents and HyperNodes."""
        return (ROOT, *(node.name for node in self.hypernodes), *self.agents)

    def line(self, name: str) -> list[str]:
        """`name` and everything above it, nearest first: the naive model of the tree."""
        if name == ROOT:
            return [ROOT]
        above = next((node.name for node in self.hypernodes if name in node.members), ROOT)
        return [name, *self.line(above)]

    def agents_below(self, name: str) -> set[str]:
        """The agents under `name` by the naive model."""
        return {agent for agent in self.agents if name in self.line(agent)}


@st.composite
def networks(draw: st.DrawFn, *, agents_min: int = 1) -> Network:
    """Trees of up to four tiers, of any shape: chains, stars, agents outside, tiers left out."""
    # Names in one of many orders (29 is prime), so that no test depends on how names sort.
    stride = draw(st.integers(1, 28))
    names = iter([f"n{stride * number % 29:02}" for number in range(1, 29)])
    agents = [next(names) for _ in range(draw(st.integers(agents_min, 12)))]
    orphans, hypernodes = list(agents), list[HyperNode]()
    for tier in range(1, 5):
        for _ in range(draw(st.integers(0, 3))):
            lower = [name for name in orphans if name not in {node.name for node in hypernodes if node.tier == tier}]
            if lower:
                members = draw(st.lists(st.sampled_from(lower), min_size=1, unique=True))
                node = HyperNode(next(names), tier, tuple(members))
                hypernodes.append(node)
                orphans = [name for name in orphans if name not in members] + [node.name]
    return Network(tuple(agents), tuple(draw(st.permutations(hypernodes))))


@st.composite
def queue_forests(draw: st.DrawFn) -> list[Queue]:
    """Queues whose parents exist, in any order; the root is listed or not."""
    queues: list[Queue] = [Queue(ROOT_QUEUE)] if draw(st.booleans()) else []
    for number in range(draw(st.integers(0, 10))):
        parents = [ROOT_QUEUE, *(queue.name for queue in queues)]
        queues.append(Queue(QueueName(f"q{number}"), parent=draw(st.sampled_from(parents))))
    return draw(st.permutations(queues))


def _nested(depth: int) -> list[Any]:
    nest: list[Any] = []
    for _ in range(depth):
        nest = [nest]
    return nest


# Deeper than Python prints, and more digits than Python writes out: an error message must survive both.
_UNPRINTABLE = {"deep": _nested(5000), "huge": 10**5000, "huge below zero": -(10**5000)}


@cache
def junk() -> st.SearchStrategy[Any]:
    """Values of the wrong type, as a file, a request or a caller may pass."""
    single = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=20),
        st.binary(max_size=5),
        st.sampled_from(["", "cpu", "1Gi", "k1", "<root>", "root", -1, 0, 1, 2**63]),
    )
    key = st.one_of(single, st.tuples(single, single))
    flat = st.one_of(key, st.sampled_from(sorted(_UNPRINTABLE)).map(_UNPRINTABLE.__getitem__))
    return st.one_of(flat, _collections(key, flat), _collections(key, st.one_of(flat, _collections(key, flat))))


def _collections(key: st.SearchStrategy[Any], inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(key, inner, max_size=3),
        st.frozensets(key, max_size=3),
    )
