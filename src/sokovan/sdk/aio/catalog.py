"""Agents, images, keys and the other named objects, for the async client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Generic, TypeVar, Unpack

from sokovan.sdk.aio.connection import AsyncConnection
from sokovan.sdk.core import catalog_calls, system_calls
from sokovan.sdk.core.catalog_calls import (
    BOOKINGS,
    DOMAINS,
    GROUPS,
    POLICIES,
    QUEUES,
    SCALING_GROUPS,
    USERS,
    CatalogKind,
    TimelineOptions,
    UsageHistoryOptions,
)
from sokovan.sdk.core.paging import Paging
from sokovan.sdk.core.streams.fleet import FleetFollower, FleetUpdate
from sokovan.wire.api.explanations import BookingEvictionsView
from sokovan.wire.api.fleet import (
    AgentImpactView,
    AgentView,
    BookingBody,
    FleetView,
    ImageBody,
    QueueSharesView,
    TimelineView,
    WhatIfBody,
    WhatIfView,
)
from sokovan.wire.api.sessions import HistoryLine
from sokovan.wire.api.system import AuditChainView, AuditEntryView
from sokovan.wire.api.tenancy import (
    JoinTokenBody,
    JoinTokenLine,
    JoinTokenView,
    KeyView,
    LoginCodeView,
    LoginView,
    NewKeyView,
    OwnerLimitsView,
    UsageHistoryView,
    UsageView,
)
from sokovan.wire.api.topology import LabelsView, TopologyBody, TopologyChangeView, TopologyView

__all__ = ["BOOKINGS", "DOMAINS", "GROUPS", "POLICIES", "QUEUES", "SCALING_GROUPS", "USERS"]

B = TypeVar("B")


class AsyncCatalog(Generic[B]):
    """Named objects of one kind, each read and written as a whole."""

    def __init__(self, connection: AsyncConnection, kind: CatalogKind[B]) -> None:
        self._connection, self._kind = connection, kind

    def list(self) -> AsyncIterator[B]:
        """List all that the caller may see; pages are fetched as they are consumed."""
        return self._connection.pages(Paging(self._kind.listing))

    async def get(self, name: str) -> B:
        """Get one by name."""
        return await self._connection.send(self._kind.get(name))

    async def put(self, body: B) -> B:
        """Create one, or replace it as a whole."""
        return await self._connection.send(self._kind.put(body))

    async def delete(self, name: str) -> None:
        """Delete one."""
        await self._connection.send(self._kind.delete(name))


class AsyncBookings(AsyncCatalog[BookingBody]):
    """Bookings of agents, and maintenance windows."""

    def __init__(self, connection: AsyncConnection) -> None:
        super().__init__(connection, BOOKINGS)

    async def create(self, body: BookingBody) -> BookingBody:
        """Create one. Raises Refused, code `already-exists`, if its name is in use."""
        return await self._connection.send(self._kind.create(body))

    async def preview(self, body: BookingBody) -> BookingEvictionsView:
        """Whom a booking would evict; nothing is stored. Raises Refused, as `put` does."""
        return await self._connection.send(catalog_calls.preview_booking(body))

    async def evictions(self, name: str) -> BookingEvictionsView:
        """The sessions that leave for a booking, and those that did."""
        return await self._connection.send(catalog_calls.booking_evictions(name))


class AsyncImageCatalog:
    """Images, each for one architecture."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection, self._kind = connection, catalog_calls.IMAGES

    def list(self) -> AsyncIterator[ImageBody]:
        """List all."""
        return self._connection.pages(Paging(self._kind.listing))

    async def get(self, name: str, *, architecture: str | None = None) -> ImageBody:
        """Get one by name; the architecture is needed if there are several."""
        return await self._connection.send(self._kind.get(name, architecture=architecture))

    async def put(self, body: ImageBody) -> ImageBody:
        """Create one, or replace it as a whole."""
        return await self._connection.send(self._kind.put(body))

    async def delete(self, name: str, *, architecture: str | None = None) -> None:
        """Delete one."""
        await self._connection.send(self._kind.delete(name, architecture=architecture))


