"""Looks up objects for a caller; hidden objects are reported as not found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sokovan.api.access.authentication import AuthenticatedPrincipal
from sokovan.api.errors import AmbiguousName, ArrayNamed, Forbidden
from sokovan.domain.arrays import is_session_name
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.errors import ObjectNotFound, SokovanError, nearest, quoted
from sokovan.domain.ids import DEFAULT_QUEUE, AgentId, SessionId, is_name
from sokovan.domain.owners.access import (
    UNOWNED,
    AccessDecision,
    Action,
    ObjectKind,
    Ownership,
    access_decision,
    role_may,
    session_scope,
)
from sokovan.domain.owners.tenancy import Owner, Role
from sokovan.domain.records import AgentRecord, ArrayRecord, KernelRecord, SessionRecord, SessionSummary
from sokovan.orchestrator.sessions.intake.validation_context import is_alone
from sokovan.orchestrator.sessions.references import sessions_or_arrays
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.storage import Store, UnitOfWork


async def open_folders(unit: UnitOfWork, owner: Owner) -> list[str]:
    """The roots of folders in all scaling groups that an owner may use."""
    groups = [group for group in await unit.catalog.all(ScalingGroup) if group.is_open_to(owner)]
    alone = await is_alone(unit)
    return [root for group in groups for root in group.folders_of(owner, is_alone=alone)]


def visible_filter(principal: AuthenticatedPrincipal, wanted: SessionFilter | None = None) -> SessionFilter | None:
    """The filter narrowed to what the caller may see; None if that is nothing."""
    wanted = wanted or SessionFilter()
    scope = session_scope(principal.subject)
    if (scope.user and wanted.user not in {"", scope.user}) or (
        scope.domain and wanted.domain not in {"", scope.domain}
    ):
        return None
    return replace(wanted, user=scope.user or wanted.user, domain=scope.domain or wanted.domain)


def visible_listing(principal: AuthenticatedPrincipal, wanted: SessionFilter, *, mine: bool) -> SessionFilter | None:
    """Like `visible_filter`; with `mine`, only the sessions of the caller."""
    if not mine:
        return visible_filter(principal, wanted)
    if wanted.user not in {"", principal.user}:
        return None
    return visible_filter(principal, replace(wanted, user=principal.user))


async def require_known(unit: UnitOfWork, wanted: SessionFilter) -> None:
    """Require that the queue and the scaling group of a filter exist.

    For filters that match nothing: sessions may outlive their queue. Raises ObjectNotFound.
    """
    queues = [str(one.name) for one in await unit.catalog.all(Queue)] if wanted.queue else []
    groups = [str(one.name) for one in await unit.catalog.all(ScalingGroup)] if wanted.scaling_group else []
    for what, name, known in (
        ("queue", wanted.queue, [*queues, DEFAULT_QUEUE]),
        ("scaling group", wanted.scaling_group, groups),
    ):
        if name and name not in known:
            raise ObjectNotFound(what=what, name=name, hint=nearest(name, dict.fromkeys(known)))


async def session_named(
    unit: UnitOfWork, ref: str, principal: AuthenticatedPrincipal, *, kernels_max: int = 0
) -> SessionSummary:
    """The session that a reference means to the caller; own sessions first.

    It has its first `kernels_max` kernels only. Raises ObjectNotFound, AmbiguousName,
    ArrayNamed.
    """
    found = await _referred(unit, ref, principal, kernels_max=kernels_max)
    if isinstance(found, ArrayRecord):
        raise ArrayNamed(name=found.name, size=found.size)
    if found is None:
        raise ObjectNotFound(what="session", name=ref)
    return found


async def array_named(unit: UnitOfWork, ref: str, principal: AuthenticatedPrincipal) -> ArrayRecord:
    """The array that a reference means to the caller.

    Raises ObjectNotFound, AmbiguousName.
    """
    found = await _referred(unit, ref, principal, kernels_max=0)
    if not isinstance(found, ArrayRecord):
        raise ObjectNotFound(what="array", name=ref)
    return found


async def _referred(
    unit: UnitOfWork, ref: str, principal: AuthenticatedPrincipal, *, kernels_max: int
) -> SessionSummary | ArrayRecord | None:
    scopes = [visible_filter(principal)]
    if principal.subject.role is not Role.USER:
        scopes.insert(0, visible_filter(principal, SessionFilter(user=principal.user)))
    for scope in scopes:
        if scope is None:
            continue
        sessions, arrays = await sessions_or_arrays(unit, ref, scope, kernels_max=kernels_max)
        found: list[SessionSummary | ArrayRecord] = [*sessions, *arrays]
        if len(found) > 1:
            named = [(one.session_id, one.spec.name) for one in sessions] + [(one.array_id, one.name) for one in arrays]
            names = ", ".join(f"{one} ({name})" for one, name in named[:2])
            # More of an exact name cannot be given.
            hint = "several have exactly this name: give the id of one" if all(name == ref for _, name in named) else ""
            raise AmbiguousName(f"{quoted(ref)} is ambiguous: {names}, or others", hint=hint)
        if found:
            return found[0]
    return None


async def read_summary(store: Store, ref: str, principal: AuthenticatedPrincipal) -> SessionSummary:
    """Like `session_named`, in its own read transaction."""
    return await store.read(lambda unit: session_named(unit, ref, principal))


async def read_summaries(
    store: Store, refs: Sequence[str], principal: AuthenticatedPrincipal
) -> list[SessionSummary | SokovanError]:
    """The sessions that references mean to the caller, or why there is none, in order.

    Ids are looked up together, names one by one.
    """
    ids = [SessionId(one) for one in dict.fromkeys(refs) if is_session_name(one)]
    scope = visible_filter(principal, SessionFilter(ids=ids))
    found: dict[str, SessionSummary | SokovanError] = {}
    if ids and scope is not None:
        summaries = await store.read(lambda unit: unit.sessions.summaries(scope, limit=len(ids)))
        found = {one.session_id: one for one in summaries}
    for ref in refs:
        if ref not in found:
            try:
                found[ref] = await read_summary(store, ref, principal)
            except SokovanError as error:
                found[ref] = error
    return [found[ref] for ref in refs]


async def read_session(store: Store, ref: str, principal: AuthenticatedPrincipal) -> SessionRecord:
    """Like `read_summary`, with the whole spec and all kernels."""

    async def work(unit: UnitOfWork) -> SessionRecord:
        return await unit.sessions.get((await session_named(unit, ref, principal)).session_id)

    return await store.read(work)


async def agent_named(unit: UnitOfWork, name: str) -> AgentRecord:
    """The agent of this name. Raises ObjectNotFound."""
    if not is_name(name):
        raise ObjectNotFound(what="agent", name=name)
    return await unit.fleet.get(AgentId(name))


def kernel_at(record: SessionRecord, index: int) -> KernelRecord:
    """The kernel of a session by its index. Raises ObjectNotFound."""
    found = next((kernel for kernel in record.kernels if kernel.index == index), None)
    if found is None:
        last = len(record.kernels) - 1
        has = f"kernels 0 to {last}" if last else "kernel 0 only"
        name = f"{record.spec.name}/{index}"
        raise ObjectNotFound(what="kernel", name=name, hint=f"session {record.spec.name} has {has}")
    return found


def require(
    principal: AuthenticatedPrincipal, act: Action, kind: ObjectKind, ownership: Ownership = UNOWNED, *, name: str
) -> None:
    """Check access. Raises Forbidden, or ObjectNotFound for a hidden object."""
    answer = access_decision(principal.subject, act, kind, ownership)
    if answer is AccessDecision.HIDDEN:
        raise ObjectNotFound(what=kind_text(kind), name=name)
    if answer is AccessDecision.FORBIDDEN:
        raise Forbidden(f"user {principal.user} may not {act} {kind_text(kind)} {quoted(name)}")


def require_role(principal: AuthenticatedPrincipal, act: Action, kind: ObjectKind) -> None:
    """Raises Forbidden if the caller's role allows this for no object."""
    if not role_may(principal.subject, act, kind):
        raise Forbidden(f"the role {principal.subject.role} may not {act} any {kind_text(kind)}")


def kind_text(kind: ObjectKind) -> str:
    """The name of a kind in messages."""
    return "quota" if kind is ObjectKind.POLICY else kind.value.replace("_", " ")
