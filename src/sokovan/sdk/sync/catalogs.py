"""Everything besides sessions, for the sync client; it loads when it is asked for."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from sokovan.sdk.sync.connection import Connection

if TYPE_CHECKING:
    from sokovan.sdk.sync.catalog import Agents, Catalog, ImageCatalog, Keys
    from sokovan.wire.api.fleet import QueueBody, ScalingGroupBody
    from sokovan.wire.api.tenancy import DomainBody, GroupBody, PolicyBody, UserBody


class Catalogs:
    """Machines, owners and limits by their names."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @cached_property
    def agents(self) -> Agents:
        """Machines."""
        from sokovan.sdk.sync.catalog import Agents  # noqa: PLC0415  # see the module

        return Agents(self._connection)

    @cached_property
    def images(self) -> ImageCatalog:
        """What kernels start from."""
        from sokovan.sdk.sync.catalog import ImageCatalog  # noqa: PLC0415  # see the module

        return ImageCatalog(self._connection)

    @cached_property
    def keys(self) -> Keys:
        """By which callers show who they are."""
        from sokovan.sdk.sync.catalog import Keys  # noqa: PLC0415  # see the module

        return Keys(self._connection)

    @cached_property
    def scaling_groups(self) -> Catalog[ScalingGroupBody]:
        """Pools of machines that are scheduled together."""
        from sokovan.sdk.sync.catalog import SCALING_GROUPS, Catalog  # noqa: PLC0415  # see the module

        return Catalog(self._connection, SCALING_GROUPS)

    @cached_property
    def queues(self) -> Catalog[QueueBody]:
        """Queues."""
        from sokovan.sdk.sync.catalog import QUEUES, Catalog  # noqa: PLC0415  # see the module

        return Catalog(self._connection, QUEUES)

    @cached_property
    def domains(self) -> Catalog[DomainBody]:
        """The widest tenants."""
        from sokovan.sdk.sync.catalog import DOMAINS, Catalog  # noqa: PLC0415  # see the module

        return Catalog(self._connection, DOMAINS)

    @cached_property
    def groups(self) -> Catalog[GroupBody]:
        """Projects."""
        from sokovan.sdk.sync.catalog import GROUPS, Catalog  # noqa: PLC0415  # see the module

        return Catalog(self._connection, GROUPS)

    @cached_property
    def users(self) -> Catalog[UserBody]:
        """People and service accounts."""
        from sokovan.sdk.sync.catalog import USERS, Catalog  # noqa: PLC0415  # see the module

        return Catalog(self._connection, USERS)

    @cached_property
    def policies(self) -> Catalog[PolicyBody]:
        """Limits."""
        from sokovan.sdk.sync.catalog import POLICIES, Catalog  # noqa: PLC0415  # see the module

        return Catalog(self._connection, POLICIES)
