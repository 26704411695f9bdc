"""The requests about machines, owners and limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sokovan.sdk.core.calls import PAGE_MAX, Call, Nothing, api_path, query, sparse
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


@dataclass(frozen=True, slots=True)
class CatalogKind(Generic[B]):
    """A kind of named object that is read and written whole."""

    path: str
    body: type[B]
    page: Any

    def listing(self, *, limit: int = PAGE_MAX, cursor: str | None = None) -> Call[Any]:
        """One page of them."""
        return _listing(self.path, self.page, limit, cursor)

    def get(self, name: str, **wanted: str | None) -> Call[B]:
        """One of them."""
        return Call(method="GET", path=api_path(self.path, name), answer=self.body, query=query(wanted))

    def put(self, body: B) -> Call[B]:
        """Create or replace one; its name is in its body."""
        path = api_path(self.path, str(getattr(body, "name", "")))
        return Call(method="PUT", path=path, answer=self.body, body=sparse(body))

    def delete(self, name: str, **wanted: str | None) -> Call[Nothing]:
        """Remove one."""
        return Call(
            method="DELETE", path=api_path(self.path, name), answer=Nothing, query=query(wanted), repeatable=False
        )


SCALING_GROUPS = CatalogKind("scaling-groups", ScalingGroupBody, ScalingGroupPage)
QUEUES = CatalogKind("queues", QueueBody, QueuePage)
IMAGES = CatalogKind("images", ImageBody, ImagePage)
DOMAINS = CatalogKind("domains", DomainBody, DomainPage)
GROUPS = CatalogKind("groups", GroupBody, GroupPage)
USERS = CatalogKind("users", UserBody, UserPage)
POLICIES = CatalogKind("policies", PolicyBody, PolicyPage)


def agents(*, limit: int = PAGE_MAX, cursor: str | None = None) -> Call[AgentPage]:
    """One page of machines."""
    return _listing("agents", AgentPage, limit, cursor)


def agent(name: str) -> Call[AgentView]:
    """One machine."""
    return Call(method="GET", path=api_path("agents", name), answer=AgentView)


def change_agent(name: str, action: str, reason: str) -> Call[AgentView]:
    """Drain a machine, take it back, or declare it gone."""
    change = AgentChange(action=action, reason=reason)
    return Call(method="PATCH", path=api_path("agents", name), answer=AgentView, body=sparse(change))


def agent_history(name: str) -> Call[list[HistoryLine]]:
    """The story of a machine."""
    return Call(method="GET", path=api_path("agents", name, "history"), answer=list[HistoryLine])


def new_key(user: str, policy: str | None) -> Call[NewKeyView]:
    """A new key; a repeated request would make a second one."""
    request = KeyRequest(user=user, policy=policy)
    return Call(method="POST", path=api_path("keys"), answer=NewKeyView, body=sparse(request), repeatable=False)


def keys(*, limit: int = PAGE_MAX, cursor: str | None = None) -> Call[KeyPage]:
    """One page of keys."""
    return _listing("keys", KeyPage, limit, cursor)


def delete_key(access_key: str) -> Call[Nothing]:
    """Make a key useless."""
    return Call(method="DELETE", path=api_path("keys", access_key), answer=Nothing, repeatable=False)


def _listing(path: str, page: type[B], limit: int, cursor: str | None) -> Call[B]:
    return Call(method="GET", path=api_path(path), answer=page, query=query({"limit": limit, "cursor": cursor}))