class AsyncUsage:
    """Past usage of users, groups and queues."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    def list(self, *, scaling_group: str | None = None) -> AsyncIterator[UsageView]:
        """List all that the caller may see, of one scaling group or of all."""
        return self._connection.pages(Paging(partial(catalog_calls.usage, scaling_group=scaling_group)))

    def limits(self, *, kind: str | None = None) -> AsyncIterator[OwnerLimitsView]:
        """List what owners with a quota hold now, and the most they may hold.

        `kind` is `domain`, `group`, `user` or `keypair`.
        """
        return self._connection.pages(Paging(partial(catalog_calls.limits, kind=kind)))

    async def history(self, by: str = "all", **options: Unpack[UsageHistoryOptions]) -> UsageHistoryView:
        """The slots that sessions held over time, by default in the last 24 hours.

        `by` divides them by `queue`, `user`, `group` or `scaling_group`. Values are means of equal
        steps, in the smallest unit of each slot.
        """
        return await self._connection.send(catalog_calls.usage_history(by, options))

    async def shares(self, *, queue: str | None = None, scaling_group: str | None = None) -> QueueSharesView:
        """The shares of queues in a scaling group now; without one, in the default.

        They say what each queue has in use, deserves and borrows of each slot.
        """
        return await self._connection.send(catalog_calls.queue_shares(scaling_group=scaling_group, queue=queue))


class AsyncJoining:
    """Machines that join: tokens, approvals, and the revocation of certificates."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def new_token(
        self,
        *,
        scaling_group: str = "default",
        slots: Mapping[str, int | str] | None = None,
        labels: Mapping[str, str] | None = None,
        expires_s: int = 900,
    ) -> JoinTokenView:
        """Create a token that lets one machine join, with slots and labels."""
        given = dict(labels or {})
        body = JoinTokenBody(scaling_group=scaling_group, slots=dict(slots or {}), labels=given, expires_s=expires_s)
        return await self._connection.send(catalog_calls.new_join_token(body))

    def tokens(self) -> AsyncIterator[JoinTokenLine]:
        """List join tokens that have not expired, without their secrets."""
        return self._connection.pages(Paging(catalog_calls.join_tokens))

    async def revoke_token(self, name: str) -> None:
        """Revoke a join token that no machine has used."""
        await self._connection.send(catalog_calls.revoke_join_token(name))

    async def approve(self, name: str, claims: Sequence[str]) -> AgentView:
        """Approve the claims of an agent: its `unapproved`, as it was seen."""
        return await self._connection.send(catalog_calls.approve_agent(name, claims))

    async def remove(self, name: str) -> AgentView:
        """Revoke the certificate of an agent that has joined, and close its link."""
        return await self._connection.send(catalog_calls.revoke_agent(name))


class AsyncAgents(AsyncJoining):
    """Agents: the machines that run kernels."""

    @cached_property
    def bookings(self) -> AsyncBookings:
        """Bookings of agents, and maintenance windows."""
        return AsyncBookings(self._connection)

    def list(self) -> AsyncIterator[AgentView]:
        """List all."""
        return self._connection.pages(Paging(catalog_calls.agents))

    async def get(self, name: str) -> AgentView:
        """Get one by name."""
        return await self._connection.send(catalog_calls.agent(name))

    async def drain(self, name: str, *, reason: str = "") -> AgentView:
        """Stop scheduling onto an agent; running kernels continue."""
        return await self._connection.send(catalog_calls.change_agent(name, "drain", reason))

    async def undrain(self, name: str, *, reason: str = "") -> AgentView:
        """Schedule onto a drained agent again."""
        return await self._connection.send(catalog_calls.change_agent(name, "undrain", reason))

    async def declare_gone(self, name: str, *, reason: str = "") -> AgentView:
        """Declare an agent permanently lost, which releases its resources."""
        return await self._connection.send(catalog_calls.change_agent(name, "declare-gone", reason))

    async def label(
        self, name: str, labels: Mapping[str, str] | None = None, *, remove: Sequence[str] = ()
    ) -> LabelsView:
        """Set and remove labels of an agent, which enrolments keep."""
        return await self._connection.send(catalog_calls.label_agent(name, labels or {}, remove))

    async def taint(self, name: str, *taints: str, remove: Sequence[str] = ()) -> AgentView:
        """Set taints (KEY or KEY=VALUE) and remove taints (KEY) of an agent."""
        return await self._connection.send(catalog_calls.taint_agent(name, taints, remove))

    async def what_if(self, body: WhatIfBody) -> WhatIfView:
        """Compare the next scheduling cycle with one after changes, which are not made."""
        return await self._connection.send(catalog_calls.what_if(body))

    async def history(self, name: str) -> Sequence[HistoryLine]:
        """State history of an agent."""
        return await self._connection.send(catalog_calls.agent_history(name))


