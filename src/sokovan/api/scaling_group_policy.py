"""Validates the scheduling policy of a scaling group, and the objects it names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from sokovan.api.access.authentication import AuthenticatedPrincipal
from sokovan.api.access.known_slots import permit_known_slots
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.scaling_group import ScalingGroup, read_assignment
from sokovan.domain.errors import InvalidSpec, nearest
from sokovan.domain.ids import DEFAULT_QUEUE
from sokovan.domain.owners.policy import Scope
from sokovan.domain.owners.tenancy import Domain, Group, Keypair, User
from sokovan.ports.storage import UnitOfWork
from sokovan.scheduling.profile import SCHEDULER_OPTIONS, profile_of, require_sensible
from sokovan.scheduling.registry import PluginRegistry

# Profile keys that a scaling group sets elsewhere, rejected here to avoid contradictions.
WRITTEN_ELSEWHERE = {"sequencer": "`scheduler`", "selector": "`agent_selector`"}

_OWNERS: dict[Scope, type[Any]] = {
    Scope.KEYPAIR: Keypair,
    Scope.USER: User,
    Scope.GROUP: Group,
    Scope.DOMAIN: Domain,
}


def permit_runnable(
    plugins: PluginRegistry,
) -> Callable[[UnitOfWork, AuthenticatedPrincipal, ScalingGroup | None, ScalingGroup | None], Awaitable[None]]:
    """A check of scaling groups: runnable with these plugins, and names that exist."""

    async def permit(
        unit: UnitOfWork, principal: AuthenticatedPrincipal, group: ScalingGroup | None, before: ScalingGroup | None
    ) -> None:
        if group is not None:
            require_runnable(group, plugins)
            await require_existing(unit, group)
            await require_shard(unit, group, before)
        await permit_known_slots(unit, principal, group, before)

    return permit


def require_runnable(group: ScalingGroup, plugins: PluginRegistry) -> None:
    """Reject a policy that the scheduler cannot run.

    Raises InvalidSpec, UnknownPlugin.
    """
    for key in group.scheduler_opts:
        if key in WRITTEN_ELSEWHERE:
            raise _wrong_option(group, key, f"is written as {WRITTEN_ELSEWHERE[key]}")
        if key not in SCHEDULER_OPTIONS:
            raise _wrong_option(group, key, "is not a scheduler option", nearest(key, SCHEDULER_OPTIONS))
    try:
        profile = profile_of(group)
        require_sensible(profile)
    except InvalidSpec as error:
        key = "agent_selector" if error.field == "selector" else error.field
        raise _wrong_option(group, key, error.problem, error.hint) from error
    plugins.sequencer(profile.sequencer)
    plugins.selector(profile.selector)
    for name in profile.validators:
        plugins.validator(name)
    for name in profile.plugins:
        plugins.plugin(name)


async def require_existing(unit: UnitOfWork, group: ScalingGroup) -> None:
    """Require that named owners and queue exist. Raises ObjectNotFound."""
    for text in group.assigned_to:
        scope, name = read_assignment(text, what=group.name)
        await unit.catalog.get(_OWNERS[scope], name)
    if group.default_queue not in {None, DEFAULT_QUEUE}:
        await unit.catalog.get(Queue, str(group.default_queue))


async def require_shard(unit: UnitOfWork, group: ScalingGroup, before: ScalingGroup | None) -> None:
    """Require an agent of the shard that a group newly prefers. Raises InvalidSpec."""
    shard = _own_shard(group)
    if shard is None or (before is not None and shard == _own_shard(before)):
        return
    agents = await unit.fleet.all(scaling_group=group.name)
    if not any(agent.info.shard == shard and not agent.info.has_left for agent in agents):
        hint = f"start one with sokovan agent run --shard {shard}, or leave out shard_mode"
        raise _wrong_option(group, "shard_mode", f"needs an agent of shard {shard}, and this group has none", hint)


def _own_shard(group: ScalingGroup) -> str | None:
    profile = profile_of(group)
    return None if profile.shard_mode == "none" else profile.shard


def _wrong_option(group: ScalingGroup, key: str, problem: str, hint: str = "") -> InvalidSpec:
    what, value = f"scaling group {group.name}", group.scheduler_opts.get(key)
    return InvalidSpec(what=what, field=f"scheduler_opts.{key}", value=value, problem=problem, hint=hint)
