"""Finds the owners that a resource policy is set on."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sokovan.api.access.authentication import AuthenticatedPrincipal
from sokovan.domain.owners.access import UNOWNED, Ownership
from sokovan.domain.owners.policy import ResourcePolicy
from sokovan.domain.owners.tenancy import Domain, Group, Keypair, Role, User
from sokovan.ports.storage import UnitOfWork


async def held_policies(unit: UnitOfWork, principal: AuthenticatedPrincipal) -> Callable[[ResourcePolicy], Ownership]:
    """A function that gives the ownership of a policy for access checks.

    A policy belongs to the caller if it limits the caller, or an owner in the domain that
    the caller administers.
    """
    held = await _names(unit, principal)
    own = Ownership(domain=principal.subject.domain, user=principal.user)
    return lambda policy: own if policy.name in held else UNOWNED


async def _names(unit: UnitOfWork, principal: AuthenticatedPrincipal) -> frozenset[str]:
    match principal.subject.role:
        case Role.ADMIN:
            return frozenset()  # administrators see every policy
        case Role.DOMAIN_ADMIN:
            return await _of_domain(unit, principal.subject.domain)
        case Role.USER:
            return await _of_user(unit, principal.user)


async def _of_user(unit: UnitOfWork, name: str) -> frozenset[str]:
    user = await unit.catalog.get(User, name)
    wanted = [(Domain, user.domain), *((Group, group) for group in user.groups)]
    around = [one for one in await unit.catalog.find(*wanted) if isinstance(one, Domain | Group)]
    keypairs = [one for one in await unit.catalog.all(Keypair) if one.user == name]
    return _policies([user, *around, *keypairs])


async def _of_domain(unit: UnitOfWork, domain: str) -> frozenset[str]:
    users = [one for one in await unit.catalog.all(User) if one.domain == domain]
    groups = [one for one in await unit.catalog.all(Group) if one.domain == domain]
    names = {one.name for one in users}
    keypairs = [one for one in await unit.catalog.all(Keypair) if one.user in names]
    return _policies([await unit.catalog.get(Domain, domain), *users, *groups, *keypairs])


def _policies(holders: Iterable[Domain | Group | User | Keypair]) -> frozenset[str]:
    return frozenset(one.policy for one in holders if one.policy is not None)
