"""Tests of topology constraints on sessions that have not ended."""

from __future__ import annotations

import pytest

from sokovan.domain.cluster.topology import HyperNode, HyperNodeTree
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.lifecycle.session import Goal, SessionStatus
from sokovan.domain.records import KernelRecord, SessionRecord
from sokovan.domain.session import KernelSpec, Partition, SessionSpec, TopologyConstraint, TopologyMode
from sokovan.domain.slots import ResourceSlot
from sokovan.domain.topology_limits import TierLimit, tier_limit, violations
from sokovan.testing.stored_cluster import session_spec

HARD, SOFT = TopologyMode.HARD, TopologyMode.SOFT
TREE = HyperNodeTree(
    ["a1", "a2", "a3", "a4"],
    [HyperNode("r1", 1, ("a1", "a2"), "rack"), HyperNode("r2", 1, ("a3",), "rack"), HyperNode("z", 2, ("r1", "r2"))],
)


def session(agents: list[str | None], **options: object) -> SessionRecord:
    base = session_spec("s")
    slots = ResourceSlot({"cpu": 1})
    kernels = tuple(
        KernelSpec(KernelId(f"k{index}"), slots, labels={"stage": str(index // 2)}) for index in range(len(agents))
    )
    spec = SessionSpec(session_id=base.session_id, owner=base.owner, kernels=kernels, **options)  # type: ignore[arg-type]  # options of any field
    records = tuple(
        KernelRecord(
            KernelId(f"k{index}"), SessionId("s"), index, KernelStatus.RUNNING, 1, slots,
            agent_id=None if agent is None else AgentId(agent),
        )
        for index, agent in enumerate(agents)
    )  # fmt: skip
    return SessionRecord(spec.session_id, spec, SessionStatus.RUNNING, 1, Goal.RUN, 0, records)


@pytest.mark.parametrize(
    ("agents", "constraint", "problem"),
    [
        (["a1", "a2"], TopologyConstraint(HARD, "rack"), ""),
        (["a1", "a3"], TopologyConstraint(HARD, "rack"), "in z of tier 2, the highest allowed tier is 1"),
        (["a1", "a3"], TopologyConstraint(HARD, 2), ""),
        (["a1", "a3"], TopologyConstraint(SOFT, "rack"), ""),
        (["a1", "a4"], TopologyConstraint(HARD), "no common HyperNode"),
        (["a4"], TopologyConstraint(HARD), "no common HyperNode"),
        ([None, None], TopologyConstraint(HARD, "rack"), ""),
        ([None], TopologyConstraint(HARD, "pod"), "no tier named pod"),
        (["gone"], TopologyConstraint(HARD, "rack"), ""),
    ],
)
def test_a_hard_constraint_is_checked_where_the_kernels_are(
    agents: list[str | None], constraint: TopologyConstraint, problem: str
) -> None:
    found = [one.problem for one in violations(TREE, session(agents, topology=constraint))]
    assert len(found) == bool(problem)
    assert all(problem in one for one in found)


def test_each_kernel_group_is_checked_by_itself() -> None:
    parts = (Partition("stages", "stage", size=2, topology=TopologyConstraint(HARD, "rack")),)
    found = list(violations(TREE, session(["a1", "a2", "a1", "a3"], partitions=parts)))
    assert [one.group for one in found] == ["1"]


def test_a_tree_without_hypernodes_meets_no_hard_constraint() -> None:
    assert tier_limit(HyperNodeTree(["a"]), TopologyConstraint(HARD)).problem
    assert tier_limit(HyperNodeTree(["a"]), None) == TierLimit(1)
