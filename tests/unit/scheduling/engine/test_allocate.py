"""The action allocate: serves queues one session at a time."""

from __future__ import annotations

import pytest

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.queue import QueueState
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.session import Partition
from sokovan.scheduling.extensions import QueueView, SchedulingPlugin
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.snapshot import KernelWorkload, Reservation, SessionWorkload
from tests.unit.scheduling.engine.builders import (
    agent,
    agents,
    code,
    gang,
    hard,
    kernel,
    limited,
    owner,
    placed,
    planned,
    queue,
    rack,
    reserved,
    seats,
    session,
    snapshot,
)


def order(plan: SchedulingPlan) -> list[str]:
    """The sessions in the order in which their kernels were placed."""
    return [placement.session_id for placement in plan.placements]


def text(plan: SchedulingPlan, name: str) -> str:
    return plan.trace[SessionId(name)].summary


# Gangs and growth


def test_a_gang_waits_whole_rather_than_starting_in_part_and_blocks_no_other() -> None:
    plan = planned(
        snapshot(agents(2, "cpu=2"), gang("huge", 3, "cpu=2"), gang("gang", 3, "cpu=1"), gang("small", 1, "cpu=1"))
    )
    assert placed(plan) == {"gang": 3, "small": 1}


def test_after_its_minimum_a_session_grows_one_kernel_at_a_time_between_the_others() -> None:
    given = snapshot(
        agents(1, "cpu=8"),
        gang("elastic", 5, "cpu=1", min_kernels=2, queue="x"),
        gang("other", 5, "cpu=1", min_kernels=1, queue="y"),
        queues=(queue("x", deserved="cpu=4"), queue("y", deserved="cpu=4")),
    )
    assert order(planned(given)) == ["elastic", "elastic", "other", "other", "elastic", "other", "elastic", "other"]


def test_a_session_that_lacks_its_minimum_goes_before_one_that_only_grows() -> None:
    given = snapshot(agents(1, "cpu=4"), gang("grows", 5, "cpu=1", min_kernels=1), gang("starts", 2, "cpu=1"))
    assert order(planned(given)) == ["grows", "starts", "starts", "grows"]


def test_a_session_that_runs_already_grows_too() -> None:
    work = session("s", kernel("r", "cpu=1", at="a0"), *gang("s", 2, "cpu=1").kernels, min_kernels=1)
    assert list(seats(planned(snapshot([agent("a0", "cpu=2", used="cpu=1")], work)))) == ["s-0"]


def test_a_kernel_that_fits_nowhere_does_not_keep_the_others_of_a_session_from_growing() -> None:
    kernels = (kernel("large", "cpu=8"), *gang("s", 2, "cpu=1").kernels)
    plan = planned(snapshot([agent("a0", "cpu=16", used="cpu=10")], session("s", *kernels, min_kernels=1)))
    assert list(seats(plan)) == ["s-0", "s-1"]


def test_group_minimums_bound_what_starts_together() -> None:
    kernels = [kernel("m", "cpu=2", group="master"), *(kernel(f"w{i}", "cpu=1", group="worker") for i in range(3))]
    work = session("s", *kernels, min_kernels=2, group_minimums={"master": 1, "worker": 2})
    assert planned(snapshot(agents(1, "cpu=3"), work)).placements == ()
    assert list(seats(planned(snapshot(agents(1, "cpu=4"), work)))) == ["m", "w0", "w1"]


def two_groups() -> SessionWorkload:
    kernels = [kernel(f"{group}{index}", "cpu=1", group=group) for group in "ab" for index in range(6)]
    return session("s", *kernels, min_kernels=3, group_minimums={"a": 1, "b": 1})


def test_one_group_does_not_take_the_room_that_another_needs_to_be_ready() -> None:
    assert placed(planned(snapshot(agents(4, "cpu=1"), two_groups()))).get("s", 0) >= 3


def test_a_session_with_group_minimums_takes_no_more_than_its_minimum_before_others_were_tried() -> None:
    plan = planned(snapshot(agents(1, "cpu=8"), two_groups(), gang("t", 1, "cpu=2")))
    assert placed(plan).get("t") == 1


# Order


def test_priority_comes_before_age() -> None:
    given = snapshot(agents(1, "cpu=1"), gang("old", 1, "cpu=1"), gang("urgent", 1, "cpu=1", priority=1))
    assert order(planned(given)) == ["urgent"]


