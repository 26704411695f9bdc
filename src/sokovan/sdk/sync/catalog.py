# Generated from sdk/aio/catalog.py by `make docs`; do not edit.
"""Agents, images, keys and the other named objects, for the sync client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Generic, TypeVar, Unpack

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
from sokovan.sdk.sync.connection import Connection
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


class Catalog(Generic[B]):
    """Named objects of one kind, each read and written as a whole."""

    def __init__(self, connection: Connection, kind: CatalogKind[B]) -> None:
        self._connection, self._kind = connection, kind

    def list(self) -> Iterator[B]:
        """List all that the caller may see; pages are fetched as they are consumed."""
        return self._connection.pages(Paging(self._kind.listing))

    def get(self, name: str) -> B:
        """Get one by name."""
        return self._connection.send(self._kind.get(name))

    def put(self, body: B) -> B:
        """Create one, or replace it as a whole."""
        return self._connection.send(self._kind.put(body))

    def delete(self, name: str) -> None:
        """Delete one."""
        self._connection.send(self._kind.delete(name))


class Bookings(Catalog[BookingBody]):
    """Bookings of agents, and maintenance windows."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, BOOKINGS)

    def create(self, body: BookingBody) -> BookingBody:
        """Create one. Raises Refused, code `already-exists`, if its name is in use."""
        return self._connection.send(self._kind.create(body))

    def preview(self, body: BookingBody) -> BookingEvictionsView:
        """Whom a booking would evict; nothing is stored. Raises Refused, as `put` does."""
        return self._connection.send(catalog_calls.preview_booking(body))

    def evictions(self, name: str) -> BookingEvictionsView:
        """The sessions that leave for a booking, and those that did."""
        return self._connection.send(catalog_calls.booking_evictions(name))


class ImageCatalog:
    """Images, each for one architecture."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._kind = connection, catalog_calls.IMAGES

    def list(self) -> Iterator[ImageBody]:
        """List all."""
        return self._connection.pages(Paging(self._kind.listing))

    def get(self, name: str, *, architecture: str | None = None) -> ImageBody:
        """Get one by name; the architecture is needed if there are several."""
        return self._connection.send(self._kind.get(name, architecture=architecture))

    def put(self, body: ImageBody) -> ImageBody:
        """Create one, or replace it as a whole."""
        return self._connection.send(self._kind.put(body))

    def delete(self, name: str, *, architecture: str | None = None) -> None:
        """Delete one."""
        self._connection.send(self._kind.delete(name, architecture=architecture))


class Usage:
    """Past usage of users, groups and queues."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self, *, scaling_group: str | None = None) -> Iterator[UsageView]:
        """List all that the caller may see, of one scaling group or of all."""
        return self._connection.pages(Paging(partial(catalog_calls.usage, scaling_group=scaling_group)))

    def limits(self, *, kind: str | None = None) -> Iterator[OwnerLimitsView]:
        """List what owners with a quota hold now, and the most they may hold.

        `kind` is `domain`, `group`, `user` or `keypair`.
        """
        return self._connection.pages(Paging(partial(catalog_calls.limits, kind=kind)))

    def history(self, by: str = "all", **options: Unpack[UsageHistoryOptions]) -> UsageHistoryView:
        """The slots that sessions held over time, by default in the last 24 hours.

        `by` divides them by `queue`, `user`, `group` or `scaling_group`. Values are means of equal
        steps, in the smallest unit of each slot.
        """
        return self._connection.send(catalog_calls.usage_history(by, options))

    def shares(self, *, queue: str | None = None, scaling_group: str | None = None) -> QueueSharesView:
        """The shares of queues in a scaling group now; without one, in the default.

        They say what each queue has in use, deserves and borrows of each slot.
        """
        return self._connection.send(catalog_calls.queue_shares(scaling_group=scaling_group, queue=queue))


