"""The scheduler and the reference scheduler agree on random small clusters."""

from __future__ import annotations

import pytest
from hypothesis import given

from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.snapshot import SystemSnapshot
from sokovan.scheduling.trace import Code
from tests.reference.clusters import ACTIONS, SELECTORS, SEQUENCERS, clusters, profiles
from tests.reference.scheduler import Decision, reference_schedule
from tests.reference.themes import Theme
from tests.reference.timing import booking_evictions

BOTH = ("proportion", "capacity")

PLAIN = Theme(picky=True, mixed=True, busy=True, policies=BOTH)
GANGS = Theme(mixed=True, elastic=True, groups=True, busy=True, running=True, best_effort=True, actions=ACTIONS)
QUOTAS = Theme(limits=True, arrays=True, owners=2, mixed=True, elastic=True, groups=True, running=True, agents=4)
QUEUES = Theme(queues=4, arrays=True, policies=BOTH, elastic=True, running=True, agents=5, actions=ACTIONS)
TOPOLOGY = Theme(tiers=2, mixed=True, elastic=True, running=True, busy=True, groups=True)
PARTITIONS = Theme(tiers=2, partitions=True, groups=True, mixed=True, elastic=True, running=True, busy=True)
RESERVATIONS = Theme(
    releasing=True, busy=True, promised=True, nominated=True, mixed=True, elastic=True, running=True, tiers=1,
    partitions=True, policies=BOTH,
)  # fmt: skip
SHARDS = Theme(shards=True, picky=True, busy=True, releasing=True, selectors=SELECTORS)
CHOICE = Theme(selectors=SELECTORS, busy=True, releasing=True, mixed=True, nominated=True, overcommitted=True)
ORDER = Theme(sequencers=SEQUENCERS, owners=3, elastic=True, mixed=True, queues=2, policies=BOTH, agents=5)
WIDE = Theme(kernels=45, sessions=3, selectors=SELECTORS, elastic=True, busy=True, releasing=True, tiers=1)
CONSTRAINTS = Theme(
    constrained=True, tiers=2, busy=True, running=True, elastic=True, mixed=True, best_effort=True, releasing=True,
    nominated=True, selectors=SELECTORS, actions=ACTIONS,
)  # fmt: skip
WIDE_CONSTRAINTS = Theme(constrained=True, kernels=45, sessions=3, selectors=SELECTORS, elastic=True, tiers=1)
TIME = Theme(timed=True, owners=2, busy=True, running=True, elastic=True, agents=5, sessions=9)
LOANS = Theme(loans=True, kernels=1, queues=3, policies=BOTH, running=True, agents=4, sessions=10)
EVERYTHING = Theme(
    busy=True, releasing=True, picky=True, mixed=True, elastic=True, groups=True, partitions=True, running=True,
    constrained=True, best_effort=True, nominated=True, promised=True, tiers=2, queues=3, limits=True, arrays=True,
    shards=True, owners=3, selectors=SELECTORS, sequencers=SEQUENCERS, policies=BOTH, actions=ACTIONS,
)  # fmt: skip


def decided(snapshot: SystemSnapshot, profile: SchedulingProfile) -> Decision:
    """The plan of the scheduler as a decision of the reference."""
    plan = schedule(snapshot, profile)
    return Decision(
        [(str(placement.kernel_id), str(placement.agent_id)) for placement in plan.placements],
        {str(r.session_id): [(str(k), str(agent)) for k, agent in r.kernels] for r in plan.reservations},
        {str(v.session_id): v.code for v in plan.verdicts if v.code not in {Code.PLACED, Code.RESERVED}},
        {str(r.session_id): r.starts_ms for r in plan.reservations if r.starts_ms is not None},
        {str(session): str(lender) for session, lender in plan.loans.items()},
    )


def blurred(decision: Decision, expected: Decision) -> Decision:
    """A decision without the codes that the reference leaves open."""
    codes = {name: code if expected.pending.get(name) else None for name, code in decision.pending.items()}
    return decision._replace(pending=codes)


def check(snapshot: SystemSnapshot, profile: SchedulingProfile) -> None:
    """Check that both schedulers place, reserve and refuse alike."""
    expected = reference_schedule(snapshot, profile)
    found = blurred(decided(snapshot, profile), expected)
    assert found.placements == expected.placements
    assert found.reservations == expected.reservations
    assert found.pending == expected.pending
    assert found.starts == expected.starts
    assert found.loans == expected.loans


