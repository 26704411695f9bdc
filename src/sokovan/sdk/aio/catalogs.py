"""Lazily loaded access to everything besides sessions, for the async client."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from sokovan.sdk.aio.connection import AsyncConnection

if TYPE_CHECKING:
    from sokovan.sdk.aio.catalog import (
        AsyncAgents,
        AsyncCatalog,
        AsyncHyperNodes,
        AsyncImageCatalog,
        AsyncKeys,
        AsyncUsage,
    )
    from sokovan.sdk.aio.deployments import AsyncDeployments
    from sokovan.wire.api.fleet import QueueBody, ScalingGroupBody
    from sokovan.wire.api.tenancy import DomainBody, GroupBody, PolicyBody, UserBody


class AsyncCatalogs:
    """Agents, deployments, images, keys and the other named objects."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    @cached_property
    def agents(self) -> AsyncAgents:
        """Agents: the machines that run kernels."""
        from sokovan.sdk.aio.catalog import AsyncAgents  # noqa: PLC0415  # loads lazily

        return AsyncAgents(self._connection)

    @cached_property
    def images(self) -> AsyncImageCatalog:
        """Images that kernels start from."""
        from sokovan.sdk.aio.catalog import AsyncImageCatalog  # noqa: PLC0415  # loads lazily

        return AsyncImageCatalog(self._connection)

    @cached_property
    def keys(self) -> AsyncKeys:
        """API keys."""
        from sokovan.sdk.aio.catalog import AsyncKeys  # noqa: PLC0415  # loads lazily

        return AsyncKeys(self._connection)

    @cached_property
    def deployments(self) -> AsyncDeployments:
        """Deployments: models that are served."""
        from sokovan.sdk.aio.deployments import AsyncDeployments  # noqa: PLC0415  # loads lazily

        return AsyncDeployments(self._connection)

    @cached_property
    def usage(self) -> AsyncUsage:
        """Past usage of users, groups and queues."""
        from sokovan.sdk.aio.catalog import AsyncUsage  # noqa: PLC0415  # loads lazily

        return AsyncUsage(self._connection)

    @cached_property
    def topology(self) -> AsyncHyperNodes:
        """The topology: HyperNodes over the agents."""
        from sokovan.sdk.aio.catalog import AsyncHyperNodes  # noqa: PLC0415  # loads lazily

        return AsyncHyperNodes(self._connection)

    @cached_property
    def scaling_groups(self) -> AsyncCatalog[ScalingGroupBody]:
        """Scaling groups: pools of agents that are scheduled together."""
        from sokovan.sdk.aio.catalog import SCALING_GROUPS, AsyncCatalog  # noqa: PLC0415  # loads lazily

        return AsyncCatalog(self._connection, SCALING_GROUPS)

    @cached_property
    def queues(self) -> AsyncCatalog[QueueBody]:
        """Queues of sessions."""
        from sokovan.sdk.aio.catalog import QUEUES, AsyncCatalog  # noqa: PLC0415  # loads lazily

        return AsyncCatalog(self._connection, QUEUES)

    @cached_property
    def domains(self) -> AsyncCatalog[DomainBody]:
        """Domains: the top-level tenants."""
        from sokovan.sdk.aio.catalog import DOMAINS, AsyncCatalog  # noqa: PLC0415  # loads lazily

        return AsyncCatalog(self._connection, DOMAINS)

    @cached_property
    def groups(self) -> AsyncCatalog[GroupBody]:
        """Groups (projects) within a domain."""
        from sokovan.sdk.aio.catalog import GROUPS, AsyncCatalog  # noqa: PLC0415  # loads lazily

        return AsyncCatalog(self._connection, GROUPS)

    @cached_property
    def users(self) -> AsyncCatalog[UserBody]:
        """Users: people and service accounts."""
        from sokovan.sdk.aio.catalog import USERS, AsyncCatalog  # noqa: PLC0415  # loads lazily

        return AsyncCatalog(self._connection, USERS)

    @cached_property
    def policies(self) -> AsyncCatalog[PolicyBody]:
        """Resource policies: limits on owners."""
        from sokovan.sdk.aio.catalog import POLICIES, AsyncCatalog  # noqa: PLC0415  # loads lazily

        return AsyncCatalog(self._connection, POLICIES)
