"""The state that a scheduling cycle carries to the next one of its scaling group.

The store and the simulator both merge plans by `CarriedState.after`.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field

from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.snapshot import Reservation


@dataclass(frozen=True, slots=True)
class CarriedState:
    """Reservations of waiting sessions, and cursors of selectors by name."""

    reservations: tuple[Reservation, ...] = ()
    cursors: Mapping[str, AgentId] = field(default_factory=dict)

    def after(self, plan: SchedulingPlan) -> CarriedState:
        """The state after a cycle with this plan.

        A plan has all reservations that remain, but only the cursors that moved. Sessions that
        move hold the places that they move to.
        """
        return CarriedState((*plan.reservations, *moved_to(plan)), {**self.cursors, **plan.cursors})

    def is_like(self, other: CarriedState) -> bool:
        """Whether both are the same but for the times from which room is held.

        Those move as long as a session is starting; cycles read only whether there is one.
        """
        return self.cursors == other.cursors and _untimed(self) == _untimed(other)

    def reserved_for(self, sessions: Container[SessionId]) -> tuple[Reservation, ...]:
        """The reservations of these sessions; those of ended ones are void."""
        return tuple(one for one in self.reservations if one.session_id in sessions)


def moved_to(plan: SchedulingPlan) -> Iterator[Reservation]:
    """The places of sessions that move, by session."""
    places: dict[SessionId, list[tuple[KernelId, AgentId]]] = {}
    for move in plan.moves:
        places.setdefault(move.session_id, []).append((move.kernel_id, move.agent_id))
    return (Reservation(session, tuple(pairs)) for session, pairs in places.items())


def _untimed(state: CarriedState) -> list[tuple[SessionId, tuple[tuple[KernelId, AgentId], ...], bool]]:
    return [(one.session_id, one.kernels, one.starts_ms is None) for one in state.reservations]
