"""Converts owners, keys and limits from and to wire types."""

from __future__ import annotations

from collections.abc import Iterable

from sokovan.api.mapping.fleet import amounts, read_limits
from sokovan.api.mapping.times import time_text
from sokovan.domain.owners.login import Login, LoginCode
from sokovan.domain.owners.policy import ResourcePolicy
from sokovan.domain.owners.tenancy import Domain, Group, Keypair, Role, User
from sokovan.domain.slot_notation import read_slots
from sokovan.wire.api.system import WhoamiView
from sokovan.wire.api.tenancy import (
    DomainBody,
    GroupBody,
    KeyView,
    LoginCodeView,
    LoginView,
    NewKeyView,
    NewLoginView,
    PolicyBody,
    UserBody,
)

# Where the dashboard exchanges a code for a login; browsers send no fragment to servers.
CODE_PAGE = "/ui/#code="


def domain_view(domain: Domain) -> DomainBody:
    """The view of a domain."""
    return DomainBody(name=domain.name, policy=domain.policy)


def domain_of(body: DomainBody, _before: Domain | None) -> Domain:
    """The domain of a body."""
    return Domain(name=body.name, policy=body.policy)


def group_view(group: Group) -> GroupBody:
    """The view of a group."""
    return GroupBody(name=group.name, domain=group.domain, policy=group.policy, weight=group.weight)


def group_of(body: GroupBody, _before: Group | None) -> Group:
    """The group of a body."""
    return Group(name=body.name, domain=body.domain, policy=body.policy, weight=body.weight)


def user_view(user: User) -> UserBody:
    """The view of a user."""
    return UserBody(
        name=user.name,
        domain=user.domain,
        groups=list(user.groups),
        policy=user.policy,
        role=user.role.value,
        weight=user.weight,
    )


def user_of(body: UserBody, _before: User | None) -> User:
    """The user of a body."""
    groups = tuple(dict.fromkeys(body.groups))
    return User(
        name=body.name,
        domain=body.domain,
        groups=groups,
        policy=body.policy,
        role=Role(body.role),
        weight=body.weight,
    )


def policy_view(policy: ResourcePolicy) -> PolicyBody:
    """The view of a policy."""
    return PolicyBody(
        name=policy.name,
        slots_max=amounts(policy.slots_max),
        sessions_max=policy.sessions_max,
        pending_sessions_max=policy.pending_sessions_max,
        pending_slots_max=amounts(policy.pending_slots_max),
        kernels_per_session_max=policy.kernels_per_session_max,
        priority_max=policy.priority_max,
        array_size_max=policy.array_size_max,
        slots_min=amounts(policy.slots_min),
        stored_pending_max=policy.stored_pending_max,
        kernel_disk_max=policy.kernel_disk_max,
    )


def policy_of(body: PolicyBody, _before: ResourcePolicy | None) -> ResourcePolicy:
    """The policy of a body."""
    return ResourcePolicy(
        name=body.name,
        slots_max=read_limits(body.slots_max),
        sessions_max=body.sessions_max,
        pending_sessions_max=body.pending_sessions_max,
        pending_slots_max=read_limits(body.pending_slots_max),
        kernels_per_session_max=body.kernels_per_session_max,
        priority_max=body.priority_max,
        array_size_max=body.array_size_max,
        slots_min=read_slots(body.slots_min),
        stored_pending_max=body.stored_pending_max,
        kernel_disk_max=body.kernel_disk_max,
    )


def key_view(keypair: Keypair) -> KeyView:
    """A key without its secret."""
    return KeyView(access_key=keypair.access_key, user=keypair.user, policy=keypair.policy, active=keypair.active)


def new_key_view(keypair: Keypair, token: str) -> NewKeyView:
    """A new key, with its token."""
    return NewKeyView(
        access_key=keypair.access_key,
        user=keypair.user,
        policy=keypair.policy,
        active=keypair.active,
        token=token,
    )


def login_view(login: Login, *, current: str = "") -> LoginView:
    """A login without its secrets; `current` is the id of the caller's."""
    return LoginView(
        id=login.name,
        user=login.user,
        access_key=login.access_key,
        created_at=time_text(login.created_ms),
        used_at=time_text(login.used_ms),
        expires_at=time_text(login.expires_ms),
        address=login.address,
        current=login.name == current,
    )


def new_login_view(login: Login, proof: str) -> NewLoginView:
    """A new login, with its proof."""
    view = login_view(login, current=login.name)
    return NewLoginView(
        id=view.id,
        user=view.user,
        access_key=view.access_key,
        created_at=view.created_at,
        used_at=view.used_at,
        expires_at=view.expires_at,
        address=view.address,
        current=True,
        proof=proof,
    )


def login_code_view(code: LoginCode, text: str) -> LoginCodeView:
    """A new login code, with its text."""
    return LoginCodeView(code=text, path=f"{CODE_PAGE}{text}", expires_at=time_text(code.expires_ms))


def whoami_view(user: User, keypair: Keypair, *, machine: str = "", folders: Iterable[str] = ()) -> WhoamiView:
    """The view of the caller."""
    return WhoamiView(
        user=user.name,
        role=user.role.value,
        domain=user.domain,
        groups=list(user.groups),
        access_key=keypair.access_key,
        machine=machine,
        folders=sorted(set(folders)),
    )
