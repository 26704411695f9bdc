"""The requests about machines, owners and limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sokovan.sdk.core.calls import Call, Nothing, place, query, sparse
from sokovan.wire.api.fleet import (
    AgentChange,
    AgentPage,
    AgentView,
    ImageBody,
    ImagePage,
    QueueBody,
    QueuePage,
    ScalingGroupBody,
    ScalingGroupPage,
)
from sokovan.wire.api.sessions import HistoryLine
from sokovan.wire.api.tenancy import (
    DomainBody,
    DomainPage,
    GroupBody,
    GroupPage,
    KeyPage,
    KeyRequest,
    NewKeyView,
    PolicyBody,
    PolicyPage,
    UserBody,
    UserPage,
)

B = TypeVar("B")
PAGE_MAX = 100


@dataclass(frozen=True, slots=True)
class Kind(Generic[B]):
    """A kind of named object that is read and written whole."""

    path: str
    body: type[B]
    page: Any

    def listing(self, *, cursor: str | None = None) -> Call[Any]:
        """One page of them."""
        wanted = query({"limit": PAGE_MAX, "cursor": cursor})
        return Call(method="GET", path=place(self.path), answer=self.page, query=wanted)

    def get(self, name: str, **wanted: str | None) -> Call[B]:
        """One of them."""
        return Call(method="GET", path=place(self.path, name), answer=self.body, query=query(wanted))

    def put(self, body: B) -> Call[B]:
        """Create or replace one; its name is in its body."""
        path = place(self.path, str(getattr(body, "name", "")))
        return Call(method="PUT", path=path, answer=self.body, body=sparse(body))

    def delete(self, name: str, **wanted: str | None) -> Call[Nothing]:
        """Remove one."""
        return Call(method="DELETE", path=place(self.path, name), answer=Nothing, query=query(wanted), repeatable=False)


SCALING_GROUPS = Kind("scaling-groups", ScalingGroupBody, ScalingGroupPage)
QUEUES = Kind("queues", QueueBody, QueuePage)
IMAGES = Kind("images", ImageBody, ImagePage)
DOMAINS = Kind("domains", DomainBody, DomainPage)
GROUPS = Kind("groups", GroupBody, GroupPage)
USERS = Kind("users", UserBody, UserPage)
POLICIES = Kind("policies", PolicyBody, PolicyPage)


def agents(*, cursor: str | None = None) -> Call[AgentPage]:
    """One page of machines."""
    return Call(
        method="GET", path=place("agents"), answer=AgentPage, query=query({"limit": PAGE_MAX, "cursor": cursor})
    )


def agent(name: str) -> Call[AgentView]:
    """One machine."""
    return Call(method="GET", path=place("agents", name), answer=AgentView)


def change_agent(name: str, change: AgentChange) -> Call[AgentView]:
    """Drain a machine, take it back, or declare it gone."""
    return Call(method="PATCH", path=place("agents", name), answer=AgentView, body=sparse(change))


def agent_history(name: str) -> Call[list[HistoryLine]]:
    """The story of a machine."""
    return Call(method="GET", path=place("agents", name, "history"), answer=list[HistoryLine])


def new_key(request: KeyRequest) -> Call[NewKeyView]:
    """A new key; a repeated request would make a second one."""
    return Call(method="POST", path=place("keys"), answer=NewKeyView, body=sparse(request), repeatable=False)


def keys(*, cursor: str | None = None) -> Call[KeyPage]:
    """One page of keys."""
    return Call(method="GET", path=place("keys"), answer=KeyPage, query=query({"limit": PAGE_MAX, "cursor": cursor}))


def delete_key(access_key: str) -> Call[Nothing]:
    """Make a key useless."""
    return Call(method="DELETE", path=place("keys", access_key), answer=Nothing, repeatable=False)
