"""TopologySearch: finds the lowest HyperNode that fits.

Takes a workspace, a topology constraint and a demand (shapes with counts). Gives
HyperNodes to try, from the lowest tier up to the highest allowed one. A HyperNode is
a candidate only if, shape by shape, it has room for what must start together. Inside
a tier the fullest candidate comes first, so that empty HyperNodes stay whole. For a
session with running kernels only the HyperNodes above them are considered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from sokovan.domain.cluster.topology import ROOT, HyperNodeTree
from sokovan.domain.session import TopologyConstraint
from sokovan.domain.topology_limits import TierLimit, tier_limit
from sokovan.scheduling.engine.shapes import Shape
from sokovan.scheduling.engine.workspace import ONE_BITS, Ints, Workspace

Demand = Sequence[tuple[Shape, int]]


class Tier(NamedTuple):
    """The HyperNodes of one tier, by name, with their agent ranges as arrays."""

    names: tuple[str, ...]
    lows: Ints
    highs: Ints


class TierRoom(NamedTuple):
    """How many HyperNodes of a tier could hold a demand, and what the best holds."""

    tier: str
    hypernodes: int
    could_ever_fit: int
    fits_now: int
    most: int
    best: str

    def sentence(self) -> str:
        """`HyperNodes 8 → could ever fit 8 → fits now 0; r01 has room for 3 kernels`."""
        counts = (self.hypernodes, self.could_ever_fit, self.fits_now)
        text = " → ".join(
            f"{name} {n}" for name, n in zip(("HyperNodes", "could ever fit", "fits now"), counts, strict=True)
        )
        if not self.best or self.hypernodes == 1:
            return f"{text}; room for {self.most} kernels"
        return f"{text}; {self.best} has room for {self.most} kernels"


class TopologySearch:
    """Answers which HyperNodes could hold a demand, tier by tier."""

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

    def tier_limit(self, topology: TopologyConstraint | None) -> TierLimit:
        """The highest tier that a constraint allows; an invalid hard one gives a problem."""
        return tier_limit(self.tree, topology)

    def root(self) -> Tier:
        """The tier of the virtual root, which holds all agents."""
        return self._tiers[self.tree.root_tier]

    def agents(self, name: str) -> range:
        """The rows of the agents under a HyperNode."""
        return range(*self.tree.span(name))

    def tiers(self, limit: TierLimit, *, inside: str, agents: Iterable[int]) -> list[Tier]:
        """The HyperNodes inside `inside` that contain all of `agents`, lowest tier first."""
        low, high = self.tree.span(inside)
        highest = min(limit.highest, self.tree.tier(inside))
        running = [agent for agent in agents if agent >= 0]
        first, last = (min(running), max(running)) if running else (None, None)
        found = []
        for number, tier in self._tiers.items():
            if number > highest:
                break
            keep = (tier.lows >= low) & (tier.highs <= high)
            if first is not None and last is not None:
                keep &= (tier.lows <= first) & (tier.highs > last)
            if keep.all():
                found.append(tier)
            elif keep.any():
                chosen = np.flatnonzero(keep)
                names = tuple(tier.names[index] for index in chosen)
                found.append(Tier(names, tier.lows[chosen], tier.highs[chosen]))
        return found

    def candidates(self, tier: Tier, demand: Demand, *, whole: bool, later: bool) -> list[str]:
        """The HyperNodes of a tier that could hold the demand, the fullest first.

        With `whole` every shape of the demand must have room; without it the session is
        elastic, and only a placement attempt shows whether it fits.
        """
        fits = np.ones(len(tier.names), bool)
        if whole:
            for shape, count in demand:
                fits &= self._fitting(tier, shape, later=later) >= count
        chosen = np.flatnonzero(fits)
        if len(chosen) <= 1:
            return [tier.names[index] for index in chosen]
        fullness = self._fullness(tier, demand)[chosen]
        # Names of a tier are sorted and the sort is stable, so that equally full ones go by name.
        return [tier.names[chosen[index]] for index in np.argsort(-fullness, kind="stable")]

    def could_ever(self, tiers: Iterable[Tier], demand: Demand) -> bool:
        """Whether some HyperNode could hold the demand if it were empty."""
        for tier in tiers:
            fits = np.ones(len(tier.names), bool)
            for shape, count in demand:
                fits &= _sums(shape.ever_counts(self._workspace), tier) >= count
            if fits.any():
                return True
        return False

    def rooms(self, tiers: Iterable[Tier], demand: Demand) -> list[TierRoom]:
        """For each tier, how many HyperNodes could hold the demand, ever and now."""
        found = []
        for tier in tiers:
            ever, now = np.ones(len(tier.names), bool), np.ones(len(tier.names), bool)
            for shape, count in demand:
                ever &= _sums(shape.ever_counts(self._workspace), tier) >= count
                now &= self._fitting(tier, shape, later=False) >= count
            most, best = self.most_that_fit([tier], demand)
            name = self.tree.tier_text(self.tree.tier(tier.names[0]))
            found.append(TierRoom(name, len(tier.names), int(ever.sum()), int(now.sum()), most, best))
        return found

    def most_that_fit(self, tiers: Iterable[Tier], demand: Demand) -> tuple[int, str]:
        """The HyperNode that holds most of the demand now, and how many kernels that is."""
        counts: Counter[Shape] = Counter()
        for shape, count in demand:
            counts[shape] += count  # kernels of one shape compete for the same room, whatever their group
        most, best = 0, ""
        for tier in tiers:
            sums = np.zeros(len(tier.names), np.int64)
            for shape, count in counts.items():
                sums += np.minimum(self._fitting(tier, shape, later=False), count)
            index = int(sums.argmax()) if len(sums) else 0
            if len(sums) and sums[index] > most:
                most, best = int(sums[index]), tier.names[index]
        return most, best

    def _fitting(self, tier: Tier, shape: Shape, *, later: bool) -> Ints:
        workspace = self._workspace
        return _sums(shape.future_counts(workspace) if later else shape.fit_counts(workspace), tier)

    def _fullness(self, tier: Tier, demand: Demand) -> Ints:
        """How full each HyperNode would be with the demand in it, summed over the requested slots."""
        requested: dict[int, int] = {}
        for shape, count in demand:
            for column, amount in shape.slot_pairs:
                requested[column] = requested.get(column, 0) + amount * count
        fullness = np.zeros(len(tier.names), np.int64)
        for column, amount in requested.items():
            capacity = _sums(self._workspace.capacity[:, column], tier)
            used = capacity - _sums(self._workspace.idle[:, column], tier) + amount
            # Sums over many agents may be large; both sides are shifted alike to keep the product inside 63 bits.
            shift = max(0, int(max(capacity.max(initial=1), used.max(initial=1))).bit_length() - (62 - ONE_BITS))
            fullness += ((used >> shift) << ONE_BITS) // np.maximum(capacity >> shift, 1)
        return fullness


def _sums(amounts: Ints, tier: Tier) -> Ints:
    """The sum of an amount over the agents of each HyperNode, by prefix sums."""
    prefix = np.concatenate(([0], np.cumsum(amounts)))
    return np.asarray(prefix[tier.highs] - prefix[tier.lows], np.int64)