def test_users_alternate_by_dominant_share() -> None:
    sessions = [
        gang(f"{user}{index}", 1, "cpu=1", owner=owner(user)) for user in ("alice", "bob") for index in range(3)
    ]
    plan = planned(snapshot(agents(1, "cpu=4"), *sessions), sequencer="drf")
    assert order(plan) == ["alice0", "bob0", "alice1", "bob1"]


def test_the_queue_with_the_smallest_share_is_served_and_put_back() -> None:
    sessions = [gang(f"{name}{index}", 1, "cpu=1", queue=name) for name in "xy" for index in range(4)]
    given = snapshot(agents(1, "cpu=4"), *sessions, queues=(queue("x", weight=3), queue("y")))
    assert order(planned(given, queue_policy="proportion")) == ["x0", "y0", "x1", "x2"]


def test_an_overused_queue_gets_nothing_and_its_sessions_get_the_reason() -> None:
    given = snapshot(
        agents(1, "cpu=4"), gang("x", 9, "cpu=1", queue="x", min_kernels=1), gang("y", 2, "cpu=1", queue="y")
    )
    plan = planned(given, queue_policy="proportion")
    assert placed(plan) == {"x": 2, "y": 2}
    assert text(plan, "x").endswith("7 wait: queue x has all of its deserved share")


def test_a_closed_queue_takes_nothing_from_the_share_of_others() -> None:
    given = snapshot(
        agents(1, "cpu=8"),
        gang("x", 8, "cpu=1", queue="closed", min_kernels=1),
        gang("y", 8, "cpu=1", queue="open", min_kernels=1),
        queues=(queue("closed", state=QueueState.CLOSED), queue("open")),
    )
    assert placed(planned(given, queue_policy="proportion")) == {"y": 8}


# Limits of owners


def test_two_sessions_of_one_owner_cannot_pass_a_limit_together() -> None:
    sessions = [gang(name, 1, "cpu=2", owner=owner("alice")) for name in ("s", "t")]
    plan = planned(snapshot(agents(2, "cpu=8"), *sessions, limits=limited("alice", slots_max="cpu=3")))
    assert placed(plan) == {"s": 1}
    assert code(plan, "t") == "QUOTA_KEYPAIR"


def test_a_session_that_starts_makes_room_in_the_backlog_of_its_keypair() -> None:
    sessions = [gang(name, 1, "cpu=1", owner=owner("alice")) for name in ("s", "t", "u")]
    plan = planned(snapshot(agents(1, "cpu=2"), *sessions, limits=limited("alice", pending_sessions_max=1)))
    assert placed(plan) == {"s": 1, "t": 1}


def test_growth_stops_at_the_limit_of_the_owner() -> None:
    given = snapshot(
        agents(1, "cpu=8"),
        gang("s", 8, "cpu=1", min_kernels=1, owner=owner("alice")),
        limits=limited("alice", slots_max="cpu=3"),
    )
    assert placed(planned(given)) == {"s": 3}


def test_an_attempt_that_takes_other_kernels_than_expected_is_checked_again() -> None:
    work = session(
        "s",
        kernel("nowhere", "cpu=1", require={"zone": "east"}, priority=1),
        kernel("large", "cpu=1 mem=4Gi"),
        min_kernels=1,
        owner=owner("alice"),
    )
    given = snapshot(
        [agent("a", "cpu=8 mem=8Gi"), agent("b", "cpu=1", used="cpu=1", labels={"zone": "east"})], work,
        limits=limited("alice", slots_max="mem=2Gi"),
    )  # fmt: skip
    plan = planned(given)
    assert plan.placements == ()
    assert code(plan, "s") == "QUOTA_KEYPAIR"


def test_a_group_minimum_above_the_minimum_cannot_pass_a_limit() -> None:
    kernels = [kernel(f"k{index}", "cpu=1", group="w") for index in range(4)]
    work = session("s", *kernels, min_kernels=1, group_minimums={"w": 4}, owner=owner("alice"))
    plan = planned(snapshot(agents(1, "cpu=8"), work, limits=limited("alice", slots_max="cpu=2")))
    assert plan.placements == ()


def test_a_kernel_group_larger_than_the_minimum_cannot_pass_a_limit() -> None:
    kernels = [kernel(f"k{index}", "cpu=1", labels={"pod": "x"}) for index in range(4)]
    pods = (Partition("pods", "pod", size=4, min_groups=1),)
    work = session("s", *kernels, min_kernels=1, partitions=pods, owner=owner("alice"))
    plan = planned(snapshot(agents(1, "cpu=8"), work, limits=limited("alice", slots_max="cpu=2")))
    assert plan.placements == ()