class Joining:
    """Machines that join: tokens, approvals, and the revocation of certificates."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def new_token(
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
        return self._connection.send(catalog_calls.new_join_token(body))

    def tokens(self) -> Iterator[JoinTokenLine]:
        """List join tokens that have not expired, without their secrets."""
        return self._connection.pages(Paging(catalog_calls.join_tokens))

    def revoke_token(self, name: str) -> None:
        """Revoke a join token that no machine has used."""
        self._connection.send(catalog_calls.revoke_join_token(name))

    def approve(self, name: str, claims: Sequence[str]) -> AgentView:
        """Approve the claims of an agent: its `unapproved`, as it was seen."""
        return self._connection.send(catalog_calls.approve_agent(name, claims))

    def remove(self, name: str) -> AgentView:
        """Revoke the certificate of an agent that has joined, and close its link."""
        return self._connection.send(catalog_calls.revoke_agent(name))


class Agents(Joining):
    """Agents: the machines that run kernels."""

    @cached_property
    def bookings(self) -> Bookings:
        """Bookings of agents, and maintenance windows."""
        return Bookings(self._connection)

    def list(self) -> Iterator[AgentView]:
        """List all."""
        return self._connection.pages(Paging(catalog_calls.agents))

    def get(self, name: str) -> AgentView:
        """Get one by name."""
        return self._connection.send(catalog_calls.agent(name))

    def drain(self, name: str, *, reason: str = "") -> AgentView:
        """Stop scheduling onto an agent; running kernels continue."""
        return self._connection.send(catalog_calls.change_agent(name, "drain", reason))

    def undrain(self, name: str, *, reason: str = "") -> AgentView:
        """Schedule onto a drained agent again."""
        return self._connection.send(catalog_calls.change_agent(name, "undrain", reason))

    def declare_gone(self, name: str, *, reason: str = "") -> AgentView:
        """Declare an agent permanently lost, which releases its resources."""
        return self._connection.send(catalog_calls.change_agent(name, "declare-gone", reason))

    def label(self, name: str, labels: Mapping[str, str] | None = None, *, remove: Sequence[str] = ()) -> LabelsView:
        """Set and remove labels of an agent, which enrolments keep."""
        return self._connection.send(catalog_calls.label_agent(name, labels or {}, remove))

    def taint(self, name: str, *taints: str, remove: Sequence[str] = ()) -> AgentView:
        """Set taints (KEY or KEY=VALUE) and remove taints (KEY) of an agent."""
        return self._connection.send(catalog_calls.taint_agent(name, taints, remove))

    def what_if(self, body: WhatIfBody) -> WhatIfView:
        """Compare the next scheduling cycle with one after changes, which are not made."""
        return self._connection.send(catalog_calls.what_if(body))

    def history(self, name: str) -> Sequence[HistoryLine]:
        """State history of an agent."""
        return self._connection.send(catalog_calls.agent_history(name))


class HyperNodes:
    """The topology: HyperNodes over the agents."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def fleet(self) -> FleetView:
        """Get all agents and devices, and the sessions that hold them, as columns."""
        return self._connection.send(catalog_calls.fleet())

    def follow_fleet(self) -> Iterator[FleetUpdate]:
        """Yield the fleet, and again whenever it has changed, at most once a second.

        Until the caller stops iterating.
        """
        return self._connection.follow(FleetFollower())

    def timeline(
        self, *, limit: int | None = None, cursor: str | None = None, **options: Unpack[TimelineOptions]
    ) -> TimelineView:
        """The holders of devices over time, by default in the last hour.

        With drains, bookings and kept room. `next` of the answer is the `cursor` of further agents.
        """
        return self._connection.send(catalog_calls.timeline(options, limit=limit, cursor=cursor))

    def impact(self, name: str, action: str = "drain") -> AgentImpactView:
        """The impact of `drain`, `undrain` or `declare-gone`; nothing is changed."""
        return self._connection.send(catalog_calls.agent_impact(name, action))

    def get(self) -> TopologyView:
        """Get the topology, and its tree with capacities."""
        return self._connection.send(catalog_calls.topology())

    def apply(self, body: TopologyBody, *, dry_run: bool = False) -> TopologyChangeView:
        """Replace the topology as a whole, or only check the new one."""
        return self._connection.send(catalog_calls.put_topology(body, dry_run=dry_run))

    def delete(self, *, dry_run: bool = False) -> TopologyChangeView:
        """Remove the topology, or only check what that does."""
        return self._connection.send(catalog_calls.delete_topology(dry_run=dry_run))


class Logins:
    """Browsers that are logged in to the dashboard."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create_code(self) -> LoginCodeView:
        """Create a code that logs a browser in once, within a minute."""
        return self._connection.send(catalog_calls.new_login_code())

    def list(self) -> Iterator[LoginView]:
        """List the logins that the caller may see."""
        return self._connection.pages(Paging(catalog_calls.logins))

    def delete(self, name: str) -> None:
        """End a login."""
        self._connection.send(catalog_calls.delete_login(name))


class Keys:
    """API keys."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @cached_property
    def logins(self) -> Logins:
        """Browsers that are logged in with keys."""
        return Logins(self._connection)

    def create(self, user: str, *, policy: str | None = None) -> NewKeyView:
        """Create a key; its token is only ever in this response."""
        return self._connection.send(catalog_calls.new_key(user, policy))

    def list(self) -> Iterator[KeyView]:
        """List the keys that the caller may see, without their secrets."""
        return self._connection.pages(Paging(catalog_calls.keys))

    def set(self, access_key: str, *, policy: str | None) -> KeyView:
        """Change the policy of a key; None for no limits of its own."""
        return self._connection.send(catalog_calls.set_key(access_key, policy))

    def audit_log(
        self, *, limit: int | None = None, **filters: Unpack[system_calls.AuditOptions]
    ) -> Iterator[AuditEntryView]:
        """List who did what to which object, newest first; administrators only."""
        return self._connection.pages(Paging(partial(system_calls.audit_log, filters), limit=limit))

    def audit_chain(self) -> AuditChainView:
        """Check that no entry of the audit log was changed; for administrators."""
        return self._connection.send(system_calls.audit_chain())

    def delete(self, access_key: str) -> None:
        """Revoke a key."""
        self._connection.send(catalog_calls.delete_key(access_key))
