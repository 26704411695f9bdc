"""Compares the state after a simulation with the scenario's expectations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sokovan.domain.cluster.topology import HyperNodeTree
from sokovan.domain.ids import SessionId
from sokovan.simulator.simulation import SimulationState

Check = Callable[[SimulationState, Any], Iterable[str]]


def differences(state: SimulationState) -> list[str]:
    """A sentence for every expectation that does not hold."""
    found: list[str] = []
    for key, expected in state.scenario.expect.items():
        found.extend(f"{key}: {difference}" for difference in CHECKS[key](state, expected))
    return found


def placed_at(state: SimulationState) -> dict[str, str]:
    """Agent of every newly placed kernel."""
    return {str(placement.kernel_id): str(placement.agent_id) for placement in state.placements}


def _placed(state: SimulationState, expected: Mapping[str, str] | None) -> Iterable[str]:
    got, expected = placed_at(state), expected or {}
    for kernel in sorted({*got, *expected}):
        if got.get(kernel) != expected.get(kernel):
            yield f"{kernel} is on {got.get(kernel, 'no agent')}, expected {expected.get(kernel, 'no placement')}"


def _placed_count(state: SimulationState, expected: int) -> Iterable[str]:
    if len(state.placements) != expected:
        yield f"{len(state.placements)} kernels were placed, expected {expected}: {placed_at(state)}"


def _placed_in(state: SimulationState, expected: Mapping[str, list[str]]) -> Iterable[str]:
    got = placed_at(state)
    for kernel, agents in (expected or {}).items():
        if got.get(kernel) not in (agents or []):
            yield f"{kernel} is on {got.get(kernel, 'no agent')}, expected one of {', '.join(agents or [])}"


def _placed_within(state: SimulationState, expected: str) -> Iterable[str]:
    inside = _tree(state).agents_under(expected)
    for kernel, agent in placed_at(state).items():
        if agent not in inside:
            yield f"{kernel} is on {agent}, which is not under {expected}"


def _same_tier(state: SimulationState, expected: int) -> Iterable[str]:
    domain = _tree(state).domain_of(placed_at(state).values())
    if domain is None:
        yield "nothing was placed"
    elif _tree(state).tier(domain) > expected:
        yield f"the placed kernels are in {domain} of tier {_tree(state).tier(domain)}, expected tier {expected}"


def _evicted(state: SimulationState, expected: list[str] | None) -> Iterable[str]:
    got = {str(eviction.kernel_id) for eviction in state.evictions}
    for kernel in sorted(got ^ set(expected or [])):
        yield f"{kernel} was {'' if kernel in got else 'not '}evicted"


def _lost(state: SimulationState, expected: Mapping[str, int] | None) -> Iterable[str]:
    got = Counter[str]()
    for eviction in state.evictions:
        got[str(eviction.session_id)] += eviction.lost_s
    for session, slot_seconds in (expected or {}).items():
        if got[session] != slot_seconds:
            yield f"{session} lost {got[session]} slot seconds, expected {slot_seconds}"


def _reserved(state: SimulationState, expected: Mapping[str, list[str]] | None) -> Iterable[str]:
    held = {str(reservation.session_id): list(reservation.agents) for reservation in state.plan.reservations}
    for session, agents in (expected or {}).items():
        if held.get(session, []) != sorted(agents or []):
            yield f"{session} holds {held.get(session, 'no reservation')}, expected {sorted(agents or [])}"


def _moved(state: SimulationState, expected: Mapping[str, str] | None) -> Iterable[str]:
    got, wanted = {str(move.kernel_id): str(move.agent_id) for move in state.moves}, expected or {}
    for kernel in sorted({*got, *wanted}):
        if got.get(kernel) != wanted.get(kernel):
            yield f"{kernel} moves to {got.get(kernel, 'no agent')}, expected {wanted.get(kernel, 'no move')}"


def _starts_at(state: SimulationState, expected: Mapping[str, int] | None) -> Iterable[str]:
    got = {str(one.session_id): one.starts_ms for one in state.plan.reservations if one.starts_ms is not None}
    for session, at in (expected or {}).items():
        if session not in got:
            yield f"{session} has no start, expected {at}"
        elif got[session] != at * 1000:
            yield f"{session} starts at {got[session] / 1000:g}, expected {at}"


def _pending(state: SimulationState, expected: list[str] | None) -> Iterable[str]:
    served = {str(placement.session_id) for placement in state.placements}
    for session in expected or []:
        if session in served:
            yield f"{session} was placed"
        elif not _reason(state, session):
            yield f"{session} has no reason"


def _reasons(state: SimulationState, expected: Mapping[str, str] | None) -> Iterable[str]:
    for session, text in (expected or {}).items():
        reason = _reason(state, session)
        if str(text).lower() not in reason.lower():
            yield f"{session} has the reason {reason!r}, expected {str(text)!r} in it"


def _reason(state: SimulationState, session: str) -> str:
    verdict = state.plan.trace.get(SessionId(session))
    if verdict is None:
        return ""
    return " ".join([verdict.code, verdict.summary, *(f"{check.name} {check.detail}" for check in verdict.checks)])


def _tree(state: SimulationState) -> HyperNodeTree:
    return HyperNodeTree((agent.agent_id for agent in state.scenario.agents), state.scenario.hypernodes)


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
    "lost": _lost,
    "starts_at": _starts_at,
    "moved": _moved,
}
