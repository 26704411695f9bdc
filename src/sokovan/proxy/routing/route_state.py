"""The state of one route in one proxy: endpoints, waiting requests, counters."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from msgspec.structs import replace

from sokovan.domain.serving.health import Health
from sokovan.proxy.routing.choice import RevisionPool
from sokovan.proxy.routing.endpoint_state import EndpointState
from sokovan.proxy.routing.request_queue import RequestQueue
from sokovan.wire.serving.proxy_reports import FIRST_BYTE_BOUNDS_MS, RevisionReport, RouteReport
from sokovan.wire.serving.route_table import RouteEntry

W = TypeVar("W")

CONCURRENCY_DEFAULT = 64
# Keys whose answers failed lately, and are looked for at other endpoints.
SUSPECTS_MAX = 64


@dataclass(slots=True)
class RevisionCounters:
    """Counters of the requests of one revision."""

    served: int = 0
    failed: int = 0
    first_byte_ms_sum: int = 0
    first_byte_counts: list[int] = field(default_factory=lambda: [0] * (len(FIRST_BYTE_BOUNDS_MS) + 1))
    gap_ms_sum: int = 0
    gap_counts: list[int] = field(default_factory=lambda: [0] * (len(FIRST_BYTE_BOUNDS_MS) + 1))

    def gap(self, of_ms: int) -> None:
        """Count the time between two parts of a stream."""
        self.gap_ms_sum += of_ms
        self.gap_counts[bisect_left(FIRST_BYTE_BOUNDS_MS, of_ms)] += 1

    def first_byte(self, after_ms: int) -> None:
        """Count the time to the first byte of a response."""
        self.first_byte_ms_sum += after_ms
        self.first_byte_counts[bisect_left(FIRST_BYTE_BOUNDS_MS, after_ms)] += 1

    def report(self, revision: int) -> RevisionReport:
        """The counters for the manager."""
        return RevisionReport(
            revision=revision,
            served=self.served,
            failed=self.failed,
            first_byte_ms_sum=self.first_byte_ms_sum,
            first_byte_counts=tuple(self.first_byte_counts),
        )


class RouteState(Generic[W]):
    """One route; its endpoints keep their state when the table changes."""

    __slots__ = (
        "arrived", "counters", "endpoints", "entry", "in_flight", "pools", "queue", "refused", "removed", "served",
        "suspects",
    )  # fmt: skip

    def __init__(self, entry: RouteEntry) -> None:
        self.endpoints: dict[str, EndpointState] = {}
        self.pools: list[RevisionPool] = []
        self.queue: RequestQueue[W] = RequestQueue()
        self.counters: dict[int, RevisionCounters] = {}
        self.in_flight = self.arrived = self.served = self.refused = 0
        self.removed = False
        self.suspects: dict[str, list[EndpointState]] = {}
        self.replace(entry)

    def replace(self, entry: RouteEntry) -> None:
        """Take over the entry of a new table."""
        self.entry = entry
        revisions = {one.revision: one for one in entry.revisions}
        old, self.endpoints = self.endpoints, {}
        for one in sorted(entry.endpoints, key=lambda endpoint: endpoint.endpoint_id):
            revision = revisions.get(one.revision)
            limit = revision.concurrency_max if revision else CONCURRENCY_DEFAULT
            known = old.get(one.endpoint_id)
            if known is None or (known.entry.host, known.entry.port) != (one.host, one.port):
                known = EndpointState(one, concurrency_max=limit)
            else:
                known.replace(one, concurrency_max=limit)
            self.endpoints[one.endpoint_id] = known
        old_pools = {pool.revision: pool for pool in self.pools}
        self.pools = []
        for number, terms in sorted(revisions.items()):
            usable = [
                state
                for state in self.endpoints.values()
                if state.entry.revision == number and state.entry.state == "ACTIVE" and state.entry.weight
            ]
            pool = old_pools.get(number) or RevisionPool(number, terms.weight, usable)
            pool.weight, pool.endpoints = terms.weight, usable
            pool.holders = {block: one for block, one in pool.holders.items() if one in usable}
            self.pools.append(pool)

    def noted(self) -> RouteEntry:
        """The entry with the listeners of its endpoints, to keep it on disk."""
        listeners = {name: tuple(sorted(one.listeners)) for name, one in self.endpoints.items()}
        endpoints = (replace(one, listeners=listeners.get(one.endpoint_id, ())) for one in self.entry.endpoints)
        return replace(self.entry, endpoints=tuple(endpoints))

    def pool_of(self, endpoint: EndpointState) -> RevisionPool:
        """The pool of an endpoint that was chosen."""
        if len(self.pools) == 1:
            return self.pools[0]
        return next(pool for pool in self.pools if pool.revision == endpoint.entry.revision)

    def counters_of(self, revision: int) -> RevisionCounters:
        """The counters of a revision."""
        found = self.counters.get(revision)
        if found is None:
            found = self.counters[revision] = RevisionCounters()
        return found

    def alive(self, now_ms: int) -> bool:
        """Whether an endpoint with weight could take requests, perhaps later."""
        return any(one.alive(now_ms) for pool in self.pools if pool.weight for one in pool.endpoints)

    def failing(self) -> bool:
        """Whether every endpoint with weight fails its checks.

        One that is only left out for a while may serve again.
        """
        return all(
            one.health.verdict is Health.UNHEALTHY for pool in self.pools if pool.weight for one in pool.endpoints
        )

    def others_alive(self, endpoint: EndpointState, now_ms: int, *, in_use: bool = False) -> bool:
        """Whether another endpoint with weight could take requests, perhaps later.

        Those that are left out for a while do not count as `in_use`.
        """
        return any(
            one is not endpoint and one.alive(now_ms) and not (in_use and one.ejection.active(now_ms))
            for pool in self.pools
            if pool.weight
            for one in pool.endpoints
        )

    def answer_failed(self, endpoint: EndpointState, key_id: str, now_ms: int, *, cause: str) -> None:
        """Count an answer to a key that failed."""
        endpoint.recent.failed(now_ms, cause)
        at = self.suspects.setdefault(key_id, [])
        if endpoint not in at:
            at.append(endpoint)
        if len(self.suspects) > SUSPECTS_MAX:
            del self.suspects[next(iter(self.suspects))]

    def answer_came(self, endpoint: EndpointState, key_id: str, now_ms: int) -> None:
        """Count a whole answer to a key.

        If its answers failed at another endpoint, that endpoint did.
        """
        endpoint.recent.succeeded(now_ms)
        if self.suspects:
            for other in self.suspects.pop(key_id, ()):
                if other is not endpoint:
                    other.recent.answered_elsewhere()

    def warming(self) -> bool:
        """Whether a replica is about to become ACTIVE."""
        return any(one.entry.state == "WARMING" for one in self.endpoints.values())

    def half_ejected(self, now_ms: int) -> bool:
        """Whether at least half of the endpoints are ejected."""
        ejected = sum(one.ejection.active(now_ms) for one in self.endpoints.values())
        return 2 * ejected >= len(self.endpoints)

    def report(self) -> RouteReport:
        """Demand and counters for the manager."""
        return RouteReport(
            deployment_id=self.entry.deployment_id,
            in_flight=self.in_flight,
            queued=self.queue.length,
            arrived=self.arrived,
            served=self.served,
            refused=self.refused,
            holding=self.entry.holding,
            revisions=tuple(counters.report(number) for number, counters in sorted(self.counters.items())[-16:]),
        )