def left_for_bookings(snapshot: SystemSnapshot, profile: SchedulingProfile) -> set[tuple[str, str]]:
    """The kernels that the scheduler evicts for bookings."""
    plan = schedule(snapshot, profile)
    return {(str(one.kernel_id), one.for_booking) for one in plan.evictions if one.for_booking}


@pytest.mark.slow
@given(clusters(PLAIN), profiles(PLAIN))
def test_kernels_go_where_predicates_and_room_allow(snapshot: SystemSnapshot, profile: SchedulingProfile) -> None:
    check(snapshot, profile)


@given(clusters(GANGS), profiles(GANGS))
def test_gangs_start_whole_and_grow_one_kernel_at_a_time(snapshot: SystemSnapshot, profile: SchedulingProfile) -> None:
    check(snapshot, profile)


@given(clusters(QUOTAS), profiles(QUOTAS))
def test_validators_see_what_was_placed_before(snapshot: SystemSnapshot, profile: SchedulingProfile) -> None:
    check(snapshot, profile)


@given(clusters(QUEUES), profiles(QUEUES))
def test_queues_are_served_by_share_and_kept_to_their_limits(
    snapshot: SystemSnapshot, profile: SchedulingProfile
) -> None:
    check(snapshot, profile)


@pytest.mark.slow
@given(clusters(TOPOLOGY), profiles(TOPOLOGY))
def test_sessions_keep_their_topology(snapshot: SystemSnapshot, profile: SchedulingProfile) -> None:
    check(snapshot, profile)


@pytest.mark.slow
@given(clusters(PARTITIONS), profiles(PARTITIONS))
def test_kernel_groups_find_domains_of_their_own(snapshot: SystemSnapshot, profile: SchedulingProfile) -> None:
    check(snapshot, profile)


@given(clusters(RESERVATIONS), profiles(RESERVATIONS))
def test_room_that_is_being_released_is_reserved_alike(snapshot: SystemSnapshot, profile: SchedulingProfile) -> None:
    check(snapshot, profile)


@given(clusters(SHARDS), profiles(SHARDS))
def test_the_own_shard_comes_first_or_alone(snapshot: SystemSnapshot, profile: SchedulingProfile) -> None:
    check(snapshot, profile)


@pytest.mark.slow
@given(clusters(CHOICE), profiles(CHOICE))
def test_every_selector_chooses_the_same_agents(snapshot: SystemSnapshot, profile: SchedulingProfile) -> None:
    check(snapshot, profile)


@given(clusters(ORDER), profiles(ORDER))
def test_every_sequencer_gives_the_same_order(snapshot: SystemSnapshot, profile: SchedulingProfile) -> None:
    check(snapshot, profile)


@given(clusters(CONSTRAINTS), profiles(CONSTRAINTS))
def test_taints_label_expressions_and_affinity_hold(snapshot: SystemSnapshot, profile: SchedulingProfile) -> None:
    check(snapshot, profile)


@given(clusters(WIDE_CONSTRAINTS), profiles(WIDE_CONSTRAINTS))
def test_affinity_holds_among_many_equal_kernels(snapshot: SystemSnapshot, profile: SchedulingProfile) -> None:
    check(snapshot, profile)


@given(clusters(WIDE), profiles(WIDE))
def test_many_equal_kernels_go_where_they_would_go_one_by_one(
    snapshot: SystemSnapshot, profile: SchedulingProfile
) -> None:
    check(snapshot, profile)


@pytest.mark.slow
@given(clusters(TIME), profiles(TIME))
def test_bookings_are_kept_free_and_room_is_held_from_the_earliest_time_on(
    snapshot: SystemSnapshot, profile: SchedulingProfile
) -> None:
    check(snapshot, profile)


@given(clusters(TIME), profiles(TIME))
def test_the_same_kernels_leave_for_bookings(snapshot: SystemSnapshot, profile: SchedulingProfile) -> None:
    assert left_for_bookings(snapshot, profile) == booking_evictions(snapshot)


@pytest.mark.slow
@given(clusters(LOANS), profiles(LOANS))
def test_what_a_queue_is_guaranteed_and_does_not_use_is_lent_alike(
    snapshot: SystemSnapshot, profile: SchedulingProfile
) -> None:
    check(snapshot, profile)


@pytest.mark.slow
@given(clusters(EVERYTHING), profiles(EVERYTHING))
def test_all_rules_together_give_the_same_plan(snapshot: SystemSnapshot, profile: SchedulingProfile) -> None:
    check(snapshot, profile)
