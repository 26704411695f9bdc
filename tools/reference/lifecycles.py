"""Diagrams and tables of the lifecycles."""

from __future__ import annotations

from collections.abc import Iterator

from sokovan.domain.lifecycle.agent import AGENT
from sokovan.domain.lifecycle.deployment import DEPLOYMENT
from sokovan.domain.lifecycle.kernel import KERNEL
from sokovan.domain.lifecycle.replica import REPLICA
from sokovan.domain.lifecycle.rollout import ROLLOUT
from sokovan.domain.lifecycle.route import ROUTE
from sokovan.domain.lifecycle.session import SESSION
from sokovan.domain.lifecycle.transition_table import Cause, S, T, TransitionTable

INTRODUCTION = """\
# Lifecycles

All transitions of sessions, kernels, agents, deployments, replicas, rollouts and routes. A transition that is not in
its table is refused with `illegal-transition`, one with a forbidden cause with `forbidden-cause`. A *controller*
accepts requests and only writes intent; a *coordinator* does the work; an *agent report* is an observation of an agent
or of a proxy.
"""


def page() -> str:
    """The page of all lifecycles."""
    serving = [_section(DEPLOYMENT), _section(REPLICA), _section(ROLLOUT), _section(ROUTE)]
    return "\n".join([INTRODUCTION, _section(SESSION), _section(KERNEL), _section(AGENT), *serving])


def _section(table: TransitionTable[S, T]) -> str:
    return "\n".join(
        [f"## {table.name.capitalize()}\n", *_diagram(table), "", *_rows(table), "", *_deadlines(table), ""]
    )


def _diagram(table: TransitionTable[S, T]) -> Iterator[str]:
    yield from ("```mermaid", "stateDiagram-v2", f"    [*] --> {table.initial.name}")
    for before in table.states:
        for after in table.states:
            triggers = [m.trigger.name for m in table.moves if m.before == before and m.after == after]
            if triggers:
                yield f"    {before.name} --> {after.name}: {' / '.join(triggers)}"
    for state in table.states:
        if state in table.terminal:
            yield f"    {state.name} --> [*]"
    yield "```"


def _rows(table: TransitionTable[S, T]) -> Iterator[str]:
    yield from ("| State | Trigger | Next state | By |", "|---|---|---|---|")
    for move in table.moves:
        causes = ", ".join(cause.value.replace("_", " ") for cause in Cause if cause in move.causes)
        yield f"| {move.before.name} | {move.trigger.name} | {move.after.name} | {causes} |"


def _deadlines(table: TransitionTable[S, T]) -> Iterator[str]:
    yield from ("| State | Kind | Deadline | On expiry |", "|---|---|---|---|")
    for state in table.states:
        yield f"| {state.name} | {_kind(table, state)} | {' | '.join(_deadline(table, state))} |"


def _kind(table: TransitionTable[S, T], state: S) -> str:
    if state in table.terminal:
        return "final"
    return "transient" if state in table.transient else "steady"


def _deadline(table: TransitionTable[S, T], state: S) -> tuple[str, str]:
    deadline = table.deadlines.get(state)
    if deadline is None:
        return "none", "none"
    limit = f"{deadline.seconds} s" if deadline.seconds is not None else f"none unless {deadline.set_by} says so"
    return limit, f"{deadline.on_expiry.name} → {table.expiry(state).after.name}"
