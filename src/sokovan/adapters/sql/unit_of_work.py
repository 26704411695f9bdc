"""Unit of work: one transaction with its repositories."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from sokovan.adapters.sql.repositories.agents import SqlAgents
from sokovan.adapters.sql.repositories.audit_log import SqlAuditTrail
from sokovan.adapters.sql.repositories.catalog import SqlCatalog
from sokovan.adapters.sql.repositories.credentials import SqlCredentials
from sokovan.adapters.sql.repositories.ledger import SqlLedger
from sokovan.adapters.sql.repositories.serving.deployments import SqlDeployments
from sokovan.adapters.sql.repositories.serving.proxies import SqlProxies
from sokovan.adapters.sql.repositories.serving.replicas import SqlReplicas
from sokovan.adapters.sql.repositories.serving.rollouts import SqlRollouts
from sokovan.adapters.sql.repositories.serving.routes import SqlEndpointTokens, SqlRoutes
from sokovan.adapters.sql.repositories.sessions.arrays import SqlArrays
from sokovan.adapters.sql.repositories.sessions.repository import SqlSessions
from sokovan.adapters.sql.repositories.verdicts import SqlVerdicts
from sokovan.adapters.sql.transaction import Transaction
from sokovan.domain.events import Event


class SqlUnitOfWork:
    """The repositories of one transaction, created on first use."""

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction

    @property
    def now_ms(self) -> int:
        """See the port."""
        return self.transaction.now_ms

    @cached_property
    def sessions(self) -> SqlSessions:
        """See the port."""
        return SqlSessions(self.transaction)

    @cached_property
    def arrays(self) -> SqlArrays:
        """See the port."""
        return SqlArrays(self.transaction)

    @cached_property
    def fleet(self) -> SqlAgents:
        """See the port."""
        return SqlAgents(self.transaction)

    @cached_property
    def ledger(self) -> SqlLedger:
        """See the port."""
        return SqlLedger(self.transaction)

    @cached_property
    def catalog(self) -> SqlCatalog:
        """See the port."""
        return SqlCatalog(self.transaction)

    @cached_property
    def deployments(self) -> SqlDeployments:
        """See the port."""
        return SqlDeployments(self.transaction)

    @cached_property
    def routes(self) -> SqlRoutes:
        """See the port."""
        return SqlRoutes(self.transaction)

    @cached_property
    def replicas(self) -> SqlReplicas:
        """See the port."""
        return SqlReplicas(self.transaction)

    @cached_property
    def rollouts(self) -> SqlRollouts:
        """See the port."""
        return SqlRollouts(self.transaction)

    @cached_property
    def endpoint_tokens(self) -> SqlEndpointTokens:
        """See the port."""
        return SqlEndpointTokens(self.transaction)

    @cached_property
    def proxies(self) -> SqlProxies:
        """See the port."""
        return SqlProxies(self.transaction)

    @cached_property
    def audit(self) -> SqlAuditTrail:
        """See the port."""
        return SqlAuditTrail(self.transaction)

    @cached_property
    def verdicts(self) -> SqlVerdicts:
        """See the port."""
        return SqlVerdicts(self.transaction)

    @cached_property
    def credentials(self) -> SqlCredentials:
        """See the port."""
        return SqlCredentials(self.transaction)

    async def emit(self, events: Sequence[Event]) -> None:
        """See the port."""
        self.transaction.events.extend(events)
