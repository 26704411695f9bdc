"""Reading a transition table, and a drawing of it, as arrows between states."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from sokovan.domain.lifecycle.transition_table import Cause, TransitionTable

Table = TransitionTable[Any, Any]


def arrows(table: Table) -> set[str]:
    """Where single rows lead, as `before -> after`."""
    return {f"{move.before} -> {move.after}" for move in table.moves}


def drawn(text: str) -> set[str]:
    """The arrows of a drawing with one chain a line: `A -> B -> C` is two arrows."""
    chains = [line.lower().split(" -> ") for line in text.split("\n") if line.strip()]
    return {f"{before.strip()} -> {after.strip()}" for chain in chains for before, after in pairwise(chain)}


def entrances(table: Table, state: str) -> set[str]:
    """The states from which some row leads to `state`."""
    return {str(move.before) for move in table.moves if move.after == state}


def causes(table: Table, trigger: str) -> set[Cause]:
    """Who may pull a trigger, in any state."""
    return {cause for move in table.moves if move.trigger == trigger for cause in move.causes}


def limits(table: Table) -> dict[str, tuple[int | None, str]]:
    """How many seconds each state may last, and where it goes then."""
    return {
        str(state): (deadline.seconds, str(table.expiry(state).after)) for state, deadline in table.deadlines.items()
    }
