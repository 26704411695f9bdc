"""Where close is close enough: the search for a HyperNode that holds a session.

Domains are tried from the lowest tier up to the highest that is allowed. A domain
is tried only if, shape by shape, it has room for what must start together. Inside
a tier the fullest domain that holds the session wins, so that empty ones stay
whole; a trial of another leaves no trace. A session that runs in part looks only
at the HyperNodes above what runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from sokovan.domain.cluster.topology import ROOT, HyperNodeTree
from sokovan.domain.session import TopologyConstraint, TopologyMode
from sokovan.scheduling.engine.gang import Span
from sokovan.scheduling.engine.shapes import Shape
from sokovan.scheduling.engine.workspace import ONE_BITS, Ints, Workspace

Demand = Sequence[tuple[Shape, int]]


class Bounds(NamedTuple):
    """How high a search may climb; `problem` says why it cannot begin."""

    highest: int
    problem: str = ""


class Tier(NamedTuple):
    """The HyperNodes of one tier, by name, with their spans as arrays."""

    names: tuple[str, ...]
    lows: Ints
    highs: Ints


class TopologySearch:
    """Answers where a demand could go, tier by tier."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self.tree: HyperNodeTree = workspace.tree
        self._tiers: dict[int, Tier] = {}
        by_tier: dict[int, list[str]] = {}
        for node in self.tree.hypernodes:
            by_tier.setdefault(node.tier, []).append(node.name)
        by_tier[self.tree.root_tier] = [ROOT]
        for tier in sorted(by_tier):
            names = tuple(by_tier[tier])
            spans = [self.tree.span(name) for name in names]
            lows, highs = (np.array(column, np.int64) for column in zip(*spans, strict=True))
            self._tiers[tier] = Tier(names, lows, highs)

    def bounds(self, topology: TopologyConstraint | None) -> Bounds:
        """How high a constraint lets a search climb; a hard one fails closed."""
        if topology is None or topology.mode is TopologyMode.SOFT:
            return Bounds(self.tree.root_tier)
        if self.tree.root_tier == 1:
            return Bounds(0, "a hard topology needs HyperNodes, and there are none")
        highest = topology.highest_tier
        if isinstance(highest, str):
            number = self.tree.tier_named(highest)
            if number is None:
                return Bounds(0, f"no tier is called {highest}")
            highest = number
        # The virtual root stands for "anywhere", which is not a closeness anybody asked for.
        top = self.tree.root_tier - 1
        return Bounds(top if highest is None else min(highest, top))

    def root(self) -> Tier:
        """The tier of the virtual root: anywhere."""
        return self._tiers[self.tree.root_tier]

    def span(self, name: str) -> Span:
        """The agents under a HyperNode."""
        return Span(*self.tree.span(name))

    def tiers(self, bounds: Bounds, *, inside: str, agents: Iterable[int]) -> list[Tier]:
        """The domains inside a HyperNode and around what runs, lowest tier first."""
        low, high = self.tree.span(inside)
        highest = min(bounds.highest, self.tree.tier(inside))
        running = [agent for agent in agents if agent >= 0]
        first, last = (min(running), max(running)) if running else (None, None)
        found = []
        for number, tier in self._tiers.items():
            if number > highest:
                break
            keep = (tier.lows >= low) & (tier.highs <= high)
            if first is not None and last is not None:
                keep &= (tier.lows <= first) & (tier.highs > last)
            if keep.any():
                chosen = np.flatnonzero(keep)
                names = tuple(tier.names[index] for index in chosen)
                found.append(Tier(names, tier.lows[chosen], tier.highs[chosen]))
        return found

    def candidates(self, tier: Tier, demand: Demand, *, whole: bool, later: bool) -> list[str]:
        """The domains of a tier that could hold the demand, the fullest first.

        With `whole` every shape of the demand must find room; without it the session
        is elastic and only the trial can tell.
        """
        fits = np.ones(len(tier.names), bool)
        if whole:
            for shape, count in demand:
                fits &= self._held(tier, shape, later=later) >= count
        chosen = np.flatnonzero(fits)
        if len(chosen) <= 1:
            return [tier.names[index] for index in chosen]
        fullness = self._fullness(tier, demand)[chosen]
        # Names of a tier are in order, and the sort is stable: of equally full ones the first by name.
        return [tier.names[chosen[index]] for index in np.argsort(-fullness, kind="stable")]

    def could_ever(self, tiers: Iterable[Tier], demand: Demand) -> bool:
        """Whether some domain could hold the demand if it were empty."""
        for tier in tiers:
            fits = np.ones(len(tier.names), bool)
            for shape, count in demand:
                fits &= _sums(shape.ever_counts(self._workspace), tier) >= count
            if fits.any():
                return True
        return False

    def most_that_fit(self, tiers: Iterable[Tier], demand: Demand) -> tuple[int, str]:
        """The domain that holds most of the demand now, and how many kernels that is."""
        counts: Counter[Shape] = Counter()
        for shape, count in demand:
            counts[shape] += count  # kernels of one shape share one room, whatever their group
        best, where = 0, ""
        for tier in tiers:
            sums = np.zeros(len(tier.names), np.int64)
            for shape, count in counts.items():
                sums += np.minimum(self._held(tier, shape, later=False), count)
            index = int(sums.argmax()) if len(sums) else 0
            if len(sums) and sums[index] > best:
                best, where = int(sums[index]), tier.names[index]
        return best, where

    def _held(self, tier: Tier, shape: Shape, *, later: bool) -> Ints:
        workspace = self._workspace
        return _sums(shape.future_counts(workspace) if later else shape.fit_counts(workspace), tier)

    def _fullness(self, tier: Tier, demand: Demand) -> Ints:
        """How full each domain would be with the demand in it, summed over the slots asked for."""
        asked: dict[int, int] = {}
        for shape, count in demand:
            for column, amount in shape.slot_pairs:
                asked[column] = asked.get(column, 0) + amount * count
        fullness = np.zeros(len(tier.names), np.int64)
        for column, amount in asked.items():
            capacity = _sums(self._workspace.capacity[:, column], tier)
            used = capacity - _sums(self._workspace.idle[:, column], tier) + amount
            # A sum over many agents may be large; both sides are scaled down alike before they are divided.
            shift = max(0, int(max(capacity.max(initial=1), used.max(initial=1))).bit_length() - (62 - ONE_BITS))
            fullness += ((used >> shift) << ONE_BITS) // np.maximum(capacity >> shift, 1)
        return fullness


def _sums(amounts: Ints, tier: Tier) -> Ints:
    """The sum of an amount over the agents of each domain: spans are slices, so two prefix sums tell."""
    prefix = np.concatenate(([0], np.cumsum(amounts)))
    return np.asarray(prefix[tier.highs] - prefix[tier.lows], np.int64)
