"""Owners, their keys and their limits on the wire."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sokovan.wire.api.bodies import Amount, StrictBody

Role = Literal["admin", "domain-admin", "user"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainBody(StrictBody):
    """The widest tenant."""

    name: str
    policy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainPage:
    """Every domain that the caller may see."""

    items: list[DomainBody]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBody(StrictBody):
    """A project inside a domain."""

    name: str
    domain: str
    policy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPage:
    """Every group that the caller may see."""

    items: list[GroupBody]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserBody(StrictBody):
    """A person or service account of one domain."""

    name: str
    domain: str
    groups: list[str] = field(default_factory=list)
    policy: str | None = None
    role: Role = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserPage:
    """Every user that the caller may see."""

    items: list[UserBody]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRequest(StrictBody):
    """A new key for a user."""

    user: str
    policy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyView:
    """A key without its secret."""

    access_key: str
    user: str
    policy: str | None
    active: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKeyView(KeyView):
    """A key that was just made; its token is shown this once, and never again."""

    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPage:
    """Every key that the caller may see."""

    items: list[KeyView]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyBody(StrictBody):
    """Limits for whoever is put under this policy; what is not said is not limited."""

    name: str
    slots_max: dict[str, Amount] = field(default_factory=dict)
    sessions_max: int | None = None
    pending_sessions_max: int | None = None
    pending_slots_max: dict[str, Amount] = field(default_factory=dict)
    kernels_per_session_max: int | None = None
    priority_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyPage:
    """Every policy."""

    items: list[PolicyBody]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhoamiView:
    """Who the caller is, as the server sees it."""

    user: str
    role: str
    domain: str
    groups: list[str]
    access_key: str
