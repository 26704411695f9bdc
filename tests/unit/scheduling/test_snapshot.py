"""SystemSnapshot: the input of a cycle, as plain values."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields

import pytest

from sokovan.domain.arrays import ArrayMember
from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.errors import InvalidSpec, InvalidTopology
from sokovan.domain.ids import AgentId, ArrayId, KernelId, QueueName, SessionId
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.session import (
    KernelSpec,
    Partition,
    Preemption,
    ServicePort,
    SessionSpec,
    SessionType,
    TopologyConstraint,
    TopologyMode,
)
from sokovan.domain.slot_notation import parse_slots
from sokovan.scheduling.snapshot import (
    FairSharePolicy,
    KernelWorkload,
    Reservation,
    SessionWorkload,
    gang_holds,
    loss_slots,
    workload_of,
)
from tests.unit.scheduling.little_cluster import agent, kernel, session, snapshot

# Only a session that runs has these.
OF_RUNNING = {"hypernode", "running_since_ms", "checkpoint_ms"}
# Sessions cannot be submitted with these yet, only scenarios have them.
TO_COME = {
    "time_limit_ms", "grace_ms", "deadline_ms", "booking", "borrow", "loan", "starting", "evictions_ms", "migratable",
    "moved_ms", "saves_every_ms", "room_back_ms",
}  # fmt: skip


@pytest.mark.parametrize(("least", "size"), [(None, 3), (0, 1), (1, 1), (2, 2), (3, 3)])
def test_a_gang_is_all_kernels_unless_fewer_are_enough(least: int | None, size: int) -> None:
    assert session("s", "cpu=1", "cpu=1", "cpu=1", min_kernels=least).gang_size == size


def test_a_submitted_session_becomes_a_workload_with_nothing_lost() -> None:
    topology = TopologyConstraint(TopologyMode.HARD, 1)
    kernel = KernelSpec(
        KernelId("k"), parse_slots("cpu=1"), "g", "torch", "aarch64", {"i": "1"}, {"zone": "x"}, 4, False, AgentId("n")
    )  # fmt: skip
    spec = SessionSpec(
        SessionId("s"), (kernel,), session_type=SessionType.BATCH, owner=Owner(user="u"), queue=QueueName("q"),
        priority=3, min_kernels=1, group_minimums={"g": 1}, partitions=(Partition("p", "i"),), topology=topology,
        dependencies=(SessionId("d"),), starts_at_ms=9, preemptible=False, preemption=Preemption.NEVER,
        ports=(ServicePort("web", 8080), ServicePort("api")), array=ArrayMember(ArrayId("a"), 3, 9, 0, 8, at_once=2),
    )  # fmt: skip
    workload = workload_of(spec, submitted=77)
    assert (workload.array, workload.array_limit) == ("a", 2)
    for one in fields(SessionWorkload):
        if one.name not in {"kernels", "submitted", "array", "array_limit", *OF_RUNNING, *TO_COME}:
            assert getattr(workload, one.name) == getattr(spec, one.name), one.name
    [made] = workload.kernels
    for one in fields(KernelWorkload):
        if one.name not in {"agent", "releasing", "avoid", "constraints", "ports", "meets", "leads", "serves"}:
            assert getattr(made, one.name) == getattr(kernel, one.name), one.name
    assert (made.ports, made.meets, made.leads) == ((0, 8080), False, False)
    assert (workload.submitted, workload.hypernode, made.agent, made.releasing, made.avoid) == (
        77,
        None,
        None,
        False,
        (),
    )


def test_a_reservation_names_each_agent_once_in_order() -> None:
    seats = tuple((KernelId(f"k{index}"), AgentId(name)) for index, name in enumerate(("b", "a", "b")))
    assert Reservation(SessionId("s"), seats).agents == ("a", "b")


def test_the_tree_of_a_snapshot_is_its_hypernodes_over_its_agents() -> None:
    seen = snapshot([agent("a"), agent("b")], hypernodes=(HyperNode("r", 1, ("b",)),))
    assert seen.tree.agents_under("r") == ("b",)
    assert seen.tree is seen.tree


def test_hypernodes_over_agents_that_are_not_there_are_refused() -> None:
    seen = snapshot([agent("a")], hypernodes=(HyperNode("r", 1, ("gone",)),))
    with pytest.raises(InvalidTopology, match="gone"):
        _ = seen.tree


@pytest.mark.parametrize(
    ("policy", "field"),
    [({"half_life_s": 0}, "half_life_s"), ({"weights": {"u": 0}}, "weights.u"), ({"half_life_s": -1}, "half_life_s")],
)
def test_fair_share_refuses_a_half_life_or_weight_below_one(policy: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidSpec, match="must be 1 or more") as refused:
        FairSharePolicy(**policy)  # type: ignore[arg-type]  # each row is one wrong field
    assert refused.value.field == field


def test_usage_is_forgotten_by_half_in_a_week_by_default() -> None:
    assert FairSharePolicy().half_life_s == 7 * 24 * 3600


def test_a_snapshot_is_immutable() -> None:
    with pytest.raises(FrozenInstanceError):
        snapshot([]).now_ms = 1  # type: ignore[misc]  # this is what is forbidden


def test_a_gang_holds_with_its_minimum_its_group_minimums_and_whole_groups() -> None:
    workers = [kernel(f"w{i}", on="a", group="worker", labels={"part": str(i // 2)}) for i in range(4)]
    grouped = session("s", *workers, min_kernels=2, group_minimums={"worker": 3})
    assert gang_holds(grouped, workers[:3])
    assert not gang_holds(grouped, workers[:2])
    parted = session("s", *workers, min_kernels=2, partitions=(Partition("parts", "part", 2, 1),))
    assert gang_holds(parted, workers[:2])
    assert not gang_holds(parted, [workers[0], workers[2]])


def test_accelerators_count_before_cpu() -> None:
    assert loss_slots(parse_slots("cpu=2 cuda.device=3")) == 3000
    assert loss_slots(parse_slots("cpu=2 cuda.shares=0.5")) == 500
    assert loss_slots(parse_slots("cpu=2")) == 2000
