"""The topology as an administrator gives it: tiers, some of them by agent label.

HyperNodes are listed with their members, or follow from labels: in a tier with a label,
agents with the same value are in one HyperNode, inside that of the next higher labelled
tier. An agent that a listed HyperNode names is not placed by its labels. Any labels of
any agents give a valid tree, so that an agent that joins later cannot break it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count

from sokovan.domain.checks import LABEL_TEXT_MAX
from sokovan.domain.cluster.topology import TIER_MAX, HyperNode, HyperNodeTree
from sokovan.domain.errors import InvalidTopology, quoted
from sokovan.domain.ids import checked_name, is_name

__all__ = ["HYPERNODES_MAX", "MEMBERS_MAX", "TOPOLOGY", "HyperNode", "TierRule", "Topology", "pruned"]

TOPOLOGY = "topology"
HYPERNODES_MAX = 10_000
MEMBERS_MAX = 50_000

# A path that is cut to this length can take a number and is still a name.
_NUMBERED = 100

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TierRule:
    """A tier, its name, and the agent label whose values name its HyperNodes, if any."""

    tier: int
    name: str
    label: str | None = None

    def __post_init__(self) -> None:
        checked_name(self.name, what="tier")
        if isinstance(self.tier, bool) or not 1 <= self.tier <= TIER_MAX:
            raise InvalidTopology(problem=f"tier {self.name} has the number {quoted(self.tier)}, not 1 to {TIER_MAX}")
        label = self.label
        if label is not None and not (label and len(label) <= LABEL_TEXT_MAX and label.isprintable()):
            raise InvalidTopology(problem=f"tier {self.name} has the label {quoted(label)}, which no agent can have")


@dataclass(frozen=True, slots=True)
class Topology:
    """The tiers, lowest first, and the listed HyperNodes."""

    tiers: tuple[TierRule, ...] = ()
    hypernodes: tuple[HyperNode, ...] = ()

    def __post_init__(self) -> None:
        members = sum(len(node.members) for node in self.hypernodes)
        for found, most, what in (
            (len(self.tiers), TIER_MAX, "tiers"),
            (len(self.hypernodes), HYPERNODES_MAX, "HyperNodes"),
            (members, MEMBERS_MAX, "members of HyperNodes"),
        ):
            if found > most:
                raise InvalidTopology(problem=f"{found} {what} are listed, at most {most} are allowed")
        for what, values in (
            ("name", [rule.name for rule in self.tiers]),
            ("number", [rule.tier for rule in self.tiers]),
            ("label", [rule.label for rule in self.tiers if rule.label is not None]),
        ):
            for position, value in enumerate(values):
                if value in values[:position]:
                    raise InvalidTopology(problem=f"two tiers have the {what} {quoted(value)}")

    @property
    def name(self) -> str:
        """The key in the catalog: there is one topology."""
        return TOPOLOGY

    def tree(self, agents: Mapping[str, Labels]) -> HyperNodeTree:
        """The tree over these agents, by id with their labels. Raises InvalidTopology."""
        return HyperNodeTree(agents, [*self.hypernodes, *self._derived(agents)])

    def hypernodes_over(self, agents: Mapping[str, Labels]) -> tuple[HyperNode, ...]:
        """All HyperNodes over these agents, lowest tier first; always a valid tree.

        Members that no longer exist, or that are in another HyperNode, are omitted, and so
        is a HyperNode without members.
        """
        found = sorted((*self.hypernodes, *self._derived(agents)), key=lambda node: node.tier)
        return pruned(found, agents)

    def _derived(self, agents: Mapping[str, Labels]) -> list[HyperNode]:
        """The HyperNodes that follow from labels."""
        rules = sorted((rule for rule in self.tiers if rule.label is not None), key=lambda rule: -rule.tier)
        if not rules:
            return []
        listed = {member for node in self.hypernodes for member in node.members}
        taken = {node.name for node in self.hypernodes} | agents.keys()
        places: dict[tuple[int, str, str], _LabelledPlace] = {}
        for agent in sorted(agents.keys() - listed):
            above = _NOWHERE
            for rule in rules:
                value = agents[agent].get(rule.label or "", "")
                path = f"{above.path}/{value}" if above.path else value
                if not value or not is_name(path):
                    continue  # without a usable label the agent is directly in what is above
                key = (rule.tier, above.name, value)
                if key not in places:
                    places[key] = _LabelledPlace(rule, path, _free_name(rule, path, taken), [])
                    if above is not _NOWHERE:
                        above.members.append(places[key].name)
                above = places[key]
            if above is not _NOWHERE:
                above.members.append(agent)
        return [HyperNode(one.name, one.rule.tier, tuple(one.members), one.rule.name) for one in places.values()]


@dataclass(slots=True)
class _LabelledPlace:
    rule: TierRule
    path: str
    name: str
    members: list[str]


_NOWHERE = _LabelledPlace(TierRule(TIER_MAX, "root"), "", "", [])


def _free_name(rule: TierRule, path: str, taken: set[str]) -> str:
    """The path of label values; with the name of the tier, if something else has that name."""
    numbered = (f"{path[:_NUMBERED]}+{number}" for number in count(2))
    name = next(name for name in chain((path, f"{rule.name}:{path}"), numbered) if is_name(name) and name not in taken)
    taken.add(name)
    return name


def pruned(nodes: Sequence[HyperNode], agents: Iterable[str]) -> tuple[HyperNode, ...]:
    """These HyperNodes, lowest tier first, without members that are unknown or taken."""
    free = dict.fromkeys(agents, 0)
    found: list[HyperNode] = []
    for node in nodes:
        members = tuple(member for member in node.members if free.get(member, node.tier) < node.tier)
        if members:
            found.append(node if members == node.members else replace(node, members=members))
            for member in members:
                del free[member]
            free[node.name] = node.tier
    return tuple(found)
