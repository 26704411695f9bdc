"""Where scheduler and reference are known to differ: each a rule on which they have yet to agree.

A cluster on which the two decide differently is passed over if one of these may be
the cause. An entry goes when the scheduler follows the rule that is its name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

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


def _passes_over_kernels(snapshot: SystemSnapshot, profile: SchedulingProfile) -> bool:
    del profile
    return bool(snapshot.limits) and any(s.gang_size < len(s.kernels) for s in snapshot.sessions)


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


def _cache_speaks(snapshot: SystemSnapshot, profile: SchedulingProfile) -> bool:
    """The cache of fit errors changes a code, though nothing else."""
    plans = [schedule(snapshot, replace(profile, fit_error_cache=cached)) for cached in (False, True)]
    codes = [[verdict.code for verdict in plan.verdicts] for plan in plans]
    return plans[0].placements == plans[1].placements and codes[0] != codes[1]


OPEN_DIFFERENCES: dict[str, Difference] = {
    "a session that lacks the minimum of a group is not growing yet": _lacks_a_group,
    "a kernel that best-effort ones did without stays in line": _relies_on_best_effort,
    "limits hold for all that a turn takes, though some kernels were passed over": _passes_over_kernels,
    "the first objection in the order of the profile gives the code": _refused_twice,
    "where there is no plugin, none is to blame": _blames_a_plugin,
    "a queue that refuses gives the code, whatever the cache of fit errors holds": _cache_speaks,
    "of sessions with a reservation the more important goes first": _promised_out_of_order,
}
