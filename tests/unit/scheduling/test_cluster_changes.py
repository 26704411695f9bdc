"""Snapshots after changes of the cluster, and what their plans differ in."""

from __future__ import annotations

import pytest

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.errors import InvalidSpec, ObjectNotFound
from sokovan.domain.ids import AgentId, KernelId, QueueName, SessionId
from sokovan.domain.slots import ResourceSlot
from sokovan.scheduling.cluster_changes import MACHINES_MAX, ClusterChanges, changed_snapshot, differences
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.profile import profile_of
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload, SystemSnapshot
from sokovan.scheduling.trace import Code

A1, A2 = AgentId("a1"), AgentId("a2")
CPU = ResourceSlot({"cpu": 4000})


def waiting(name: str) -> SessionWorkload:
    kernel = KernelWorkload(kernel_id=KernelId(f"{name}.0"), slots=CPU)
    return SessionWorkload(session_id=SessionId(name), kernels=(kernel,))


def cluster(*sessions: str) -> SystemSnapshot:
    return SystemSnapshot(
        agents=(AgentInfo(A1, CPU), AgentInfo(A2, CPU, occupied_slots=CPU, kernel_count=1)),
        sessions=tuple(waiting(name) for name in sessions),
        hypernodes=(HyperNode("rack", 1, ("a1", "a2")),),
        queues=(Queue(QueueName("research")),),
    )


def compared(snapshot: SystemSnapshot, changes: ClusterChanges) -> list[tuple[str, Code, Code]]:
    after = changed_snapshot(snapshot, changes)
    plans = [schedule(one, profile_of(one.scaling_group)) for one in (snapshot, after)]
    return [(one.session_id, one.before, one.after) for one in differences(*plans)]


def test_a_session_does_not_start_on_an_agent_that_would_be_drained() -> None:
    [(name, before, after)] = compared(cluster("s1"), ClusterChanges(drain=frozenset({A1})))
    assert (name, before) == ("s1", Code.PLACED)
    assert after is not Code.PLACED


def test_new_machines_are_empty_and_in_the_same_part_of_the_network() -> None:
    changed = changed_snapshot(cluster(), ClusterChanges(add={A2: 2}))
    added = changed.agents[2:]
    assert [agent.agent_id for agent in added] == ["a2-new-1", "a2-new-2"]
    assert {agent.occupied_slots for agent in added} == {ResourceSlot({})}
    assert changed.hypernodes[0].members == ("a1", "a2", "a2-new-1", "a2-new-2")
    assert len(compared(cluster("s1", "s2"), ClusterChanges(add={A2: 2}))) == 1


def test_weights_are_changed_also_of_the_queue_that_was_never_set() -> None:
    changed = changed_snapshot(cluster(), ClusterChanges(weights={QueueName("research"): 3, QueueName("default"): 2}))
    assert {queue.name: queue.weight for queue in changed.queues} == {"research": 3, "default": 2}
    assert changed_snapshot(cluster(), ClusterChanges()).queues == cluster().queues


def test_without_a_change_nothing_differs() -> None:
    assert compared(cluster("s1", "s2"), ClusterChanges()) == []


def test_unknown_names_and_too_many_machines_are_refused() -> None:
    for changes in (
        ClusterChanges(drain=frozenset({AgentId("a3")})),
        ClusterChanges(add={AgentId("a3"): 1}),
        ClusterChanges(weights={QueueName("reserach"): 2}),
    ):
        with pytest.raises(ObjectNotFound):
            changed_snapshot(cluster(), changes)
    for count in (0, -1, MACHINES_MAX + 1):
        with pytest.raises(InvalidSpec):
            ClusterChanges(add={A1: count})
    with pytest.raises(InvalidSpec):
        changed_snapshot(cluster(), ClusterChanges(weights={QueueName("research"): 0}))
