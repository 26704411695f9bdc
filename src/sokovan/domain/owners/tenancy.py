"""Owners: domains contain groups (projects) and users, users have keypairs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sokovan.domain.checks import require_int, require_kind, require_tuple
from sokovan.domain.ids import AccessKey, checked_name
from sokovan.domain.owners.policy import Scope

DEFAULT_OWNER_NAME = "default"
WEIGHT_MAX = 1_000_000


class Role(StrEnum):
    """The permissions of a user: everything, its domain, or its own objects."""

    ADMIN = "admin"
    DOMAIN_ADMIN = "domain-admin"
    USER = "user"


@dataclass(frozen=True, slots=True)
class Domain:
    """The top-level tenant: a company, a faculty."""

    name: str
    policy: str | None = None

    def __post_init__(self) -> None:
        checked_name(self.name, what="domain")
        _check_policy(self.policy)


@dataclass(frozen=True, slots=True)
class Group:
    """A project inside a domain; users may be members of several.

    `weight` is its share in fair share.
    """

    name: str
    domain: str
    policy: str | None = None
    weight: int = 1

    def __post_init__(self) -> None:
        checked_name(self.name, what="group")
        checked_name(self.domain, what="domain")
        _check_policy(self.policy)
        require_int(self.weight, what=f"group {self.name}", field="weight", least=1, most=WEIGHT_MAX)


@dataclass(frozen=True, slots=True)
class User:
    """A person or service account of one domain; `weight` is its share in fair share."""

    name: str
    domain: str
    groups: tuple[str, ...] = ()
    policy: str | None = None
    role: Role = Role.USER
    weight: int = 1

    def __post_init__(self) -> None:
        checked_name(self.name, what="user")
        require_kind(self.role, Role, what=f"user {self.name}", field="role")
        checked_name(self.domain, what="domain")
        _check_policy(self.policy)
        require_tuple(self.groups, str, what=f"user {self.name}", field="groups")
        for group in self.groups:
            checked_name(group, what="group")
        require_int(self.weight, what=f"user {self.name}", field="weight", least=1, most=WEIGHT_MAX)


@dataclass(frozen=True, slots=True)
class Keypair:
    """A credential of a user, with limits of its own; without its secret."""

    access_key: AccessKey
    user: str
    policy: str | None = None
    active: bool = True

    def __post_init__(self) -> None:
        checked_name(self.access_key, what="access key")
        checked_name(self.user, what="user")
        _check_policy(self.policy)
        require_kind(self.active, bool, what=f"key {self.access_key}", field="active")


@dataclass(frozen=True, slots=True)
class Owner:
    """The four scopes a session counts against."""

    user: str = DEFAULT_OWNER_NAME
    group: str = DEFAULT_OWNER_NAME
    domain: str = DEFAULT_OWNER_NAME
    access_key: AccessKey = AccessKey(DEFAULT_OWNER_NAME)

    def __post_init__(self) -> None:
        checked_name(self.user, what="user")
        checked_name(self.group, what="group")
        checked_name(self.domain, what="domain")
        checked_name(self.access_key, what="access key")

    @property
    def scopes(self) -> tuple[tuple[Scope, str], ...]:
        """The scopes in the order keypair, user, group, domain, each with the name in it."""
        return tuple((scope, self.name_in(scope)) for scope in Scope)

    def name_in(self, scope: Scope) -> str:
        """The name of the owner in one scope."""
        return str(getattr(self, _FIELD[scope]))

    def __hash__(self) -> int:
        """Hash keypair and group only, for speed; a keypair belongs to one user."""
        return hash((self.access_key, self.group))


_FIELD = {Scope.KEYPAIR: "access_key", Scope.USER: "user", Scope.GROUP: "group", Scope.DOMAIN: "domain"}


def _check_policy(policy: str | None) -> None:
    if policy is not None:
        checked_name(policy, what="quota")
