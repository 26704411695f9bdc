"""Where scheduler and reference are known to differ: each a rule on which they have yet to agree.

A cluster on which the two decide differently is passed over if one of these may be
the cause. An entry goes when the scheduler follows the rule that is its name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby

from sokovan.domain.policy import Scope
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload, SystemSnapshot
from tests.reference.machines import kind_of, largest_amounts
from tests.reference.queues import Queues
from tests.reference.work import Work

Difference = Callable[[SystemSnapshot, SchedulingProfile], bool]


def waiting_of(session: SessionWorkload) -> list[KernelWorkload]:
    """The kernels that wait for a place and ask for something."""
    return [kernel for kernel in session.kernels if kernel.agent is None and kernel.slots]


def bare_of(session: SessionWorkload) -> list[KernelWorkload]:
    """The kernels that wait for a place and ask for nothing."""
    return [kernel for kernel in session.kernels if kernel.agent is None and not kernel.slots]


def _grows_unevenly(snapshot: SystemSnapshot, profile: SchedulingProfile) -> bool:
    del profile
    return any(
        len({kind_of(kernel) for kernel in waiting_of(session)}) > 1 and session.gang_size < len(session.kernels)
        for session in snapshot.sessions
    )


def _takes_more_than_it_says(snapshot: SystemSnapshot, profile: SchedulingProfile) -> bool:
    del profile
    return bool(snapshot.limits) and any(s.group_minimums or s.partitions for s in snapshot.sessions)


def _leaves(snapshot: SystemSnapshot, profile: SchedulingProfile) -> bool:
    del profile
    return any(kernel.releasing for session in snapshot.sessions for kernel in session.kernels)


def _fills_a_part(snapshot: SystemSnapshot, profile: SchedulingProfile) -> bool:
    return "backfill" in profile.actions and any(bare_of(s) and waiting_of(s) for s in snapshot.sessions)


def _asks_for_nothing(snapshot: SystemSnapshot, profile: SchedulingProfile) -> bool:
    return "backfill" in profile.actions and any(
        bare_of(s) and not waiting_of(s) and (s.dependencies or s.starts_at_ms or snapshot.limits.get(Scope.KEYPAIR))
        for s in snapshot.sessions
    )


def _overcommitted(snapshot: SystemSnapshot, profile: SchedulingProfile) -> bool:
    return profile.selector == "concentrated" and any(
        not info.occupied_slots.fits(info.available_slots) for info in snapshot.agents
    )


def _demands_in_vain(snapshot: SystemSnapshot, profile: SchedulingProfile) -> bool:
    queues = Queues(snapshot, profile)
    return profile.queue_policy == "proportion" and any(
        waiting_of(session) and queues.problem(session.queue) for session in snapshot.sessions
    )


def _kinds_apart(snapshot: SystemSnapshot, profile: SchedulingProfile) -> bool:
    """Kernels of one kind that do not stand next to each other in the order of placement."""
    del profile
    promised = {kernel for reservation in snapshot.reservations for kernel, _ in reservation.kernels}
    largest = largest_amounts(snapshot.agents)
    for session in snapshot.sessions:
        work = Work(session, largest, 0)
        marks: Sequence[tuple[object, ...]] = [
            (kind_of(k), k.group, work.group_of(k), k.kernel_id if k.nominated or k.kernel_id in promised else "")
            for k in work.waiting
        ]
        if len(list(groupby(marks))) > len({kind_of(kernel) for kernel in work.waiting}):
            return True
    return False


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
    "a growing session passes over a kernel that does not fit": _grows_unevenly,
    "a session that lacks the minimum of a group is not growing yet": _lacks_a_group,
    "limits are checked on all kernels that a turn takes": _takes_more_than_it_says,
    "a kernel on its way out no longer counts as used by its queue": _leaves,
    "backfill starts no part of a gang": _fills_a_part,
    "backfill asks the validators": _asks_for_nothing,
    "an agent beyond its capacity is as full as can be, not more": _overcommitted,
    "work that its queue cannot run claims no share": _demands_in_vain,
    "a session never fits if all its kernels of one kind together do not": _kinds_apart,
    "the first objection in the order of the profile gives the code": _refused_twice,
    "a queue that refuses gives the code, whatever the cache of fit errors holds": _cache_speaks,
    "of sessions with a reservation the more important goes first": _promised_out_of_order,
}
