"""Whether a decision would be another one later, although nothing has changed.

A decision depends on its snapshot alone, and most of it does not depend on the time in it.
Where nothing does, the same decision need not be made again and again.
"""

from __future__ import annotations

from sokovan.domain.cluster.agent import FOREVER_MS
from sokovan.scheduling.engine.timing.booking_evictions import evictions_for_bookings
from sokovan.scheduling.engine.timing.calendar import blocks_of
from sokovan.scheduling.profile import EVICTING_ACTIONS, SchedulingProfile
from sokovan.scheduling.registry import BUILT_IN
from sokovan.scheduling.snapshot import SessionWorkload, SystemSnapshot

# The others order by usage that fades, or by the time that is left.
_TIMELESS_SEQUENCERS = frozenset({"fifo", "lifo", "drf"})


def depends_on_time(snapshot: SystemSnapshot, profile: SchedulingProfile) -> bool:
    """Whether the plan or a verdict may change while only time passes.

    Plugins of others may look at the time. Built-in rules do so for evictions and the
    back-off after one, bookings, time limits, deadlines, later starts, agents that a session
    avoids for a while, ports that are free again at a time, and reservations.
    """
    built_in = (
        not profile.plugins
        and profile.sequencer in _TIMELESS_SEQUENCERS
        and profile.selector in BUILT_IN.selectors
        and BUILT_IN.validators.keys() >= set(profile.validators)
        and not set(profile.actions) & set(EVICTING_ACTIONS)
    )
    return (
        not built_in
        or bool(snapshot.reservations)
        or blocks_of(snapshot, 1) > 0
        or any(until_ms != FOREVER_MS for agent in snapshot.agents for _, until_ms in agent.leased_ports)
        or any(map(_is_timed, snapshot.sessions))
    )


def leaves_at(snapshot: SystemSnapshot) -> int | None:
    """When the next session has to leave booked agents.

    The time of the snapshot if one has to now; None without one.
    """
    found = evictions_for_bookings(snapshot)
    return snapshot.now_ms if found.due else found.next_ms


def _is_timed(session: SessionWorkload) -> bool:
    if session.evictions_ms or session.starts_at_ms is not None or session.deadline_ms is not None:
        return True
    # All kernels that wait avoid the same agents; the first ones may run.
    return any(kernel.avoid for kernel in session.kernels if kernel.agent is None)
