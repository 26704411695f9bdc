"""Whether a world came out as its scenario says, and where it differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sokovan.domain.cluster.topology import HyperNodeTree
from sokovan.domain.ids import SessionId
from sokovan.simulator.simulation import World

Check = Callable[[World, Any], Iterable[str]]


def differences(world: World) -> list[str]:
    """Every expectation that does not hold, in words; nothing if all hold."""
    found: list[str] = []
    for key, wanted in world.scenario.expect.items():
        found.extend(f"{key}: {difference}" for difference in CHECKS[key](world, wanted))
    return found


def placed_at(world: World) -> dict[str, str]:
    """Where the kernels that were newly placed went."""
    return {str(placement.kernel_id): str(placement.agent_id) for placement in world.placements}


def _placed(world: World, wanted: Mapping[str, str] | None) -> Iterable[str]:
    got, expected = placed_at(world), wanted or {}
    for kernel in sorted({*got, *expected}):
        if got.get(kernel) != expected.get(kernel):
            yield f"{kernel} is on {got.get(kernel, 'no agent')}, expected {expected.get(kernel, 'no placement')}"


def _placed_count(world: World, wanted: int) -> Iterable[str]:
    if len(world.placements) != wanted:
        yield f"{len(world.placements)} kernels were placed, expected {wanted}: {placed_at(world)}"


def _placed_in(world: World, wanted: Mapping[str, list[str]]) -> Iterable[str]:
    got = placed_at(world)
    for kernel, agents in (wanted or {}).items():
        if got.get(kernel) not in (agents or []):
            yield f"{kernel} is on {got.get(kernel, 'no agent')}, expected one of {', '.join(agents or [])}"


def _placed_within(world: World, wanted: str) -> Iterable[str]:
    inside = _tree(world).agents_under(wanted)
    for kernel, agent in placed_at(world).items():
        if agent not in inside:
            yield f"{kernel} is on {agent}, which is not under {wanted}"


def _same_tier(world: World, wanted: int) -> Iterable[str]:
    domain = _tree(world).domain_of(placed_at(world).values())
    if domain is None:
        yield "nothing was placed"
    elif _tree(world).tier(domain) > wanted:
        yield f"the placed kernels meet in {domain} of tier {_tree(world).tier(domain)}, expected tier {wanted}"


def _evicted(world: World, wanted: list[str] | None) -> Iterable[str]:
    got, expected = {str(eviction.kernel_id) for eviction in world.evictions}, set(wanted or [])
    for kernel in sorted(got ^ expected):
        yield f"{kernel} was {'' if kernel in got else 'not '}evicted"


def _reserved(world: World, wanted: Mapping[str, list[str]] | None) -> Iterable[str]:
    held = {str(reservation.session_id): list(reservation.agents) for reservation in world.plan.reservations}
    for session, agents in (wanted or {}).items():
        if held.get(session, []) != sorted(agents or []):
            yield f"{session} holds {held.get(session, 'no reservation')}, expected {sorted(agents or [])}"


def _pending(world: World, wanted: list[str] | None) -> Iterable[str]:
    served = {str(placement.session_id) for placement in world.placements}
    for session in wanted or []:
        if session in served:
            yield f"{session} got something"
        elif not _reason(world, session):
            yield f"{session} has no reason"


def _reasons(world: World, wanted: Mapping[str, str] | None) -> Iterable[str]:
    for session, text in (wanted or {}).items():
        reason = _reason(world, session)
        if str(text).lower() not in reason.lower():
            yield f"{session} is told {reason!r}, expected {str(text)!r} in it"


def _reason(world: World, session: str) -> str:
    verdict = world.plan.by_session.get(SessionId(session))
    if verdict is None:
        return ""
    return " ".join([verdict.code, verdict.summary, *(f"{check.name} {check.detail}" for check in verdict.checks)])


def _tree(world: World) -> HyperNodeTree:
    return HyperNodeTree((agent.agent_id for agent in world.scenario.agents), world.scenario.hypernodes)


CHECKS: dict[str, Check] = {
    "placed": _placed,
    "placed_count": _placed_count,
    "placed_in": _placed_in,
    "placed_within": _placed_within,
    "same_hypernode_tier": _same_tier,
    "evicted": _evicted,
    "reserved": _reserved,
    "pending": _pending,
    "reason": _reasons,
}
