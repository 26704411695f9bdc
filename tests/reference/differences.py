"""Where scheduler and reference are known to differ: each a rule on which they have yet to agree.

A cluster on which the two decide differently is passed over if one of these may be
the cause. An entry goes when the scheduler follows the rule that is its name.
"""

from __future__ import annotations

from collections.abc import Callable

from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload, SystemSnapshot
from sokovan.scheduling.trace import Code
from tests.reference.machines import largest_amounts
from tests.reference.work import Work

Difference = Callable[[SystemSnapshot, SchedulingProfile], bool]


def waiting_of(session: SessionWorkload) -> list[KernelWorkload]:
    """The kernels that wait for a place and ask for something."""
    return [kernel for kernel in session.kernels if kernel.agent is None and kernel.slots]


def bare_of(session: SessionWorkload) -> list[KernelWorkload]:
    """The kernels that wait for a place and ask for nothing."""
    return [kernel for kernel in session.kernels if kernel.agent is None and not kernel.slots]


def _relies_on_best_effort(snapshot: SystemSnapshot, profile: SchedulingProfile) -> bool:
    del profile
    return any(bare_of(session) and waiting_of(session) for session in snapshot.sessions)


def _blames_a_plugin(snapshot: SystemSnapshot, profile: SchedulingProfile) -> bool:
    return any(verdict.code is Code.REFUSED_BY_PLUGIN for verdict in schedule(snapshot, profile).verdicts)


def _refused_twice(snapshot: SystemSnapshot, profile: SchedulingProfile) -> bool:
    del profile
    return bool(snapshot.limits) and any(s.dependencies or s.starts_at_ms for s in snapshot.sessions)


def _promised_out_of_order(snapshot: SystemSnapshot, profile: SchedulingProfile) -> bool:
    del profile
    promised = {reservation.session_id for reservation in snapshot.reservations}
    return len({s.priority for s in snapshot.sessions if s.session_id in promised}) > 1


def _lacks_a_group(snapshot: SystemSnapshot, profile: SchedulingProfile) -> bool:
    """A session that has its minimum, but not the minimum of one of its groups."""
    del profile
    largest = largest_amounts(snapshot.agents)
    works = [Work(session, largest, 0) for session in snapshot.sessions]
    return any(work.counted() >= work.minimum and not work.ready() for work in works)


OPEN_DIFFERENCES: dict[str, Difference] = {
    "a session that lacks the minimum of a group is not growing yet": _lacks_a_group,
    "a kernel that best-effort ones did without stays in line": _relies_on_best_effort,
    "the first objection in the order of the profile gives the code": _refused_twice,
    "where there is no plugin, none is to blame": _blames_a_plugin,
    "of sessions with a reservation the more important goes first": _promised_out_of_order,
}