# Reservations


def leaving(name: str = "a0", slots: str = "cpu=4") -> AgentInfo:
    return agent(name, slots, used=slots, leaving=slots)


def test_a_session_that_fits_only_on_what_is_released_starts_nothing_and_holds_its_room() -> None:
    plan = planned(snapshot([leaving(), agent("a1", "cpu=1")], gang("s", 3, "cpu=1")))
    assert plan.placements == ()
    assert reserved(plan) == {"s": [("s-0", "a1"), ("s-1", "a0"), ("s-2", "a0")]}
    assert code(plan, "s") == "RESERVED"


def test_what_is_held_is_not_given_to_a_session_that_comes_later() -> None:
    half = agent("a0", "cpu=4", used="cpu=2", leaving="cpu=2")
    plan = planned(
        snapshot(
            [half, agent("a1", "cpu=4", used="cpu=4")],
            gang("large", 1, "cpu=3"),
            gang("small", 1, "cpu=2"),
            gang("tiny", 1, "cpu=1"),
        )
    )
    assert reserved(plan) == {"large": [("large-0", "a0")]}
    assert seats(plan) == {"tiny-0": "a0"}


def test_a_kernel_never_waits_while_some_agent_has_room_now() -> None:
    plan = planned(snapshot([leaving(), agent("a1", "cpu=1")], gang("s", 1, "cpu=1")))
    assert (seats(plan), reserved(plan)) == ({"s-0": "a1"}, {})


def test_a_session_that_grows_starts_what_fits_and_waits_for_the_rest() -> None:
    plan = planned(snapshot([leaving(slots="cpu=1"), agent("a1", "cpu=1")], gang("s", 2, "cpu=1", min_kernels=1)))
    assert (seats(plan), reserved(plan)) == ({"s-0": "a1"}, {"s": [("s-1", "a0")]})


def test_reservations_of_an_earlier_cycle_are_served_first_and_where_they_were_promised() -> None:
    held = Reservation(SessionId("reserved"), ((KernelId("reserved-0"), AgentId("a1")),))
    sessions = (gang("older", 1, "cpu=2", priority=9), gang("reserved", 1, "cpu=2"))
    plan = planned(
        snapshot([agent("a0", "cpu=2", used="cpu=2"), agent("a1", "cpu=2")], *sessions, reservations=(held,))
    )
    assert seats(plan) == {"reserved-0": "a1"}


def waiting_reservation(*others: SessionWorkload) -> SchedulingPlan:
    """The plan where a gang holds the idle a0 and waits for what is released on a1."""
    held = Reservation(SessionId("gang"), ((KernelId("gang-0"), AgentId("a0")), (KernelId("gang-1"), AgentId("a1"))))
    hosts = [agent("a0", "cpu=4"), agent("a1", "cpu=4", used="cpu=4", leaving="cpu=4")]
    return planned(snapshot(hosts, gang("gang", 2, "cpu=3", priority=5), *others, reservations=(held,)))


def test_a_reservation_that_still_waits_yields_its_idle_part_to_work_of_higher_priority() -> None:
    plan = waiting_reservation(gang("urgent", 1, "cpu=4", priority=6))
    assert (seats(plan), reserved(plan)) == ({"urgent-0": "a0"}, {})
    assert code(plan, "gang") == "NOT_ENOUGH_FREE"


def test_a_reservation_is_planned_anew_beside_the_work_that_it_yielded_to() -> None:
    plan = waiting_reservation(gang("urgent", 1, "cpu=1", priority=6))
    assert seats(plan) == {"urgent-0": "a0"}
    assert reserved(plan) == {"gang": [("gang-0", "a0"), ("gang-1", "a1")]}


@pytest.mark.parametrize("priority", [5, 0])
def test_a_reservation_that_still_waits_keeps_its_room_from_other_work(priority: int) -> None:
    plan = waiting_reservation(gang("other", 1, "cpu=2", priority=priority))
    assert seats(plan) == {}
    assert reserved(plan) == {"gang": [("gang-0", "a0"), ("gang-1", "a1")]}
    assert code(plan, "other") == "RESERVED_FOR_GANG"
    assert text(plan, "other") == "the room for cpu=2 on a0 is reserved for a session ahead"


