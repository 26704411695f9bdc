"""Everything besides sessions, for the async client; it loads when asked for."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from sokovan.sdk.aio.connection import AsyncConnection

if TYPE_CHECKING:
    from sokovan.sdk.aio.catalog import AsyncAgents, AsyncCatalog, AsyncImageCatalog, AsyncKeys
    from sokovan.wire.api.fleet import QueueBody, ScalingGroupBody
    from sokovan.wire.api.tenancy import DomainBody, GroupBody, PolicyBody, UserBody


class AsyncCatalogs:
    """Machines, owners and limits by their names."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    @cached_property
    def agents(self) -> AsyncAgents:
        """Machines."""
        from sokovan.sdk.aio.catalog import AsyncAgents  # noqa: PLC0415  # see the module

        return AsyncAgents(self._connection)

    @cached_property
    def images(self) -> AsyncImageCatalog:
        """What kernels start from."""
        from sokovan.sdk.aio.catalog import AsyncImageCatalog  # noqa: PLC0415  # see the module

        return AsyncImageCatalog(self._connection)

    @cached_property
    def keys(self) -> AsyncKeys:
        """By which callers show who they are."""
        from sokovan.sdk.aio.catalog import AsyncKeys  # noqa: PLC0415  # see the module

        return AsyncKeys(self._connection)

    @cached_property
    def scaling_groups(self) -> AsyncCatalog[ScalingGroupBody]:
        """Pools of machines that are scheduled together."""
        from sokovan.sdk.aio.catalog import SCALING_GROUPS, AsyncCatalog  # noqa: PLC0415  # see the module

        return AsyncCatalog(self._connection, SCALING_GROUPS)

    @cached_property
    def queues(self) -> AsyncCatalog[QueueBody]:
        """Queues."""
        from sokovan.sdk.aio.catalog import QUEUES, AsyncCatalog  # noqa: PLC0415  # see the module

        return AsyncCatalog(self._connection, QUEUES)

    @cached_property
    def domains(self) -> AsyncCatalog[DomainBody]:
        """The widest tenants."""
        from sokovan.sdk.aio.catalog import DOMAINS, AsyncCatalog  # noqa: PLC0415  # see the module

        return AsyncCatalog(self._connection, DOMAINS)

    @cached_property
    def groups(self) -> AsyncCatalog[GroupBody]:
        """Projects."""
        from sokovan.sdk.aio.catalog import GROUPS, AsyncCatalog  # noqa: PLC0415  # see the module

        return AsyncCatalog(self._connection, GROUPS)

    @cached_property
    def users(self) -> AsyncCatalog[UserBody]:
        """People and service accounts."""
        from sokovan.sdk.aio.catalog import USERS, AsyncCatalog  # noqa: PLC0415  # see the module

        return AsyncCatalog(self._connection, USERS)

    @cached_property
    def policies(self) -> AsyncCatalog[PolicyBody]:
        """Limits."""
        from sokovan.sdk.aio.catalog import POLICIES, AsyncCatalog  # noqa: PLC0415  # see the module

        return AsyncCatalog(self._connection, POLICIES)
