"""Transition tables: rows, deadlines and lookups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Generic, TypeVar

from sokovan.domain.errors import ForbiddenCause, IllegalTransition, InvalidTable

S = TypeVar("S", bound=StrEnum)
T = TypeVar("T", bound=StrEnum)


class Cause(StrEnum):
    """The component that causes a transition."""

    CONTROLLER = auto()  # an API request: it marks, and executes nothing
    COORDINATOR = auto()  # the control loop, on a hint or after a period
    AGENT_REPORT = auto()  # a report of an agent or of the proxy's health check


CONTROLLER = frozenset({Cause.CONTROLLER})
COORDINATOR = frozenset({Cause.COORDINATOR})
REPORT = frozenset({Cause.AGENT_REPORT})


@dataclass(frozen=True, slots=True)
class Move(Generic[S, T]):
    """One row: in `before`, `trigger` by one of `causes` leads to `after`."""

    before: S
    trigger: T
    after: S
    causes: frozenset[Cause]


@dataclass(frozen=True, slots=True)
class Deadline(Generic[T]):
    """The maximum duration of a state, and the trigger that ends it."""

    seconds: int | None  # None: no limit unless a policy or the spec sets one
    on_expiry: T
    set_by: str = ""


class TransitionTable(Generic[S, T]):
    """Every legal transition of one lifecycle, as rows."""

    def __init__(
        self,
        name: str,
        *,
        initial: S,
        moves: Iterable[tuple[S, T, S, frozenset[Cause]]],
        deadlines: Mapping[S, Deadline[T]],
        transient: Iterable[S],
    ) -> None:
        self.name, self.initial = name, initial
        self.moves = tuple(Move(*row) for row in moves)
        self.deadlines = dict(deadlines)
        self.transient = frozenset(transient)
        self._by_key = {(move.before, move.trigger): move for move in self.moves}
        self.states: tuple[S, ...] = tuple(type(initial))  # in the order in which they are declared
        self.terminal = frozenset(self.states) - {move.before for move in self.moves}  # no row leaves these
        self._check()

    def move(self, before: S, trigger: T, *, by: Cause) -> Move[S, T]:
        """The row for this trigger. Raises IllegalTransition, ForbiddenCause."""
        move = self._by_key.get((before, trigger))
        if move is None:
            raise IllegalTransition(
                machine=self.name,
                state=before,
                trigger=trigger,
                legal=[t.value for t in self.legal_in(before)],
            )
        if by not in move.causes:
            raise ForbiddenCause(machine=self.name, trigger=trigger, cause=by, allowed=move.causes)
        return move

    def after(self, before: S, trigger: T, *, by: Cause) -> S:
        """The state that follows. Raises IllegalTransition, ForbiddenCause."""
        return self.move(before, trigger, by=by).after

    def legal_in(self, state: S) -> list[T]:
        """The triggers that are legal in `state`, in the order of the rows."""
        return [move.trigger for move in self.moves if move.before == state]

    def expiry(self, state: S) -> Move[S, T]:
        """The transition that ends an overdue `state`. Raises IllegalTransition."""
        deadline = self.deadlines.get(state)
        if deadline is None:
            raise IllegalTransition(machine=self.name, state=state, trigger="an expiry", legal=[])
        return self.move(state, deadline.on_expiry, by=Cause.COORDINATOR)

    def _check(self) -> None:
        """Reject an inconsistent table on import."""
        if len(self._by_key) != len(self.moves):
            keys = [(move.before, move.trigger) for move in self.moves]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise InvalidTable(machine=self.name, problem=f"has two rows for {twice[0]}, {twice[1]}")
        for state in self.transient:
            if state not in self.deadlines:
                raise InvalidTable(machine=self.name, problem=f"gives the transient state {state} no deadline")
        for state in self.deadlines:
            try:
                self.expiry(state)
            except (IllegalTransition, ForbiddenCause) as error:
                problem = f"cannot make the expiry transition of {state}: {error.message}"
                raise InvalidTable(machine=self.name, problem=problem) from error
