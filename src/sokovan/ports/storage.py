"""The store: units of work that happen whole, once, or not at all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

from sokovan.domain.events import Event
from sokovan.ports.repositories.agents import AgentRepository
from sokovan.ports.repositories.audit import AuditTrail
from sokovan.ports.repositories.catalog import CatalogRepository
from sokovan.ports.repositories.credentials import CredentialRepository
from sokovan.ports.repositories.ledger import Ledger
from sokovan.ports.repositories.serving import DeploymentRepository, RouteRepository
from sokovan.ports.repositories.sessions import SessionRepository
from sokovan.ports.repositories.verdicts import VerdictRepository

T = TypeVar("T")
R = TypeVar("R")

# A request may be repeated with its key for a week; after that the key is free again.
REQUESTS_KEPT_S = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Fence:
    """The right to write as the leader of something: a lease and its epoch."""

    lease: str
    epoch: int


class UnitOfWork(Protocol):
    """One transaction; nobody sees what it writes until its end."""

    @property
    def now_ms(self) -> int:
        """The store's time at the beginning of this unit of work."""

    @property
    def sessions(self) -> SessionRepository:
        """Sessions and their kernels."""

    @property
    def fleet(self) -> AgentRepository:
        """Agents."""

    @property
    def ledger(self) -> Ledger:
        """Who holds what."""

    @property
    def catalog(self) -> CatalogRepository:
        """Owners, policies, scaling groups, queues, HyperNodes, images."""

    @property
    def deployments(self) -> DeploymentRepository:
        """Deployments of models."""

    @property
    def routes(self) -> RouteRepository:
        """Routes and their endpoints."""

    @property
    def audit(self) -> AuditTrail:
        """Who did what, in a chain that shows tampering."""

    @property
    def verdicts(self) -> VerdictRepository:
        """Why sessions wait."""

    @property
    def credentials(self) -> CredentialRepository:
        """Digests of tokens."""

    async def emit(self, events: Sequence[Event]) -> None:
        """Have these events published if, and only if, this unit of work commits."""


BatchedWork: TypeAlias = Callable[[UnitOfWork, Sequence[T]], Awaitable[Sequence[R | Exception]]]


class Outbox(Protocol):
    """Events that were committed and wait for the bus."""

    async def publish_pending(self, publish: Callable[[Sequence[Event]], Awaitable[None]], *, limit: int) -> int:
        """Give up to `limit` batches to `publish`, oldest first; how many went out.

        What `publish` took is removed. If it raises, everything stays: events go out at
        least once. `publish` must not use the store, which may wait for it. Raises
        StoreUnavailable.
        """


class Store(Protocol):
    """Where facts are kept."""

    async def run(self, work: Callable[[UnitOfWork], Awaitable[R]], *, fence: Fence | None = None) -> R:
        """Do `work` in one transaction and return what it returned.

        `work` may be called again from the beginning after a deadlock, a lost
        connection or a busy database, so it keeps no state outside itself. Its effect
        happens exactly once, even where the outcome of a commit is not known at first.
        Raises FencedOut, StoreUnavailable (nothing was done), OutcomeUnknown (the database
        went away during the commit for longer than we wait), and whatever `work` raises
        (after a rollback). `work` uses this unit of work only: on SQLite another one would
        wait for it.
        """

    async def run_batched(self, work: BatchedWork[T, R], item: T) -> R:
        """Do `work` for an item, together with what others give to it meanwhile.

        All of it is one transaction.

        `work` is a function or method that is there for good: who gives the same one shares.
        It gets the items of all who wait and gives a result for each; an exception in the
        place of a result is raised for that item alone. If `work` itself raises, it
        is done for each item apart. Nobody waits for a timer: who is alone goes at once.
        Whether the item of a caller that was cancelled is stored is open. Raises like `run`.
        """

    async def read(self, work: Callable[[UnitOfWork], Awaitable[R]]) -> R:
        """Do `work`, which only reads, on one consistent state. Raises StoreUnavailable."""

    async def prune(self, *, older_than_s: float) -> int:
        """Forget what nobody can ask for any more; how many things.

        Marks of commits older than `older_than_s`, idempotency keys older than
        `REQUESTS_KEPT_S`, and verdicts on sessions that wait no longer.
        """

    @property
    def outbox(self) -> Outbox:
        """Events on their way to the bus."""

    async def close(self) -> None:
        """Let go of connections."""
