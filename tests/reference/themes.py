"""Features of random clusters, and what they are drawn with."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cache

from hypothesis import strategies as st

from sokovan.domain.cluster.agent import FOREVER_MS


@dataclass(frozen=True)
class Theme:
    """The features of a cluster besides agents and sessions of equal kernels."""

    agents: int = 8
    sessions: int = 8
    kernels: int = 5
    busy: bool = False
    releasing: bool = False
    overcommitted: bool = False
    picky: bool = False  # labels, architectures, ports, kernel limits, draining agents
    mixed: bool = False  # kernels of one session differ
    elastic: bool = False
    groups: bool = False
    partitions: bool = False
    running: bool = False
    best_effort: bool = False
    constrained: bool = False  # taints, label expressions, affinity between sessions
    nominated: bool = False
    promised: bool = False
    tiers: int = 0
    queues: int = 0
    limits: bool = False
    arrays: bool = False
    shards: bool = False
    owners: int = 1
    timed: bool = False  # time limits and bookings
    loans: bool = False
    selectors: tuple[str, ...] = ("concentrated",)
    sequencers: tuple[str, ...] = ("fifo",)
    policies: tuple[str, ...] = ("capacity",)
    actions: tuple[tuple[str, ...], ...] = (("allocate",),)


@dataclass
class Host:
    """An agent under construction."""

    name: str
    slots: dict[str, int]
    used: Counter[str] = field(default_factory=Counter)
    leaving: Counter[str] = field(default_factory=Counter)
    kernels: int = 0
    kernels_leaving: int = 0

    def run(self, slots: dict[str, int], *, leaves: bool, force: bool = False) -> bool:
        """Run a kernel here, if there is room for it."""
        if not force and any(self.used[slot] + n > self.slots.get(slot, 0) for slot, n in slots.items()):
            return False
        self.used.update(slots)
        self.kernels += 1
        if leaves:
            self.leaving.update(slots)
            self.kernels_leaving += 1
        return True


# Making a strategy takes longer than drawing from it.
_numbers = cache(st.integers)


class Dice:
    """Shorthands for the most frequent draws."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def chance(self, tenths: int) -> bool:
        return self.number(0, 9) >= 10 - tenths

    def number(self, low: int, high: int) -> int:
        return self._draw(_numbers(low, high))

    def among(self, things: tuple[dict[str, int], ...]) -> dict[str, int]:
        return self._draw(st.sampled_from(things))

    def ports(self) -> tuple[int, ...]:
        return self._draw(st.sampled_from(((8080,), (0,), (0, 0, 8080), (9090,))))

    def leased_ports(self) -> tuple[tuple[int, int], ...]:
        some = ((8080, FOREVER_MS), (8081, 0), (9090, FOREVER_MS))
        every = ((8080, FOREVER_MS), (8081, FOREVER_MS), (8082, FOREVER_MS))
        return self._draw(st.sampled_from(((), (), some, some, every)))

    def one_of(self, *names: str) -> str:
        return self._draw(st.sampled_from(names))
