"""The action backfill: places best-effort kernels."""

from __future__ import annotations

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import ScalingGroupName, SessionId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.scheduling.extensions import SchedulingPlugin
from sokovan.scheduling.snapshot import KernelWorkload
from tests.unit.scheduling.engine.builders import (
    agent,
    agents,
    code,
    gang,
    kernel,
    limited,
    owner,
    placed,
    planned,
    reserved,
    seats,
    session,
    snapshot,
)


def test_a_kernel_without_a_request_is_placed_on_a_full_agent() -> None:
    plan = planned(snapshot([agent("a", "cpu=1", used="cpu=1")], gang("s", 1, "")))
    assert seats(plan) == {"s-0": "a"}


def test_only_backfill_places_it() -> None:
    plan = planned(snapshot(agents(1, "cpu=1"), gang("s", 1, "")), actions=("allocate",))
    assert plan.placements == ()
    assert code(plan, "s") == "BEST_EFFORT"


def test_status_architecture_labels_and_the_kernel_limit_still_exclude_an_agent() -> None:
    machines = [
        agent("draining", "cpu=1", labels={"zone": "east"}, status=AgentStatus.DRAINING),
        agent("other-architecture", "cpu=1", labels={"zone": "east"}, architecture="aarch64"),
        agent("other-zone", "cpu=1"),
        agent("no-place", "cpu=1", labels={"zone": "east"}, kernels_max=2, kernel_count=2),
        agent("place", "cpu=1", labels={"zone": "east"}, kernels_max=2, kernel_count=1),
    ]
    plan = planned(snapshot(machines, session("s", kernel("k", require={"zone": "east"}))))
    assert seats(plan) == {"k": "place"}


def test_accelerators_are_left_alone_while_other_agents_have_a_place() -> None:
    machines = [agent("gpu", "cpu=1 cuda.device=1"), agent("plain", "cpu=1", kernels_max=1)]
    plan = planned(snapshot(machines, session("s", kernel("k0"), kernel("k1"), min_kernels=1)))
    assert seats(plan) == {"k0": "plain", "k1": "gpu"}


def test_sessions_go_by_priority_and_age_and_kernels_by_priority() -> None:
    two_places = [agent("a", "cpu=1", kernels_max=3)]
    plan = planned(
        snapshot(
            two_places,
            session("old", kernel("old-0"), kernel("old-1", priority=1), kernel("old-2"), min_kernels=1),
            session("urgent", kernel("urgent-0"), priority=5),
        )
    )
    assert list(seats(plan)) == ["urgent-0", "old-1", "old-0"]


def test_one_that_finds_no_place_does_not_stop_the_next() -> None:
    given = snapshot(agents(1, "cpu=1"), session("s", kernel("k", architecture="riscv64")), gang("t", 1, ""))
    plan = planned(given)
    assert placed(plan) == {"t": 1}
    assert code(plan, "s") == "NO_ARCH_MATCH"


def test_a_session_is_whole_with_kernels_of_both_kinds() -> None:
    plan = planned(snapshot(agents(1, "cpu=4"), session("s", kernel("asks", "cpu=4"), kernel("asks-nothing"))))
    assert list(seats(plan)) == ["asks", "asks-nothing"]
    assert plan.trace[SessionId("s")].summary.startswith("2 of 2 kernels placed")


def test_a_nominated_agent_is_tried_first() -> None:
    plan = planned(snapshot(agents(3, "cpu=1"), session("s", kernel("k", nominated="a2"))))
    assert seats(plan) == {"k": "a2"}


def test_the_kernels_of_a_session_that_may_not_be_considered_are_not_placed_either() -> None:
    work = session("s", kernel("never", "cpu=99"), kernel("bare"))
    plan = planned(snapshot(agents(1, "cpu=1"), work))
    assert plan.placements == ()
    assert code(plan, "s") == "NEVER_FITS"


class Broken(SchedulingPlugin):
    name = "broken"

    def predicate(self, kernel: KernelWorkload, agent: AgentInfo) -> bool:
        del agent
        if kernel.kernel_id == "s-0":
            raise ValueError("oh")
        return True


