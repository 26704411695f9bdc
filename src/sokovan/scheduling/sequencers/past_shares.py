"""PastShares: 2^-(usage/share) of users and queues, from the usage history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from sokovan.domain.cluster.queue import ROOT_QUEUE, Queue
from sokovan.domain.owners.past_usage import ONE as DECAY_ONE
from sokovan.domain.owners.past_usage import UsageScope, decay
from sokovan.scheduling.engine.workspace import ONE
from sokovan.scheduling.sequencers.fair_share import Shares, usage_by_weight
from sokovan.scheduling.snapshot import SystemSnapshot


class PastShares:
    """The factors of users and queues in one cycle."""

    def __init__(self, snapshot: SystemSnapshot, queues: Mapping[str, Queue], users: set[str]) -> None:
        self._policy, self._queues = snapshot.fair_share, queues
        used = usage_by_weight(snapshot)
        self._users: dict[str, int] = dict.fromkeys(users, 0)
        self._users.update(self._amounts(used, UsageScope.USER))
        self._by_queue: dict[str, int] = {}
        for name, amount in self._amounts(used, UsageScope.QUEUE).items():
            for above in self._path(name):
                self._by_queue[above] = self._by_queue.get(above, 0) + amount
        self.factor = cache(self._factor)

    def _amounts(self, used: Shares, scope: UsageScope) -> dict[str, int]:
        """The usage of each name, without the division by its weight."""
        weight = self._policy.weight
        return {name: amount * weight(scope, name) for (kind, name), amount in used.items() if kind is scope}

    def _path(self, name: str) -> Iterator[str]:
        """A queue and those above it, each once, without the root."""
        seen: set[str] = set()
        while name != ROOT_QUEUE and name not in seen:
            seen.add(name)
            yield name
            name = str(queue_named(self._queues, name).parent)

    def _factor(self, user: str, queue: str) -> int:
        weights = {name: self._policy.weight(UsageScope.USER, name) for name in self._users}
        factors = [_two_to_minus(self._users, weights, user)]
        for name in self._path(queue):
            parent = queue_named(self._queues, name).parent
            siblings = {one: each.weight for one, each in self._queues.items() if each.parent == parent}
            siblings.setdefault(name, 1)
            used = {one: self._by_queue.get(one, 0) for one in siblings}
            factors.append(_two_to_minus(used, siblings, name))
        return sum(factors) // len(factors)


def _two_to_minus(used: Mapping[str, int], weights: Mapping[str, int], name: str) -> int:
    """2 to the power of -usage/share of one of several names."""
    everything = sum(used.values())
    if not everything:
        return ONE
    factor = decay(used[name] * sum(weights.values()), everything * weights[name])
    return factor * ONE // DECAY_ONE


def queue_named(queues: Mapping[str, Queue], name: str) -> Queue:
    """The queue of this name; an unknown one has weight 1 and priority 0."""
    return queues.get(name) or Queue(name=name)  # type: ignore[arg-type]  # names are plain text