class AsyncHyperNodes:
    """The topology: HyperNodes over the agents."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def fleet(self) -> FleetView:
        """Get all agents and devices, and the sessions that hold them, as columns."""
        return await self._connection.send(catalog_calls.fleet())

    def follow_fleet(self) -> AsyncIterator[FleetUpdate]:
        """Yield the fleet, and again whenever it has changed, at most once a second.

        Until the caller stops iterating.
        """
        return self._connection.follow(FleetFollower())

    async def timeline(
        self, *, limit: int | None = None, cursor: str | None = None, **options: Unpack[TimelineOptions]
    ) -> TimelineView:
        """The holders of devices over time, by default in the last hour.

        With drains, bookings and kept room. `next` of the answer is the `cursor` of further agents.
        """
        return await self._connection.send(catalog_calls.timeline(options, limit=limit, cursor=cursor))

    async def impact(self, name: str, action: str = "drain") -> AgentImpactView:
        """The impact of `drain`, `undrain` or `declare-gone`; nothing is changed."""
        return await self._connection.send(catalog_calls.agent_impact(name, action))

    async def get(self) -> TopologyView:
        """Get the topology, and its tree with capacities."""
        return await self._connection.send(catalog_calls.topology())

    async def apply(self, body: TopologyBody, *, dry_run: bool = False) -> TopologyChangeView:
        """Replace the topology as a whole, or only check the new one."""
        return await self._connection.send(catalog_calls.put_topology(body, dry_run=dry_run))

    async def delete(self, *, dry_run: bool = False) -> TopologyChangeView:
        """Remove the topology, or only check what that does."""
        return await self._connection.send(catalog_calls.delete_topology(dry_run=dry_run))


class AsyncLogins:
    """Browsers that are logged in to the dashboard."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def create_code(self) -> LoginCodeView:
        """Create a code that logs a browser in once, within a minute."""
        return await self._connection.send(catalog_calls.new_login_code())

    def list(self) -> AsyncIterator[LoginView]:
        """List the logins that the caller may see."""
        return self._connection.pages(Paging(catalog_calls.logins))

    async def delete(self, name: str) -> None:
        """End a login."""
        await self._connection.send(catalog_calls.delete_login(name))


class AsyncKeys:
    """API keys."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    @cached_property
    def logins(self) -> AsyncLogins:
        """Browsers that are logged in with keys."""
        return AsyncLogins(self._connection)

    async def create(self, user: str, *, policy: str | None = None) -> NewKeyView:
        """Create a key; its token is only ever in this response."""
        return await self._connection.send(catalog_calls.new_key(user, policy))

    def list(self) -> AsyncIterator[KeyView]:
        """List the keys that the caller may see, without their secrets."""
        return self._connection.pages(Paging(catalog_calls.keys))

    async def set(self, access_key: str, *, policy: str | None) -> KeyView:
        """Change the policy of a key; None for no limits of its own."""
        return await self._connection.send(catalog_calls.set_key(access_key, policy))

    def audit_log(
        self, *, limit: int | None = None, **filters: Unpack[system_calls.AuditOptions]
    ) -> AsyncIterator[AuditEntryView]:
        """List who did what to which object, newest first; administrators only."""
        return self._connection.pages(Paging(partial(system_calls.audit_log, filters), limit=limit))

    async def audit_chain(self) -> AuditChainView:
        """Check that no entry of the audit log was changed; for administrators."""
        return await self._connection.send(system_calls.audit_chain())

    async def delete(self, access_key: str) -> None:
        """Revoke a key."""
        await self._connection.send(catalog_calls.delete_key(access_key))
