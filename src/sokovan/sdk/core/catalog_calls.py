"""Requests for agents, images, keys and the other named objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypedDict, TypeVar

from sokovan.sdk.core.calls import PAGE_MAX, SEEN_HEADER, Call, Nothing, api_path, filters_query, query, sparse
from sokovan.wire.api.explanations import BookingEvictionsView
from sokovan.wire.api.fleet import (
    AgentChange,
    AgentImpactView,
    AgentPage,
    AgentView,
    BookingBody,
    BookingPage,
    FleetView,
    ImageBody,
    ImagePage,
    QueueBody,
    QueuePage,
    QueueSharesView,
    ScalingGroupBody,
    ScalingGroupPage,
    TaintsBody,
    TimelineView,
    WhatIfBody,
    WhatIfView,
)
from sokovan.wire.api.sessions import HistoryLine
from sokovan.wire.api.tenancy import (
    ClaimApproval,
    DomainBody,
    DomainPage,
    GroupBody,
    GroupPage,
    JoinTokenBody,
    JoinTokenPage,
    JoinTokenView,
    KeyPage,
    KeyPolicyBody,
    KeyRequest,
    KeyView,
    LoginCodeView,
    LoginPage,
    NewKeyView,
    OwnerLimitsPage,
    PolicyBody,
    PolicyPage,
    UsageHistoryView,
    UsagePage,
    UserBody,
    UserPage,
)
from sokovan.wire.api.topology import (
    LabelsBody,
    LabelsView,
    TopologyBody,
    TopologyChangeView,
    TopologyView,
)

B = TypeVar("B")


@dataclass(frozen=True, slots=True)
class CatalogKind(Generic[B]):
    """A kind of named object that is read and written as a whole."""

    path: str
    body: type[B]
    page: Any

    def listing(self, *, limit: int = PAGE_MAX, cursor: str | None = None) -> Call[Any]:
        """Get one page."""
        return _listing(self.path, self.page, limit, cursor)

    def get(self, name: str, **parameters: str | None) -> Call[B]:
        """Get one."""
        return Call(method="GET", path=api_path(self.path, name), answer=self.body, query=query(parameters))

    def put(self, body: B) -> Call[B]:
        """Create or replace one; the body has its name."""
        path = api_path(self.path, str(getattr(body, "name", "")))
        return Call(method="PUT", path=path, answer=self.body, body=sparse(body))

    def create(self, body: B) -> Call[B]:
        """Create one, and replace none."""
        return replace(self.put(body), query={"replace": "false"}, repeatable=False)

    def delete(self, name: str, **parameters: str | None) -> Call[Nothing]:
        """Delete one."""
        return Call(
            method="DELETE", path=api_path(self.path, name), answer=Nothing, query=query(parameters), repeatable=False
        )


SCALING_GROUPS = CatalogKind("scaling-groups", ScalingGroupBody, ScalingGroupPage)
QUEUES = CatalogKind("queues", QueueBody, QueuePage)
BOOKINGS = CatalogKind("bookings", BookingBody, BookingPage)
IMAGES = CatalogKind("images", ImageBody, ImagePage)
DOMAINS = CatalogKind("domains", DomainBody, DomainPage)
GROUPS = CatalogKind("groups", GroupBody, GroupPage)
USERS = CatalogKind("users", UserBody, UserPage)
POLICIES = CatalogKind("policies", PolicyBody, PolicyPage)


def preview_booking(body: BookingBody) -> Call[BookingEvictionsView]:
    """Get whom a booking would evict."""
    path = api_path("bookings", body.name)
    return Call(method="PUT", path=path, answer=BookingEvictionsView, body=sparse(body), query={"dry_run": "true"})


def booking_evictions(name: str) -> Call[BookingEvictionsView]:
    """Get the sessions that leave for a booking, and those that did."""
    return Call(method="GET", path=api_path("bookings", name, "evictions"), answer=BookingEvictionsView)


def agents(*, limit: int = PAGE_MAX, cursor: str | None = None) -> Call[AgentPage]:
    """Get one page of agents."""
    return _listing("agents", AgentPage, limit, cursor)


def agent(name: str) -> Call[AgentView]:
    """Get one agent."""
    return Call(method="GET", path=api_path("agents", name), answer=AgentView)


def change_agent(name: str, action: str, reason: str) -> Call[AgentView]:
    """Drain an agent, undrain it, or declare it gone."""
    change = AgentChange(action=action, reason=reason)
    return Call(method="PATCH", path=api_path("agents", name), answer=AgentView, body=sparse(change))


def agent_impact(name: str, action: str) -> Call[AgentImpactView]:
    """Get what an action on an agent would do."""
    change, path = AgentChange(action=action), api_path("agents", name)
    return Call(method="PATCH", path=path, answer=AgentImpactView, body=sparse(change), query={"dry_run": "true"})


class TimelineOptions(TypedDict, total=False):
    """The time of a timeline, as RFC 3339, and its agents.

    By default the last hour of all agents.
    """

    since: str | None
    until: str | None
    agent: str | None
    scaling_group: str | None


def timeline(
    options: TimelineOptions | None = None, *, limit: int | None = None, cursor: str | None = None
) -> Call[TimelineView]:
    """Get who held the devices of agents over time. Raises InvalidSetting."""
    parameters = filters_query("devices", options or {}, TimelineOptions, limit=limit, cursor=cursor)
    return Call(method="GET", path=api_path("timeline"), answer=TimelineView, query=parameters)


def limits(*, kind: str | None = None, limit: int = PAGE_MAX, cursor: str | None = None) -> Call[OwnerLimitsPage]:
    """Get one page of owners, with what they hold and may hold."""
    parameters = query({"kind": kind, "limit": str(limit), "cursor": cursor})
    return Call(method="GET", path=api_path("limits"), answer=OwnerLimitsPage, query=parameters)


def new_join_token(body: JoinTokenBody) -> Call[JoinTokenView]:
    """Create a token that lets one machine join."""
    path = api_path("join-tokens")
    return Call(method="POST", path=path, answer=JoinTokenView, body=sparse(body), repeatable=False)


def join_tokens(*, limit: int = PAGE_MAX, cursor: str | None = None) -> Call[JoinTokenPage]:
    """Get one page of join tokens."""
    return _listing("join-tokens", JoinTokenPage, limit, cursor)


def revoke_join_token(name: str) -> Call[Nothing]:
    """Revoke a join token."""
    return Call(method="DELETE", path=api_path("join-tokens", name), answer=Nothing, repeatable=False)


def approve_agent(name: str, claims: Sequence[str]) -> Call[AgentView]:
    """Approve what an agent claims beyond its join token."""
    path, body = api_path("agents", name, "approval"), ClaimApproval(claims=list(claims))
    return Call(method="POST", path=path, answer=AgentView, body=sparse(body), repeatable=False)


def revoke_agent(name: str) -> Call[AgentView]:
    """Revoke the certificate of an agent."""
    return Call(method="DELETE", path=api_path("agents", name, "certificate"), answer=AgentView, repeatable=False)


def label_agent(name: str, labels: Mapping[str, str], remove: Sequence[str]) -> Call[LabelsView]:
    """Set and remove labels of an agent."""
    body = LabelsBody(set=dict(labels), remove=list(remove))
    path = api_path("agents", name, "labels")
    return Call(method="PATCH", path=path, answer=LabelsView, body=sparse(body), repeatable=False)


def taint_agent(name: str, taints: Sequence[str], remove: Sequence[str]) -> Call[AgentView]:
    """Set and remove taints of an agent."""
    body = TaintsBody(set=list(taints), remove=list(remove))
    path = api_path("agents", name, "taints")
    return Call(method="PATCH", path=path, answer=AgentView, body=sparse(body), repeatable=False)


def fleet() -> Call[FleetView]:
    """Get all agents and devices as columns."""
    return Call(method="GET", path=api_path("fleet"), answer=FleetView)


def fleet_changes(*, seen: str = "") -> Call[FleetView]:
    """Stream the fleet, and then its changes, starting after `seen`."""
    headers = {SEEN_HEADER: seen} if seen else {}
    return Call(method="GET", path=api_path("fleet", "events"), answer=FleetView, headers=headers)


def topology() -> Call[TopologyView]:
    """Get the topology."""
    return Call(method="GET", path=api_path("topology"), answer=TopologyView)


def put_topology(body: TopologyBody, *, dry_run: bool) -> Call[TopologyChangeView]:
    """Replace the topology, or only check the new one."""
    chosen = query({"dry_run": dry_run})
    return Call(method="PUT", path=api_path("topology"), answer=TopologyChangeView, body=sparse(body), query=chosen)


def delete_topology(*, dry_run: bool) -> Call[TopologyChangeView]:
    """Remove the topology, or only check what that does."""
    chosen = query({"dry_run": dry_run})
    return Call(method="DELETE", path=api_path("topology"), answer=TopologyChangeView, query=chosen, repeatable=False)


def agent_history(name: str) -> Call[list[HistoryLine]]:
    """Get the state history of an agent."""
    return Call(method="GET", path=api_path("agents", name, "history"), answer=list[HistoryLine])


def new_login_code() -> Call[LoginCodeView]:
    """Create a code that logs a browser in once."""
    return Call(method="POST", path=api_path("login-codes"), answer=LoginCodeView, repeatable=False)


def logins(*, limit: int = PAGE_MAX, cursor: str | None = None) -> Call[LoginPage]:
    """Get one page of logins."""
    return _listing("logins", LoginPage, limit, cursor)


def delete_login(name: str) -> Call[Nothing]:
    """End a login."""
    return Call(method="DELETE", path=api_path("logins", name), answer=Nothing, repeatable=False)


def new_key(user: str, policy: str | None) -> Call[NewKeyView]:
    """Create a key; not repeatable, as a second request would create a second key."""
    request = KeyRequest(user=user, policy=policy)
    return Call(method="POST", path=api_path("keys"), answer=NewKeyView, body=sparse(request), repeatable=False)


def keys(*, limit: int = PAGE_MAX, cursor: str | None = None) -> Call[KeyPage]:
    """Get one page of keys."""
    return _listing("keys", KeyPage, limit, cursor)


def usage(*, scaling_group: str | None, limit: int = PAGE_MAX, cursor: str | None = None) -> Call[UsagePage]:
    """Get one page of past usage."""
    chosen = query({"scaling_group": scaling_group, "limit": limit, "cursor": cursor})
    return Call(method="GET", path=api_path("usage"), answer=UsagePage, query=chosen)


class UsageHistoryOptions(TypedDict, total=False):
    """The window of a history in RFC 3339 times, its step in seconds, and filters.

    `of` is `slots`, `sessions`, `gpus` that sessions requested, or `agents` that took kernels.
    """

    since: str | None
    until: str | None
    step: int | None
    slot: str | None
    of: str | None
    queue: str | None
    scaling_group: str | None
    user: str | None
    group: str | None


def usage_history(by: str, options: UsageHistoryOptions) -> Call[UsageHistoryView]:
    """Get held slots over time. Raises InvalidSetting."""
    parameters = {**filters_query("histories", options, UsageHistoryOptions), "by": by}
    return Call(method="GET", path=api_path("usage", "history"), answer=UsageHistoryView, query=parameters)


def what_if(body: WhatIfBody) -> Call[WhatIfView]:
    """Compare the next scheduling cycle with one after changes."""
    return Call(method="POST", path=api_path("what-if"), answer=WhatIfView, body=sparse(body))


def queue_shares(*, scaling_group: str | None, queue: str | None) -> Call[QueueSharesView]:
    """Get the shares of queues in a scaling group."""
    chosen = query({"scaling_group": scaling_group, "queue": queue})
    return Call(method="GET", path=api_path("queue-shares"), answer=QueueSharesView, query=chosen)


def set_key(access_key: str, policy: str | None) -> Call[KeyView]:
    """Change the policy of a key."""
    body = sparse(KeyPolicyBody(policy=policy))
    return Call(method="PUT", path=api_path("keys", access_key), answer=KeyView, body=body)


def delete_key(access_key: str) -> Call[Nothing]:
    """Revoke a key."""
    return Call(method="DELETE", path=api_path("keys", access_key), answer=Nothing, repeatable=False)


def _listing(path: str, page: type[B], limit: int, cursor: str | None) -> Call[B]:
    return Call(method="GET", path=api_path(path), answer=page, query=query({"limit": limit, "cursor": cursor}))
