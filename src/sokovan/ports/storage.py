"""The store: atomic units of work, applied exactly once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

from sokovan.domain.events import Event
from sokovan.ports.repositories.agents import AgentRepository
from sokovan.ports.repositories.arrays import ArrayRepository
from sokovan.ports.repositories.audit import AuditTrail
from sokovan.ports.repositories.catalog import CatalogRepository
from sokovan.ports.repositories.credentials import CredentialRepository
from sokovan.ports.repositories.ledger import Ledger
from sokovan.ports.repositories.routes import EndpointTokenRepository, ProxyRepository, RouteRepository
from sokovan.ports.repositories.serving import DeploymentRepository, ReplicaRepository, RolloutRepository
from sokovan.ports.repositories.sessions import SessionRepository
from sokovan.ports.repositories.verdicts import VerdictRepository

T = TypeVar("T")
R = TypeVar("R")

# A request can be repeated with its idempotency key for a week; then the key expires.
REQUESTS_KEPT_S = 7 * 24 * 3600
# How long past usage outlives its owner: one who is created again soon is not new.
USAGE_KEPT_S = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class StoreRetention:
    """How long ended sessions, deployments and audit entries are kept; 0 is for ever.

    Of a user with more than `sessions_per_user_max` sessions, the oldest ended ones are
    removed sooner.
    """

    sessions_s: int = 90 * 24 * 3600
    sessions_per_user_max: int = 100_000
    audit_s: int = 365 * 24 * 3600
    deployments_s: int = 90 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Fence:
    """The right to write as a leader: a lease and its epoch."""

    lease: str
    epoch: int


class UnitOfWork(Protocol):
    """One transaction; its writes are visible after commit."""

    @property
    def now_ms(self) -> int:
        """The store's time at the beginning of this unit of work."""

    @property
    def sessions(self) -> SessionRepository:
        """Sessions and their kernels."""

    @property
    def arrays(self) -> ArrayRepository:
        """Job arrays."""

    @property
    def fleet(self) -> AgentRepository:
        """Agents."""

    @property
    def ledger(self) -> Ledger:
        """The slots that kernels hold."""

    @property
    def catalog(self) -> CatalogRepository:
        """Owners, policies, scaling groups, queues, topology, images."""

    @property
    def deployments(self) -> DeploymentRepository:
        """Deployments of models."""

    @property
    def routes(self) -> RouteRepository:
        """Routes and the table of proxies."""

    @property
    def replicas(self) -> ReplicaRepository:
        """Replicas of deployments."""

    @property
    def rollouts(self) -> RolloutRepository:
        """Rollouts of deployments."""

    @property
    def endpoint_tokens(self) -> EndpointTokenRepository:
        """Tokens for the gateway."""

    @property
    def proxies(self) -> ProxyRepository:
        """Reports of proxies, and usage."""

    @property
    def audit(self) -> AuditTrail:
        """The audit log, tamper-evident by a hash chain."""

    @property
    def verdicts(self) -> VerdictRepository:
        """The last scheduling verdict of each waiting session."""

    @property
    def credentials(self) -> CredentialRepository:
        """Digests of tokens."""

    async def emit(self, events: Sequence[Event]) -> None:
        """Publish these events if, and only if, this unit of work commits."""


BatchedWork: TypeAlias = Callable[[UnitOfWork, Sequence[T]], Awaitable[Sequence[R | Exception]]]


class Outbox(Protocol):
    """Committed events that are not published yet."""

    async def publish_pending(self, publish: Callable[[Sequence[Event]], Awaitable[None]], *, limit: int) -> int:
        """Pass up to `limit` batches to `publish`, oldest first; how many were published.

        Each call of `publish` has events of one batch or of several. Published batches are
        removed. If `publish` raises, what it did not publish stays, and some of what it
        published may: events are published at least once. `publish` must not use the store, which may wait for it.
        Raises StoreUnavailable.
        """


class Store(Protocol):
    """The transactional store of the system."""

    async def run(self, work: Callable[[UnitOfWork], Awaitable[R]], *, fence: Fence | None = None) -> R:
        """Run `work` in one transaction and return its result.

        `work` may be retried from the beginning after a deadlock, a lost connection or a
        busy database, so it keeps no state outside itself. It takes effect exactly once,
        even if the outcome of a commit is not known at first. Raises FencedOut,
        StoreUnavailable (nothing was done), OutcomeUnknown (the database was lost during
        the commit and did not come back in time), and the errors of `work` (after a
        rollback). `work` uses only this unit of work: on SQLite another one would wait
        for it.
        """

    async def run_batched(self, work: BatchedWork[T, R], item: T) -> R:
        """Run `work` for an item, batched with concurrent calls into one transaction.

        `work` is a long-lived function or method: calls with the same one share a batch.
        It gets the items of all waiting callers and returns a result for each; an
        exception in place of a result is raised for that item only. If `work` itself
        raises, it is run for each item separately. There is no batching delay: a single
        caller runs at once. Whether the item of a cancelled caller is stored is
        undefined. Raises like `run`.
        """

    async def read(self, work: Callable[[UnitOfWork], Awaitable[R]]) -> R:
        """Run `work`, which only reads, on one consistent state. Raises StoreUnavailable."""

    async def prune(self, *, older_than_s: float) -> int:
        """Delete expired data; how many rows.

        Commit markers older than `older_than_s`, idempotency keys older than
        `REQUESTS_KEPT_S`, verdicts of sessions that no longer wait, and past usage that
        did not change for `USAGE_KEPT_S` and whose owner was removed.
        """

    async def expire(self, keep: StoreRetention) -> bool:
        """Delete a bounded number of records beyond their retention.

        A session stays while it has not ended, a living session depends on it or on its
        array, a session of its array lives, or the key of its request may be repeated. A
        deployment goes with its revisions, replicas, rollouts, route and tokens. Past usage
        stays. The audit trail records what was removed from it. Returns whether there may be
        more to delete.
        """

    @property
    def outbox(self) -> Outbox:
        """Committed events that are not published yet."""

    async def close(self) -> None:
        """Close connections."""
