"""Contract of `ports.snapshots.SnapshotSource`.

Each check has its own store, because a snapshot shows everything in it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import fields, replace
from typing import TypeAlias

from sokovan.adapters.sql.snapshots.source import SqlSnapshots
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.cluster.topology_rules import HyperNode, TierRule, Topology
from sokovan.domain.errors import ObjectNotFound
from sokovan.domain.ids import AccessKey, AgentId, KernelId, QueueName, ScalingGroupName, SessionId
from sokovan.domain.lifecycle.agent import AgentStatus, AgentTrigger
from sokovan.domain.lifecycle.kernel import FreeProof, KernelTrigger
from sokovan.domain.lifecycle.session import Goal
from sokovan.domain.owners.policy import ResourcePolicy, Scope
from sokovan.domain.owners.tenancy import Domain, Group, Keypair, Owner, User
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.snapshot import Reservation, SystemSnapshot
from sokovan.testing.clock import until
from sokovan.testing.contracts import expect
from sokovan.testing.contracts.repositories.agents import walked
from sokovan.testing.stored_cluster import BY_AGENT, BY_COORDINATOR, DEFAULT_GROUP, StoredCluster, assignment, refusal

Check: TypeAlias = Callable[[StoredCluster], Awaitable[None]]
ONE_CPU = {"cpu": 1000}
OTHER_GROUP = ScalingGroupName("other")


async def seen(source: SqlSnapshots, group: str = DEFAULT_GROUP) -> SystemSnapshot:
    """The snapshot after a refresh."""
    await source.refresh()
    return await source.snapshot(ScalingGroupName(group))


def in_order(snapshot: SystemSnapshot) -> dict[str, object]:
    """A comparable snapshot: without its time, and ordered by ids."""
    parts: dict[str, object] = {one.name: getattr(snapshot, one.name) for one in fields(snapshot)}
    parts["agents"] = sorted(snapshot.agents, key=lambda agent: agent.agent_id)
    parts["sessions"] = sorted(snapshot.sessions, key=lambda session: session.session_id)
    del parts["now_ms"]
    return parts


async def same_as_fresh(cluster: StoredCluster, source: SqlSnapshots, *, after: str) -> None:
    """Expect the same snapshot as from a source that reads everything."""
    await source.refresh()
    fresh = SqlSnapshots(cluster.store)
    await fresh.refresh()
    expect(source.scaling_groups() == fresh.scaling_groups(), f"after {after} the scaling groups differ")
    for group in fresh.scaling_groups():
        followed, whole = in_order(await source.snapshot(group)), in_order(await fresh.snapshot(group))
        different = [name for name in whole if whole[name] != followed[name]]
        shown = [(name, followed[name], whole[name]) for name in different]
        expect(not different, f"after {after} these differ from a fresh source in {group}: {shown}")


async def settled(source: SqlSnapshots) -> None:
    """Refresh until nothing is new."""

    async def is_quiet() -> bool:
        return not await source.refresh()

    await until(is_quiet, elapse=_nothing)


async def _nothing(seconds: float) -> None:
    del seconds


async def an_unchanged_store_has_nothing_new(cluster: StoredCluster) -> None:
    """After the first refresh, until the next write."""
    await cluster.agent("a1")
    source = SqlSnapshots(cluster.store)
    expect(await source.refresh(), "the first refresh reports no change")
    await settled(source)
    expect(not await source.refresh(), "a store at rest has something new")
    await cluster.submit("s1")
    expect(await source.refresh(), "a refresh after a write reports no change")
    await settled(source)


async def sessions_that_were_left_out_are_read_later(cluster: StoredCluster) -> None:
    """Even if nothing else has changed since."""
    await cluster.agent("a1")
    source = SqlSnapshots(cluster.store)
    expect(await source.refresh(sessions=False), "the first refresh reports no change")
    await settled(source)
    await cluster.submit(cluster.new("s"))
    expect(await source.refresh(sessions=False), "a refresh without sessions hides that there is something new")
    expect([one.name for one in source.groups()] == list(source.scaling_groups()), "the scaling groups differ")
    expect(list(source.agents()) == ["a1"], f"the agents are {list(source.agents())}")
    await same_as_fresh(cluster, source, after="a refresh without sessions")


async def reasons_and_leases_are_not_changes(cluster: StoredCluster) -> None:
    """Otherwise a writer of pending reasons would wake itself forever."""
    session = await cluster.submit(cluster.new("s"))
    source = SqlSnapshots(cluster.store)
    await settled(source)
    change = replace(BY_COORDINATOR, code="NOT_ENOUGH_FREE")
    await cluster.store.run(lambda unit: unit.sessions.note([session.session_id], change))
    await cluster.leases.acquire(cluster.new("lease"), holder="m1", ttl_s=10)
    expect(not await source.refresh(), "a reason or a lease counts as a change")


async def pending_kernels_of_a_terminating_session_are_omitted(cluster: StoredCluster) -> None:
    """A kernel beyond the minimum that never started is not to be placed."""
    agent, name = cluster.new("a"), cluster.new("s")
    await cluster.agent(agent)
    await cluster.submit(name, kernels=2, min_kernels=1)
    await cluster.place(name, agent)
    await cluster.start(name)
    await cluster.move(name, KernelTrigger.EXITED, BY_AGENT, exit_code=0)
    source = SqlSnapshots(cluster.store)
    shown = {one.session_id: one for one in (await seen(source)).sessions}[SessionId(name)]
    expect([kernel.kernel_id for kernel in shown.kernels] == [f"{name}.0"], f"{shown.kernels} are shown")


async def a_snapshot_does_not_change_until_it_is_refreshed(cluster: StoredCluster) -> None:
    """It is the state of the last refresh."""
    before = await seen(cluster.snapshots)
    await cluster.agent("a1")
    await cluster.submit("s1")
    expect(in_order(await cluster.snapshots.snapshot(DEFAULT_GROUP)) == in_order(before), "a snapshot moved")
    expect(cluster.snapshots.incarnation(AgentId("a1")) is None, "an agent was seen without a refresh")


async def rolled_back_changes_are_not_seen(cluster: StoredCluster) -> None:
    """Neither by the next refresh, nor later."""
    await refusal(cluster.submit("s1", dependencies=(SessionId("nobody"),)), ObjectNotFound)
    await cluster.submit("s2")
    expect([one.session_id for one in (await seen(cluster.snapshots)).sessions] == ["s2"], "something else is seen")


async def an_unknown_scaling_group_is_not_found(cluster: StoredCluster) -> None:
    """ObjectNotFound; the existing ones are listed by name."""
    await cluster.put(*[ScalingGroup(name=ScalingGroupName(name)) for name in ("z", "B", "a")])
    await cluster.snapshots.refresh()
    expect(list(cluster.snapshots.scaling_groups()) == ["B", "a", "default", "z"], "the list is wrong")
    await refusal(cluster.snapshots.snapshot(ScalingGroupName("nobody")), ObjectNotFound)
    await cluster.store.run(lambda unit: unit.catalog.remove(ScalingGroup, "z"))
    await cluster.snapshots.refresh()
    await refusal(cluster.snapshots.snapshot(ScalingGroupName("z")), ObjectNotFound)


async def a_snapshot_contains_one_scaling_group(cluster: StoredCluster) -> None:
    """Without agents and sessions of others."""
    await cluster.put(ScalingGroup(name=OTHER_GROUP, scheduler="drf"))
    await cluster.agent("a1")
    await cluster.agent("a2", scaling_group=OTHER_GROUP)
    await cluster.submit("s1")
    await cluster.submit("s2", scaling_group=OTHER_GROUP)
    other = await seen(cluster.snapshots, OTHER_GROUP)
    expect([agent.agent_id for agent in other.agents] == ["a2"], "it shows other agents")
    expect([session.session_id for session in other.sessions] == ["s2"], "it shows other sessions")
    expect(other.scaling_group == ScalingGroup(name=OTHER_GROUP, scheduler="drf"), "it is another scaling group")


async def agents_equal_those_of_the_repository(cluster: StoredCluster) -> None:
    """With occupied and releasing slots."""
    await cluster.agent("a1", labels={"zone": "a"})
    source = SqlSnapshots(cluster.store)
    await _agent_seen(cluster, source, "enrolment")
    await cluster.submit("s1", kernels=2, slots={"cpu": 1000, "cuda.device": 1})
    await cluster.place("s1", "a1", "a1")
    await _agent_seen(cluster, source, "allocation")
    await cluster.start("s1")
    await cluster.stop("s1", Goal.FORCE)
    await _agent_seen(cluster, source, "a forced end")
    await cluster.free("s1", FreeProof.AGENT_TOMBSTONE)
    await _agent_seen(cluster, source, "freeing")
    await cluster.agent("a1", slots=ONE_CPU, labels={})
    await _agent_seen(cluster, source, "a new incarnation")
    expect(source.incarnation(AgentId("a1")) == 2, "the incarnation is not that of the agent")
    await walked(cluster, "a1", AgentTrigger.DRAIN_REQUESTED)
    await _agent_seen(cluster, source, "a move")
    [agent] = (await source.snapshot(DEFAULT_GROUP)).agents
    expect(agent.status is AgentStatus.DRAINING, f"the agent is {agent.status}")


async def _agent_seen(cluster: StoredCluster, source: SqlSnapshots, after: str) -> None:
    # Leased ports are read for decisions only; the repository gives none.
    agents = [replace(agent, leased_ports=()) for agent in (await seen(source)).agents]
    shown = sorted(agents, key=lambda agent: agent.agent_id)
    stored = [one.info for one in await cluster.store.read(lambda unit: unit.fleet.all())]
    expect(shown == stored, f"after {after} an agent is seen as {shown}, stored is {stored}")


async def sessions_are_seen_until_they_end(cluster: StoredCluster) -> None:
    """Pending, running and terminating, with the agents of their kernels."""
    await cluster.agent("a1")
    for name in ("s2", "s1"):
        await cluster.submit(name, kernels=2, min_kernels=1)
    await cluster.place("s1", "a1")
    snapshot = await seen(cluster.snapshots)
    found = sorted(snapshot.sessions, key=lambda session: session.submitted)
    expect([session.session_id for session in found] == ["s2", "s1"], "sessions are not numbered by age")
    places = [(kernel.kernel_id, kernel.agent, kernel.releasing) for kernel in found[1].kernels]
    expect(places == [("s1.0", "a1", False), ("s1.1", None, False)], f"kernels are seen as {places}")
    await cluster.stop("s1")
    [ending] = [one for one in (await seen(cluster.snapshots)).sessions if one.session_id == "s1"]
    expect([kernel.releasing for kernel in ending.kernels] == [True], "a kernel on its way out is not marked")
    await cluster.free("s1", FreeProof.NEVER_SENT)
    await cluster.stop("s2")
    expect(not (await seen(cluster.snapshots)).sessions, "a session that ended is seen")


async def a_hypernode_of_a_session_is_seen(cluster: StoredCluster) -> None:
    """The one that an allocation chose."""
    await cluster.agent("a1")
    await cluster.submit("s1")
    await cluster.place_all([assignment("s1", "a1", hypernode="rack1")])
    expect((await seen(cluster.snapshots)).sessions[0].hypernode == "rack1", "the HyperNode is not seen")


async def results_of_dependencies_are_seen_while_needed(cluster: StoredCluster) -> None:
    """Whether the dependent session was submitted before the end or after it."""
    await cluster.agent("a1")
    await cluster.submit("good")
    await cluster.submit("early", dependencies=(SessionId("good"),))
    await cluster.snapshots.refresh()
    await cluster.submit("bad")
    for name, code in (("good", 0), ("bad", 1)):
        await cluster.place(name, "a1")
        await cluster.start(name)
        await cluster.move(name, KernelTrigger.EXITED, BY_AGENT, exit_code=code)
        await cluster.free(name, FreeProof.AGENT_TOMBSTONE)
    expect((await seen(cluster.snapshots)).outcomes == {"good": True}, "the outcome is not seen")
    await cluster.submit("late", dependencies=(SessionId("good"), SessionId("bad")))
    expect((await seen(cluster.snapshots)).outcomes == {"good": True, "bad": False}, "outcomes are not seen")
    await cluster.stop("late")
    expect((await seen(cluster.snapshots)).outcomes == {"good": True}, "a result is kept without a dependent session")


async def usage_and_limits_of_owners_are_seen(cluster: StoredCluster) -> None:
    """By scope and name, and pending usage in other scaling groups."""
    await cluster.put(ScalingGroup(name=OTHER_GROUP))
    policy = ResourcePolicy("p", sessions_max=5, pending_sessions_max=3)
    owner = Owner("u", "g", "d", AccessKey("k"))
    await cluster.put(policy, Domain("d"), User("u", "d"), Keypair(AccessKey("k"), "u", "p"))
    await cluster.agent("a1")
    await cluster.submit("s1", slots=ONE_CPU, owner=owner)
    await cluster.submit("s2", kernels=2, slots=ONE_CPU, owner=owner, scaling_group=OTHER_GROUP)
    snapshot = await seen(cluster.snapshots)
    expect(snapshot.limits[Scope.KEYPAIR] == {"k": policy}, "the limit of a keypair is not seen")
    waiting = [session.session_id for session in snapshot.pending_elsewhere]
    expect(waiting == ["s2"], f"elsewhere waits {waiting}")
    await cluster.put(Keypair(AccessKey("k"), "u"))
    await cluster.place("s1", "a1")
    snapshot = await seen(cluster.snapshots)
    for scope, name in ((Scope.KEYPAIR, "k"), (Scope.USER, "u"), (Scope.GROUP, "g"), (Scope.DOMAIN, "d")):
        used = snapshot.usage[scope][name]
        expect((used.sessions, used.slots["cpu"]) == (1, 1000), f"the {scope} uses {used}")
    expect(not snapshot.limits[Scope.KEYPAIR], "a limit that was lifted is seen")


async def what_waits_in_other_scaling_groups_is_seen_in_every_scope(cluster: StoredCluster) -> None:
    """For owners with a limit on waiting sessions."""
    await cluster.put(ScalingGroup(name=OTHER_GROUP))
    policy = ResourcePolicy("p", pending_sessions_max=3)
    await cluster.put(policy, Domain("d"), Group("g", "d"), User("u", "d"), Keypair(AccessKey("k"), "u"))
    owner = Owner("u", "g", "d", AccessKey("k"))
    await cluster.submit("s1", owner=owner, scaling_group=OTHER_GROUP)
    await cluster.submit("s2", owner=replace(owner, access_key=AccessKey("k2")), scaling_group=OTHER_GROUP)
    expect(not (await seen(cluster.snapshots)).pending_elsewhere, "sessions without a limit are seen")
    for item in (User("u", "d", policy="p"), Group("g", "d", policy="p"), Domain("d", policy="p")):
        await cluster.put(item)
        waiting = [session.session_id for session in (await seen(cluster.snapshots)).pending_elsewhere]
        expect(waiting == ["s1", "s2"], f"with the limit of {item} elsewhere waits {waiting}")
        await cluster.put(replace(item, policy=None))


async def every_change_of_the_catalog_is_seen(cluster: StoredCluster) -> None:
    """Scaling groups, queues and HyperNodes, put and removed."""
    await cluster.agent("a1")
    await cluster.snapshots.refresh()
    group, queue = ScalingGroup(name=DEFAULT_GROUP, scheduler="drf"), Queue(QueueName("q"), weight=7)
    rack = HyperNode("rack1", 1, ("a1",))
    await cluster.put(group, queue, Topology(hypernodes=(rack,)))
    snapshot = await seen(cluster.snapshots)
    found = (snapshot.scaling_group, snapshot.queues, snapshot.hypernodes)
    expect(found == (group, (queue,), (rack,)), f"seen are {found}")
    mark = cluster.snapshots.marks.topology
    await cluster.store.run(lambda unit: unit.catalog.remove(Queue, "q"))
    await cluster.store.run(lambda unit: unit.catalog.remove(Topology, "topology"))
    snapshot = await seen(cluster.snapshots)
    expect((snapshot.queues, snapshot.hypernodes) == ((), ()), "what was removed is seen")
    expect(cluster.snapshots.marks.topology != mark, "the mark of the topology did not change")


async def a_hypernode_shows_the_members_of_the_scaling_group(cluster: StoredCluster) -> None:
    """A HyperNode without members there is omitted."""
    await cluster.put(ScalingGroup(name=OTHER_GROUP))
    await cluster.agent("a1")
    await cluster.agent("a2", scaling_group=OTHER_GROUP)
    racks = (HyperNode("rack1", 1, ("a1", "a2")), HyperNode("row1", 2, ("rack1",)))
    await cluster.put(Topology(hypernodes=racks), Queue(QueueName("q")))
    snapshot = await seen(cluster.snapshots, OTHER_GROUP)
    shown = [(node.name, node.members) for node in snapshot.hypernodes]
    expect(shown == [("rack1", ("a2",)), ("row1", ("rack1",))], f"shown are {shown}")
    expect(snapshot.tree.agents_under("row1") == ("a2",), "the tree does not hold")


async def labels_place_agents_in_the_topology(cluster: StoredCluster) -> None:
    """Those it reports and those of operators, also of an agent that joins later."""
    await cluster.put(Topology((TierRule(1, "rack", "rack"),)))
    first = await cluster.agent("a1", labels={"rack": "r1"})
    expect(await _racks(cluster) == {"r1": ("a1",)}, "the first agent is not in its rack")
    await cluster.agent("a2", labels={"rack": "r1"})
    expect(await _racks(cluster) == {"r1": ("a1", "a2")}, "the agent that joined later is not in its rack")
    mark = cluster.snapshots.marks.topology
    await cluster.store.run(lambda unit: unit.catalog.set_labels("a1", {"rack": "r2"}, version=first.version))
    expect(await _racks(cluster) == {"r1": ("a2",), "r2": ("a1",)}, "the label of the operator did not move it")
    expect(cluster.snapshots.marks.topology != mark, "the mark of the topology did not change")
    await cluster.agent("a1", labels={"rack": "r1"})
    expect(await _racks(cluster) == {"r1": ("a2",), "r2": ("a1",)}, "the enrolment lost the label of the operator")


async def _racks(cluster: StoredCluster) -> dict[str, tuple[str, ...]]:
    return {node.name: node.members for node in (await seen(cluster.snapshots)).hypernodes}


async def carried_state_is_available_to_the_next_cycle(cluster: StoredCluster) -> None:
    """Reservations and cursors, for all sources."""
    await cluster.agent("a1")
    for name in ("s1", "s2"):
        await cluster.submit(name, kernels=12)
    kept = (_reservation("s2", 12), _reservation("s1", 2))
    plan = SchedulingPlan(reservations=kept, cursors={"round-robin": AgentId("a1")})
    await cluster.snapshots.refresh()
    await cluster.snapshots.record_plan(DEFAULT_GROUP, plan)
    for source in (cluster.snapshots, SqlSnapshots(cluster.store)):
        snapshot = await seen(source)
        expect(snapshot.reservations == kept, f"the reservations are {snapshot.reservations}")
        expect(dict(snapshot.cursors) == {"round-robin": "a1"}, f"the cursors are {snapshot.cursors}")
    await cluster.stop("s2")
    expect((await seen(cluster.snapshots)).reservations == kept[1:], "a session that ended keeps its reservation")


def _reservation(name: str, count: int) -> Reservation:
    return Reservation(SessionId(name), tuple((KernelId(f"{name}.{at}"), AgentId("a1")) for at in range(count)))


async def a_later_cycle_replaces_the_carried_state(cluster: StoredCluster) -> None:
    """In this scaling group only; cursors that did not move stay."""
    await cluster.put(ScalingGroup(name=OTHER_GROUP))
    await cluster.agent("a1")
    await cluster.submit("s1")
    await cluster.submit("s2", scaling_group=OTHER_GROUP)
    other = SqlSnapshots(cluster.store)
    for group, name in ((DEFAULT_GROUP, "s1"), (OTHER_GROUP, "s2")):
        moved = {str(group): AgentId("a1")}
        plan = SchedulingPlan(reservations=(_reservation(name, 1),), cursors=moved)
        await cluster.snapshots.record_plan(group, plan)
    expect(len((await seen(other)).reservations) == 1, "another source does not see the reservation")
    await cluster.snapshots.record_plan(DEFAULT_GROUP, SchedulingPlan())
    for source in (other, cluster.snapshots, SqlSnapshots(cluster.store)):
        expect(not (await seen(source)).reservations, "a reservation that was given up is still seen")
        expect(len((await seen(source, OTHER_GROUP)).reservations) == 1, "that of another scaling group is gone")
        for group in (DEFAULT_GROUP, OTHER_GROUP):
            cursors = (await seen(source, group)).cursors
            expect(dict(cursors) == {group: "a1"}, f"a cursor that did not move is now {cursors}")


async def recording_an_equal_plan_writes_nothing(cluster: StoredCluster) -> None:
    """The store stays unchanged."""
    await cluster.agent("a1")
    await cluster.submit("s1", kernels=12)
    plan = SchedulingPlan(reservations=(_reservation("s1", 12),), cursors={"x": AgentId("a1")})
    source = SqlSnapshots(cluster.store)
    await source.refresh()
    await source.record_plan(DEFAULT_GROUP, plan)
    await settled(source)
    await source.record_plan(DEFAULT_GROUP, plan)
    expect(not await source.refresh(), "remembering the same again was written")


CHECKS: tuple[Check, ...] = (
    an_unchanged_store_has_nothing_new,
    sessions_that_were_left_out_are_read_later,
    reasons_and_leases_are_not_changes,
    pending_kernels_of_a_terminating_session_are_omitted,
    a_snapshot_does_not_change_until_it_is_refreshed,
    rolled_back_changes_are_not_seen,
    an_unknown_scaling_group_is_not_found,
    a_snapshot_contains_one_scaling_group,
    agents_equal_those_of_the_repository,
    sessions_are_seen_until_they_end,
    a_hypernode_of_a_session_is_seen,
    results_of_dependencies_are_seen_while_needed,
    usage_and_limits_of_owners_are_seen,
    what_waits_in_other_scaling_groups_is_seen_in_every_scope,
    every_change_of_the_catalog_is_seen,
    a_hypernode_shows_the_members_of_the_scaling_group,
    labels_place_agents_in_the_topology,
    carried_state_is_available_to_the_next_cycle,
    a_later_cycle_replaces_the_carried_state,
    recording_an_equal_plan_writes_nothing,
)
