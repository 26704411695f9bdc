# Generated from sdk/aio/catalogs.py by `make docs`; do not edit.
"""Lazily loaded access to everything besides sessions, for the sync client."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from sokovan.sdk.sync.connection import Connection

if TYPE_CHECKING:
    from sokovan.sdk.sync.catalog import (
        Agents,
        Catalog,
        HyperNodes,
        ImageCatalog,
        Keys,
        Usage,
    )
    from sokovan.sdk.sync.deployments import Deployments
    from sokovan.wire.api.fleet import QueueBody, ScalingGroupBody
    from sokovan.wire.api.tenancy import DomainBody, GroupBody, PolicyBody, UserBody


class Catalogs:
    """Agents, deployments, images, keys and the other named objects."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @cached_property
    def agents(self) -> Agents:
        """Agents: the machines that run kernels."""
        from sokovan.sdk.sync.catalog import Agents  # noqa: PLC0415  # loads lazily

        return Agents(self._connection)

    @cached_property
    def images(self) -> ImageCatalog:
        """Images that kernels start from."""
        from sokovan.sdk.sync.catalog import ImageCatalog  # noqa: PLC0415  # loads lazily

        return ImageCatalog(self._connection)

    @cached_property
    def keys(self) -> Keys:
        """API keys."""
        from sokovan.sdk.sync.catalog import Keys  # noqa: PLC0415  # loads lazily

        return Keys(self._connection)

    @cached_property
    def deployments(self) -> Deployments:
        """Deployments: models that are served."""
        from sokovan.sdk.sync.deployments import Deployments  # noqa: PLC0415  # loads lazily

        return Deployments(self._connection)

    @cached_property
    def usage(self) -> Usage:
        """Past usage of users, groups and queues."""
        from sokovan.sdk.sync.catalog import Usage  # noqa: PLC0415  # loads lazily

        return Usage(self._connection)

    @cached_property
    def topology(self) -> HyperNodes:
        """The topology: HyperNodes over the agents."""
        from sokovan.sdk.sync.catalog import HyperNodes  # noqa: PLC0415  # loads lazily

        return HyperNodes(self._connection)

    @cached_property
    def scaling_groups(self) -> Catalog[ScalingGroupBody]:
        """Scaling groups: pools of agents that are scheduled together."""
        from sokovan.sdk.sync.catalog import SCALING_GROUPS, Catalog  # noqa: PLC0415  # loads lazily

        return Catalog(self._connection, SCALING_GROUPS)

    @cached_property
    def queues(self) -> Catalog[QueueBody]:
        """Queues of sessions."""
        from sokovan.sdk.sync.catalog import QUEUES, Catalog  # noqa: PLC0415  # loads lazily

        return Catalog(self._connection, QUEUES)

    @cached_property
    def domains(self) -> Catalog[DomainBody]:
        """Domains: the top-level tenants."""
        from sokovan.sdk.sync.catalog import DOMAINS, Catalog  # noqa: PLC0415  # loads lazily

        return Catalog(self._connection, DOMAINS)

    @cached_property
    def groups(self) -> Catalog[GroupBody]:
        """Groups (projects) within a domain."""
        from sokovan.sdk.sync.catalog import GROUPS, Catalog  # noqa: PLC0415  # loads lazily

        return Catalog(self._connection, GROUPS)

    @cached_property
    def users(self) -> Catalog[UserBody]:
        """Users: people and service accounts."""
        from sokovan.sdk.sync.catalog import USERS, Catalog  # noqa: PLC0415  # loads lazily

        return Catalog(self._connection, USERS)

    @cached_property
    def policies(self) -> Catalog[PolicyBody]:
        """Resource policies: limits on owners."""
        from sokovan.sdk.sync.catalog import POLICIES, Catalog  # noqa: PLC0415  # loads lazily

        return Catalog(self._connection, POLICIES)