def test_a_plugin_that_fails_is_named_and_the_others_are_served() -> None:
    plan = planned(snapshot(agents(1, "cpu=1"), gang("s", 1, ""), gang("t", 1, "")), Broken())
    assert placed(plan) == {"t": 1}
    assert plan.trace[SessionId("s")].summary == "plugin broken failed in predicate: ValueError: oh"


def test_a_gang_whose_other_kernels_find_no_room_is_not_started_in_part() -> None:
    given = snapshot([agent("a", "cpu=4", used="cpu=3")], session("s", kernel("asks", "cpu=2"), kernel("bare")))
    assert planned(given).placements == ()


def test_a_gang_that_waits_for_room_is_not_started_in_part() -> None:
    full = agent("a", "cpu=2", used="cpu=2", leaving="cpu=2")
    plan = planned(snapshot([full], session("s", kernel("asks", "cpu=2"), kernel("bare"))))
    assert list(reserved(plan)) == ["s"]
    assert plan.placements == ()


def test_a_gang_of_best_effort_kernels_waits_until_there_is_a_place_for_each() -> None:
    plan = planned(snapshot([agent("a", "cpu=1", kernels_max=1)], gang("s", 2, "")))
    assert plan.placements == ()


def test_a_best_effort_session_waits_for_what_it_depends_on() -> None:
    plan = planned(snapshot(agents(1, "cpu=1"), gang("s", 1, "", dependencies=(SessionId("other"),))))
    assert code(plan, "s") == "DEPENDENCY"


def test_a_best_effort_session_does_not_start_before_its_time() -> None:
    plan = planned(snapshot(agents(1, "cpu=1"), gang("s", 1, "", starts_at_ms=10_000)))
    assert code(plan, "s") == "NOT_YET_BEGIN"


def test_best_effort_sessions_count_as_sessions_of_their_keypair() -> None:
    sessions = [gang(name, 1, "", owner=owner("alice")) for name in ("s", "t")]
    plan = planned(snapshot(agents(1, "cpu=1"), *sessions, limits=limited("alice", sessions_max=1)))
    assert placed(plan) == {"s": 1}
    assert code(plan, "t") == "CONCURRENCY_LIMIT"


def test_an_agent_runs_as_many_best_effort_kernels_as_its_scaling_group_allows() -> None:
    here = ScalingGroup(ScalingGroupName("default"), best_effort_per_agent_max=2)
    runs = session("runs", kernel("r", at="a"))
    sessions = [gang(name, 1, "", owner=owner(name)) for name in ("s", "t")]
    plan = planned(snapshot([agent("a", "cpu=1", kernel_count=1)], runs, *sessions, scaling_group=here))
    assert placed(plan) == {"s": 1}
    assert plan.trace[SessionId("t")].summary.endswith("lacks room for one more best-effort kernel")


def test_a_user_runs_as_many_best_effort_kernels_as_the_scaling_group_allows() -> None:
    here = ScalingGroup(ScalingGroupName("default"), best_effort_per_user_max=2)
    runs = session("runs", kernel("r", at="a0"), owner=owner("alice"))
    sessions = [gang(name, 1, "", owner=owner(name[:5])) for name in ("alice1", "alice2", "bob")]
    plan = planned(snapshot(agents(2, "cpu=1"), runs, *sessions, scaling_group=here))
    assert placed(plan) == {"alice1": 1, "bob": 1}
    assert code(plan, "alice2") == "BEST_EFFORT"
    assert "user alice runs 2 best-effort kernels, the limit" in plan.trace[SessionId("alice2")].summary


def test_best_effort_kernels_beside_others_count_as_well() -> None:
    here = ScalingGroup(ScalingGroupName("default"), best_effort_per_user_max=1)
    both = [session(name, kernel(f"{name}0", "cpu=1"), kernel(f"{name}1"), owner=owner("alice")) for name in "st"]
    plan = planned(snapshot(agents(1, "cpu=9"), *both, scaling_group=here))
    assert placed(plan) == {"s": 2}
