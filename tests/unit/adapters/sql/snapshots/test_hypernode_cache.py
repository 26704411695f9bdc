"""The HyperNodes over the agents of a view."""

from __future__ import annotations

from dataclasses import replace

from sokovan.adapters.sql.snapshots.hypernode_cache import HyperNodeCache
from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.topology_rules import TierRule, Topology
from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.slots import ResourceSlot


def agent(name: str, rack: str) -> AgentInfo:
    return AgentInfo(AgentId(name), ResourceSlot({"cpu": 1}), labels={"rack": rack})


def test_hypernodes_follow_agents_that_join_change_and_leave() -> None:
    placed = HyperNodeCache()
    first, second = agent("a1", "r1"), agent("a2", "r2")
    assert placed.over([first], [first]) == ()
    placed.set_topology(Topology((TierRule(1, "rack", "rack"),)))

    def racks(*agents: AgentInfo) -> dict[str, tuple[str, ...]]:
        return {node.name: node.members for node in placed.over(agents, agents)}

    assert racks(first) == {"r1": ("a1",)}
    placed.agent_changed(None, second)
    assert racks(first, second) == {"r1": ("a1",), "r2": ("a2",)}
    moved = agent("a2", "r1")
    placed.agent_changed(second, moved)
    assert racks(first, moved) == {"r1": ("a1", "a2")}
    left = replace(moved, status=AgentStatus.TERMINATED)
    placed.agent_changed(moved, left)
    assert racks(first, left) == {"r1": ("a1",)}


def test_a_change_of_usage_derives_nothing_anew() -> None:
    placed = HyperNodeCache()
    placed.set_topology(Topology((TierRule(1, "rack", "rack"),)))
    one = agent("a1", "r1")
    before = placed.over([one], [one])
    placed.agent_changed(one, replace(one, occupied_slots=ResourceSlot({"cpu": 1}), kernel_count=1))
    assert placed.over([one], [one])[0] is before[0]
