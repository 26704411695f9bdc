"""Repository of administered objects: owners, limits, queues, topology, images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from sokovan.domain.cluster.agent_grant import AgentGrant, JoinToken
from sokovan.domain.cluster.booking import Booking
from sokovan.domain.cluster.image import Image
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.cluster.topology_rules import Topology
from sokovan.domain.owners.login import Login, LoginCode
from sokovan.domain.owners.policy import ResourcePolicy
from sokovan.domain.owners.tenancy import Domain, Group, Keypair, User

__all__ = ["Booking", "CatalogItem", "CatalogRepository", "Item"]

CatalogItem = (
    Domain
    | Group
    | User
    | Keypair
    | ResourcePolicy
    | ScalingGroup
    | Queue
    | Topology
    | Image
    | Booking
    | JoinToken
    | AgentGrant
    | Login
    | LoginCode
)
Item = TypeVar(
    "Item",
    Domain,
    Group,
    User,
    Keypair,
    ResourcePolicy,
    ScalingGroup,
    Queue,
    Topology,
    Image,
    Booking,
    JoinToken,
    AgentGrant,
    Login,
    LoginCode,
)


class CatalogRepository(Protocol):
    """Small tables that are written rarely and read as a whole."""

    async def put(self, *items: CatalogItem) -> None:
        """Store these, replacing those of the same name.

        The tree of queues is validated, and the topology as a tree over the agents. Raises ObjectNotFound
        for a missing referenced item, InvalidQueues, InvalidTopology.
        """

    async def get(self, kind: type[Item], name: str) -> Item:
        """One item; the key of an image is `name architecture`. Raises ObjectNotFound."""

    async def find(self, *wanted: tuple[type[CatalogItem], str]) -> Sequence[CatalogItem | None]:
        """Items of any kinds by name, in order, in one query; None for a missing one."""

    async def all(self, kind: type[Item]) -> Sequence[Item]:
        """Every item of a kind, by name."""

    async def count(self, kind: type[Item]) -> int:
        """The number of items of a kind."""

    async def remove(self, kind: type[Item], name: str) -> None:
        """Remove an item. Raises ObjectNotFound, Conflict if it is still referenced.

        Of two concurrent removals of one item, one raises ObjectNotFound.
        """

    async def lock(self, kind: type[CatalogItem]) -> None:
        """Let this transaction alone change the items of a kind, until it ends.

        Allocations whose decision depends on them are seen from here on, or come after this
        transaction and see what it has changed.
        """

    async def set_labels(self, agent_id: str, labels: Mapping[str, str], *, version: int) -> None:
        """Replace the labels that operators gave an agent; enrolments keep them.

        They have precedence over those that the agent reports. Raises StaleVersion if the
        agent, known by its version, has changed since or does not exist.
        """
