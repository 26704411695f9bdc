"""Looks up deployments for a caller; hidden ones are reported as not found."""

from __future__ import annotations

from dataclasses import replace

from sokovan.api.access.authentication import AuthenticatedPrincipal
from sokovan.api.errors import AmbiguousName
from sokovan.domain.errors import ObjectNotFound, quoted
from sokovan.domain.ids import is_name
from sokovan.domain.owners.access import session_scope
from sokovan.domain.owners.tenancy import Role
from sokovan.domain.serving.records import DeploymentRecord
from sokovan.ports.repositories.serving import DeploymentFilter
from sokovan.ports.storage import UnitOfWork


def visible_deployments(principal: AuthenticatedPrincipal, wanted: DeploymentFilter) -> DeploymentFilter | None:
    """The filter narrowed to what the caller may see; None if that is nothing."""
    scope = session_scope(principal.subject)
    if (scope.user and wanted.user not in {"", scope.user}) or (
        scope.domain and wanted.domain not in {"", scope.domain}
    ):
        return None
    return replace(wanted, user=scope.user or wanted.user, domain=scope.domain or wanted.domain)


async def deployment_named(unit: UnitOfWork, ref: str, principal: AuthenticatedPrincipal) -> DeploymentRecord:
    """The deployment that a reference means to the caller; own ones first.

    Raises ObjectNotFound, AmbiguousName.
    """
    scopes = [visible_deployments(principal, DeploymentFilter())]
    if principal.subject.role is not Role.USER:
        scopes.insert(0, visible_deployments(principal, DeploymentFilter(user=principal.user)))
    for scope in scopes:
        found = await unit.deployments.named(ref, scope) if scope is not None and is_name(ref) else []
        if len(found) > 1:
            names = ", ".join(f"{one.deployment_id} ({one.spec.name})" for one in found[:2])
            raise AmbiguousName(f"{quoted(ref)} is ambiguous: {names}", hint="give the id of one")
        if found:
            return found[0]
    raise ObjectNotFound(what="deployment", name=ref)