def test_a_reservation_that_cannot_be_kept_where_it_was_is_kept_elsewhere() -> None:
    held = Reservation(SessionId("s"), ((KernelId("s-0"), AgentId("gone")),))
    assert seats(planned(snapshot(agents(1, "cpu=2"), gang("s", 1, "cpu=2"), reservations=(held,)))) == {"s-0": "a0"}


def test_a_session_with_a_reserved_minimum_grows_in_order_with_the_others() -> None:
    held = Reservation(SessionId("s"), ((KernelId("s-0"), AgentId("a0")),))
    given = snapshot(
        agents(1, "cpu=3"), gang("t", 1, "cpu=1"), gang("s", 3, "cpu=1", min_kernels=1), reservations=(held,)
    )
    assert order(planned(given)) == ["s", "t", "s"]


@pytest.mark.parametrize("policy", ["proportion", "capacity"])
def test_a_full_cluster_that_is_being_freed_is_promised_to_the_next_session(policy: str) -> None:
    ends = session("ends", kernel("e", "cpu=4", at="a0", releasing=True))
    plan = planned(snapshot([leaving()], ends, gang("next", 1, "cpu=4")), queue_policy=policy)
    assert reserved(plan) == {"next": [("next-0", "a0")]}


# Domains, plugins, and the plan


def test_the_domain_of_a_session_with_a_topology_is_recorded() -> None:
    racks = (rack("r1", "a0", "a1"), rack("r2", "a2"))
    given = snapshot(
        agents(3, "cpu=1"), gang("close", 2, "cpu=1", topology=hard(1)), gang("free", 1, "cpu=1"), hypernodes=racks
    )
    assert planned(given).domains == {"close": "r1"}


class Odd(SchedulingPlugin):
    name = "odd"

    def overused(self, queue: QueueView) -> bool:
        if queue.name == "breaks":
            raise ValueError("oh")
        return queue.name == "over"

    def predicate(self, kernel: KernelWorkload, agent: AgentInfo) -> bool:
        del agent
        if kernel.group == "breaks":
            raise KeyError("ah")
        return True


def test_a_plugin_may_end_the_cycle_for_a_queue_and_one_that_fails_is_isolated() -> None:
    given = snapshot(
        agents(1, "cpu=8"),
        *(gang(name, 1, "cpu=1", queue=name) for name in ("over", "breaks", "fine")),
        session("half", kernel("h0", "cpu=1"), kernel("h1", "cpu=1", group="breaks"), queue="fine"),
    )
    plan = planned(given, Odd())
    assert placed(plan) == {"fine": 1}
    assert [code(plan, name) for name in ("over", "breaks", "half")] == [
        "REFUSED_BY_PLUGIN",
        "PLUGIN_FAILED",
        "PLUGIN_FAILED",
    ]
    assert text(plan, "breaks") == "plugin odd failed in overused: ValueError: oh"
    assert text(plan, "half") == "plugin odd failed in predicate: KeyError: 'ah'"


class NotTheSecond(SchedulingPlugin):
    name = "not-the-second"

    def pre_predicate(self, session: SessionWorkload, kernel: KernelWorkload) -> str | None:
        del session
        return "not the second" if kernel.kernel_id == "s-1" else None


def test_a_kernel_that_a_plugin_keeps_back_does_not_start_with_its_equals() -> None:
    assert planned(snapshot(agents(1, "cpu=8"), gang("s", 2, "cpu=1")), NotTheSecond()).placements == ()


def test_a_kernel_that_a_plugin_keeps_back_does_not_keep_its_equals_back() -> None:
    plan = planned(snapshot(agents(1, "cpu=8"), gang("s", 3, "cpu=1", min_kernels=1)), NotTheSecond())
    assert list(seats(plan)) == ["s-0", "s-2"]


@pytest.mark.slow
def test_nothing_depends_on_the_cache_of_shapes_that_do_not_fit() -> None:
    sessions = [gang(f"s{index}", 1 + index % 3, f"cpu={1 + index % 4}", min_kernels=1) for index in range(12)]
    given = snapshot([agent("a0", "cpu=5"), agent("a1", "cpu=4", used="cpu=1"), leaving("a2")], *sessions)
    with_cache, without = planned(given), planned(given, fit_error_cache=False)
    assert with_cache.placements == without.placements
    assert with_cache.reservations == without.reservations
