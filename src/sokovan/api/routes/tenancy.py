"""Routes of domains, groups, users and policies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sokovan.api.access.auditing import audit_entry
from sokovan.api.access.authentication import AuthenticatedPrincipal
from sokovan.api.access.known_slots import permit_known_slots
from sokovan.api.context import ApiContext
from sokovan.api.errors import Forbidden
from sokovan.api.mapping.tenancy import (
    domain_of,
    domain_view,
    group_of,
    group_view,
    policy_of,
    policy_view,
    user_of,
    user_view,
)
from sokovan.api.operations import ApiOperation
from sokovan.api.policy_holders import held_policies
from sokovan.api.routes.catalog import CatalogRoutes, Resource
from sokovan.domain.errors import Conflict, ObjectNotFound
from sokovan.domain.owners.access import ObjectKind, Ownership, may_act_for, may_grant
from sokovan.domain.owners.policy import ResourcePolicy
from sokovan.domain.owners.tenancy import Domain, Group, Keypair, Role, User
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.tenancy import (
    DomainBody,
    DomainPage,
    GroupBody,
    GroupPage,
    PolicyBody,
    PolicyPage,
    UserBody,
    UserPage,
)

# The setting of `several_users_without_isolation`.
SHARED_SETTING = "api.allow_several_users_without_isolation"


async def permit_user(
    unit: UnitOfWork, principal: AuthenticatedPrincipal, user: User | None, before: User | None
) -> None:
    """Reject grants above the own role, and loss of the own role.

    Raises Forbidden, ObjectNotFound, Conflict.
    """
    subject = principal.subject
    if before is not None and not may_act_for(subject, before.name, before.role):
        raise Forbidden(f"user {before.name} is {before.role}, a higher role than {subject.role}")
    if before is not None and before.name == principal.user and (user is None or user.role is not before.role):
        hint = "have another administrator do it, so that at least one remains"
        raise Conflict(f"{before.name} cannot remove or demote their own user", hint=hint)
    if before is not None and before.role is not Role.USER:
        _require_same_limits(principal, before, user)
    if user is None:
        return
    if not may_grant(subject, user.role, user.domain):
        raise Forbidden(f"a {subject.role} of domain {subject.domain} cannot make a {user.role} of {user.domain}")
    for name in user.groups:
        group = await unit.catalog.get(Group, name)
        # Groups of other domains are hidden.
        if group.domain != user.domain:
            raise ObjectNotFound(what="group", name=name)


def _require_same_limits(principal: AuthenticatedPrincipal, before: User, user: User | None) -> None:
    """Reject new limits of a domain administrator by one: those above set them.

    Raises Forbidden. Groups and weight are limits as well.
    """
    if user is None or principal.subject.role is Role.ADMIN:
        return
    if (user.policy, user.groups, user.weight) != (before.policy, before.groups, before.weight):
        raise Forbidden(f"quota, groups and weight of {before.name}, a {before.role}, are set by administrators only")


async def _require_same_group_limits(
    unit: UnitOfWork, principal: AuthenticatedPrincipal, before: Group, group: Group | None
) -> None:
    """Reject another policy of a group in which domain administrators are. Raises Forbidden."""
    if principal.subject.role is Role.ADMIN or before.policy == (None if group is None else group.policy):
        return
    users = await unit.catalog.all(User)
    if any(before.name in one.groups and one.role is not Role.USER for one in users):
        raise Forbidden(
            f"the quota of group {before.name} limits its domain administrators too; only administrators change it"
        )


async def permit_isolated_user(
    unit: UnitOfWork, principal: AuthenticatedPrincipal, user: User | None, before: User | None
) -> None:
    """Reject a further user where kernels can read the files and keys of all users.

    Raises Conflict, and what `permit_user` raises.
    """
    await permit_user(unit, principal, user, before)
    if before is None and any(profile.open for profile in (await unit.fleet.profiles()).values()):
        hint = f"install bubblewrap (`sokovan doctor` says what is missing), or set {SHARED_SETTING}"
        raise Conflict("an agent has no sandbox: its kernels can read the files and keys of all users", hint=hint)


async def remove_keys(unit: UnitOfWork, principal: AuthenticatedPrincipal, user: User) -> None:
    """Revoke the keys of a user that is removed: they are of no use to anyone else."""
    keys = [one.access_key for one in await unit.catalog.all(Keypair) if one.user == user.name]
    await unit.credentials.remove(keys)
    for key in keys:
        await unit.catalog.remove(Keypair, key)
        await unit.audit.append(audit_entry(principal, "key.remove", key, user=user.name))


async def permit_group(
    unit: UnitOfWork, principal: AuthenticatedPrincipal, group: Group | None, before: Group | None
) -> None:
    """Reject moving a group to another domain: members and sessions would stay.

    A weight counts against the groups of all domains, so only administrators set it. They
    alone set the limits of a group that limits a domain administrator.
    """
    if before is not None:
        await _require_same_group_limits(unit, principal, before, group)
    weight = 1 if before is None else before.weight
    if group is not None and group.weight != weight and principal.subject.role is not Role.ADMIN:
        raise Forbidden(f"the weight of group {group.name} is set by administrators only")
    if group is not None and before is not None and group.domain != before.domain:
        raise Conflict(
            f"group {group.name} is in domain {before.domain}", hint="create a new group in the other domain"
        )
    if group is not None and not may_grant(principal.subject, Role.USER, group.domain):
        raise ObjectNotFound(what="domain", name=group.domain)


DOMAINS = Resource(
    path="domains",
    kind=ObjectKind.DOMAIN,
    item=Domain,
    body=DomainBody,
    page=DomainPage,
    view=domain_view,
    build=domain_of,
    ownership=lambda domain: Ownership(domain=domain.name),
)
GROUPS = Resource(
    path="groups",
    kind=ObjectKind.GROUP,
    item=Group,
    body=GroupBody,
    page=GroupPage,
    view=group_view,
    build=group_of,
    ownership=lambda group: Ownership(domain=group.domain, group=group.name),
    permit=permit_group,
)
USERS = Resource(
    path="users",
    kind=ObjectKind.USER,
    item=User,
    body=UserBody,
    page=UserPage,
    view=user_view,
    build=user_of,
    ownership=lambda user: Ownership(domain=user.domain, user=user.name),
    permit=permit_user,
    remove_with=remove_keys,
)
POLICIES = Resource(
    path="policies",
    kind=ObjectKind.POLICY,
    item=ResourcePolicy,
    body=PolicyBody,
    page=PolicyPage,
    view=policy_view,
    build=policy_of,
    permit=permit_known_slots,
    holders=held_policies,
)


def tenancy_operations(context: ApiContext) -> list[ApiOperation]:
    """The operations on owners and their limits."""
    shared = context.settings.several_users_without_isolation
    users = USERS if shared else replace(USERS, permit=permit_isolated_user)
    resources: tuple[Resource[Any, Any], ...] = (DOMAINS, GROUPS, users, POLICIES)
    return [operation for one in resources for operation in CatalogRoutes(context, one).operations()]
