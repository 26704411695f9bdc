"""Repositories of routes, endpoint tokens and proxies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from sokovan.domain.ids import DeploymentId, EndpointTokenId, RouteId
from sokovan.domain.lifecycle.route import RouteTrigger
from sokovan.domain.records import Change, HistoryEntry
from sokovan.domain.serving.budget import BudgetNeed
from sokovan.domain.serving.records import (
    EndpointTokenRecord,
    ProxyRecord,
    ReportOutcome,
    RouteRecord,
    ServingTable,
    UsageCount,
)
from sokovan.domain.serving.route import RouteSpec
from sokovan.domain.serving.token import EndpointTokenSpec


class RouteRepository(Protocol):
    """Routes, one per deployment, and the table that proxies read."""

    async def create(self, spec: RouteSpec, change: Change) -> RouteRecord:
        """Store a new route. Raises Conflict, ObjectNotFound."""

    async def get(self, route_id: RouteId) -> RouteRecord:
        """One route. Raises ObjectNotFound."""

    async def of_deployment(self, deployment_id: DeploymentId) -> RouteRecord | None:
        """The route of a deployment, if it has one."""

    async def live(self) -> Sequence[RouteRecord]:
        """Every route that has not ended, by id."""

    async def move(self, route: RouteRecord, trigger: RouteTrigger, change: Change) -> RouteRecord:
        """Apply a transition.

        Raises StaleVersion, IllegalTransition, ForbiddenCause.
        """

    async def publish(self, route: RouteRecord, entry: str) -> RouteRecord:
        """Publish another entry, with the next version of the table; empty removes it.

        Raises StaleVersion.
        """

    async def table(self, *, since: int | None = None) -> ServingTable:
        """Changes published after a version; without one, all entries in force."""

    async def version(self) -> tuple[str, int]:
        """The epoch and the version of the table."""

    async def history(self, route_id: RouteId) -> Sequence[HistoryEntry]:
        """The history of a route."""


class EndpointTokenRepository(Protocol):
    """Endpoint tokens, as keyed digests."""

    async def create(self, spec: EndpointTokenSpec, digest: str, created_by: str) -> EndpointTokenRecord:
        """Store a new token, with the next version of the table. Raises Conflict."""

    async def of_deployment(self, deployment_id: DeploymentId) -> Sequence[EndpointTokenRecord]:
        """The tokens of a deployment that are not revoked, by id."""

    async def find(self, digest: str) -> EndpointTokenRecord | None:
        """The token with a digest; None if there is none, or it is revoked."""

    async def revoke(self, token_id: EndpointTokenId) -> None:
        """Revoke a token, with the next version of the table. Idempotent."""

    async def used(self, deployment_id: DeploymentId, *, since_minute: int) -> Mapping[str, int]:
        """The tokens of models that each key used at a deployment since a minute."""


class ProxyRepository(Protocol):
    """The last report of each proxy, and the usage that they reported."""

    async def report(
        self, report: ProxyRecord, usage: Sequence[UsageCount] = (), needs: Sequence[BudgetNeed] = ()
    ) -> ReportOutcome:
        """Store a report: its usage is ingested, and its needs of budgets are leased.

        Each number of usage of a proxy is ingested once. A report that was overtaken by a later
        one brings its usage only. The leases of a key in a month are together at most its
        budget, or what was used. A proxy that was started again has no lease.
        """

    async def live(self, *, since_ms: int) -> Sequence[ProxyRecord]:
        """The proxies that reported since then, by id."""

    async def usage(self, deployment_id: DeploymentId, *, since_minute: int) -> Sequence[UsageCount]:
        """The usage of a deployment since a minute, by minute, key and revision."""

    async def expire(self, *, before_ms: int) -> int:
        """Forget proxies that last reported before a time; how many."""
