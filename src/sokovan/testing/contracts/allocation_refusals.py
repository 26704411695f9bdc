"""Contract of `ports.allocation` for the verification at commit time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.cluster.topology_rules import HyperNode, Topology
from sokovan.domain.ids import AccessKey, AgentId, KernelId, ScalingGroupName, SessionId
from sokovan.domain.lifecycle.agent import AgentTrigger
from sokovan.domain.lifecycle.kernel import FreeProof, KernelTrigger
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.owners.policy import ResourcePolicy
from sokovan.domain.owners.tenancy import Domain, Group, Keypair, Owner, User
from sokovan.domain.session import KernelSpec, SessionSpec
from sokovan.domain.slots import ResourceSlot, SlotLimits
from sokovan.ports.allocation import (
    AgentChanged,
    AllocationContext,
    AllocationError,
    AllocationRefused,
    Assignment,
    DependencyChanged,
    IncompleteGang,
    QuotaPassed,
    SessionNotWaiting,
)
from sokovan.testing.contracts import expect
from sokovan.testing.contracts.allocation import ONE_CPU, agents, allocated, crowds, sessions
from sokovan.testing.contracts.repositories.agents import agent_now, failing, walked
from sokovan.testing.contracts.repositories.ledger import conserved, held
from sokovan.testing.stored_cluster import BY_AGENT, BY_USER, StoredCluster, assignment

Check: TypeAlias = Callable[[StoredCluster], Awaitable[None]]
GPU = "cuda.device"


async def refused(
    cluster: StoredCluster, one: Assignment, kind: type[AllocationError], *, context: AllocationContext | None = None
) -> AllocationError:
    """Expect a refusal of this kind, and that nothing was taken."""
    touched = sorted({agent for _, agent in one.kernels})
    before = [await _usage_of(cluster, agent) for agent in touched]
    batch = await cluster.place_all([one], context=context)
    expect(not batch.allocated, f"{one.session_id} was allocated, {kind.__name__} was expected")
    error = batch.refused[one.session_id]
    expect(type(error) is kind, f"refused with {type(error).__name__} ({error}), not with {kind.__name__}")
    expect(error.session_id == one.session_id, "the refusal does not name the session")
    expect([await _usage_of(cluster, agent) for agent in touched] == before, "a refusal took something")
    return error


async def _usage_of(cluster: StoredCluster, agent: AgentId) -> tuple[object, ...]:
    rows = await held(cluster, agent)
    if not rows:
        return (len(rows),)
    return (len(rows), (await agent_now(cluster, agent)).info)


async def owned(cluster: StoredCluster, **limits: ResourcePolicy) -> Owner:
    """An owner whose scopes have these policies: domain, group, user, keypair."""
    await cluster.put(*limits.values())
    names = {scope: policy.name for scope, policy in limits.items()}
    owner = Owner(cluster.new("u"), cluster.new("g"), cluster.new("d"), AccessKey(cluster.new("k")))
    await cluster.put(
        Domain(owner.domain, names.get("domain")),
        Group(owner.group, owner.domain, names.get("group")),
        User(owner.user, owner.domain, (owner.group,), names.get("user")),
        Keypair(owner.access_key, owner.user, names.get("keypair")),
    )
    return owner


async def finished(cluster: StoredCluster, name: str, agent: str, *, exit_code: int) -> None:
    """Run a session until its kernels exit."""
    await cluster.place(name, agent)
    await cluster.start(name)
    await cluster.move(name, KernelTrigger.EXITED, BY_AGENT, exit_code=exit_code)
    await cluster.free(name, FreeProof.AGENT_TOMBSTONE)


async def slots_in_use_are_refused(cluster: StoredCluster) -> None:
    """Never less than requested, never more than the capacity."""
    [agent] = await agents(cluster, 1, {"cpu": 1500})
    first, second = await sessions(cluster, 2, ONE_CPU)
    await cluster.place(first, agent)
    error = await refused(cluster, assignment(second, agent), AllocationRefused)
    expect("cpu" in error.problem, "the refusal does not name the slot")
    [other] = await sessions(cluster, 1, {"tpu.device": 1})
    await refused(cluster, assignment(other, agent), AllocationRefused)
    await conserved(cluster, agent)


async def missing_devices_are_refused(cluster: StoredCluster) -> None:
    """If an agent reports a larger slot than it has devices."""
    agent = cluster.new("a")
    await cluster.agent(agent, slots={GPU: 2})
    info = (await agent_now(cluster, agent)).info
    await cluster.store.run(lambda unit: unit.fleet.enrol(info, BY_AGENT, devices=[]))
    [name] = await sessions(cluster, 1, {GPU: 1})
    await refused(cluster, assignment(name, agent), AllocationRefused)


async def a_kernel_limit_is_kept(cluster: StoredCluster) -> None:
    """Regardless of the requested slots."""
    [agent] = await agents(cluster, 1, {"cpu": 9000}, kernels_max=2)
    first, gang, last = [
        *await sessions(cluster, 1, {}),
        *await sessions(cluster, 1, ONE_CPU, kernels=2),
        *await sessions(cluster, 1, ONE_CPU),
    ]
    await cluster.place(first, agent)
    await refused(cluster, assignment(gang, agent, agent), AllocationRefused)
    expect(not (await cluster.place(last, agent)).refused, "the last place was not given")


async def a_session_that_is_not_pending_is_refused(cluster: StoredCluster) -> None:
    """Cancelled, allocated, terminating, ended, or unknown."""
    [agent] = await agents(cluster, 1, {"cpu": 9000})
    cancelled, scheduled, ending, ended = await sessions(cluster, 4, ONE_CPU)
    await cluster.stop(cancelled)
    for name in (scheduled, ending, ended):
        await cluster.place(name, agent)
    for name in (ending, ended):
        await cluster.stop(name)
    await cluster.free(ended, FreeProof.NEVER_SENT)
    for name in (cancelled, scheduled, ending, ended, cluster.new("s")):
        await refused(cluster, assignment(name, agent), SessionNotWaiting)


async def kernels_that_are_not_pending_are_refused(cluster: StoredCluster) -> None:
    """Those of another session, running ones, and unknown ones."""
    [agent] = await agents(cluster, 1, {"cpu": 9000})
    [mine, other] = await sessions(cluster, 2, ONE_CPU, kernels=2, min_kernels=1)
    await cluster.place(mine, agent)
    for kernel in (f"{other}.0", f"{mine}.0", cluster.new("k")):
        pairs = ((KernelId(f"{mine}.1"), AgentId(agent)), (KernelId(kernel), AgentId(agent)))
        await refused(cluster, Assignment(SessionId(mine), pairs), SessionNotWaiting)


async def a_session_assigned_twice_in_a_batch_is_allocated_once(cluster: StoredCluster) -> None:
    """The first assignment counts."""
    first, second = await agents(cluster, 2, ONE_CPU)
    [name] = await sessions(cluster, 1, ONE_CPU)
    batch = await cluster.place_all([assignment(name, first), assignment(name, second)])
    expect(allocated(batch) == [name], "it was not allocated once")
    expect((await cluster.session(name)).kernels[0].agent_id == first, "not the first assignment counted")
    expect(not await held(cluster, second), "the second assignment took something")


async def fewer_kernels_than_the_minimum_do_not_start(cluster: StoredCluster) -> None:
    """None, some, or one that is named twice."""
    [agent] = await agents(cluster, 1, {"cpu": 9000})
    [whole] = await sessions(cluster, 1, ONE_CPU, kernels=3)
    [part] = await sessions(cluster, 1, ONE_CPU, kernels=3, min_kernels=2)
    for one in (
        assignment(whole, agent, agent),
        assignment(part, agent),
        assignment(whole),
        Assignment(SessionId(part), ((KernelId(f"{part}.0"), AgentId(agent)),) * 2),
    ):
        await refused(cluster, one, IncompleteGang)
    expect(not (await cluster.place(part, agent, agent)).refused, "the minimum was refused")


async def an_agent_that_is_not_schedulable_is_refused(cluster: StoredCluster) -> None:
    """Not ALIVE, failing sessions, not approved, or unknown."""
    missed = AgentTrigger.HEARTBEAT_MISSED
    ways: Sequence[tuple[AgentTrigger, ...]] = (
        (missed,),
        (AgentTrigger.DRAIN_REQUESTED,),
        (missed, AgentTrigger.DECLARED_LOST),
        (missed, AgentTrigger.DECLARED_LOST, AgentTrigger.DECLARED_GONE),
    )
    [name] = await sessions(cluster, 1, ONE_CPU)
    for steps in ways:
        [agent] = await agents(cluster, 1, ONE_CPU)
        await walked(cluster, agent, *steps)
        await refused(cluster, assignment(name, agent), AgentChanged)
    [agent] = await agents(cluster, 1, ONE_CPU)
    await failing(cluster, agent)
    await refused(cluster, assignment(name, agent), AgentChanged)
    [agent] = await agents(cluster, 1, ONE_CPU)
    await claiming(cluster, agent)
    await refused(cluster, assignment(name, agent), AgentChanged)
    await refused(cluster, assignment(name, cluster.new("a")), AgentChanged)


async def claiming(cluster: StoredCluster, agent: str) -> None:
    """Mark an agent with a claim that waits for an approval."""
    record, marks = await agent_now(cluster, agent), {"sokovan.unapproved": "1"}
    await cluster.store.run(lambda unit: unit.catalog.set_labels(agent, marks, version=record.version))


async def a_new_incarnation_of_an_agent_is_refused(cluster: StoredCluster) -> None:
    """The decision names the incarnation of the snapshot."""
    [agent] = await agents(cluster, 1, {"cpu": 4000})
    first, second = await sessions(cluster, 2, ONE_CPU)
    await cluster.place_all([assignment(first, agent, incarnations={AgentId(agent): 1})])
    await cluster.agent(agent, slots={"cpu": 4000})
    old = assignment(second, agent, incarnations={AgentId(agent): 1})
    await refused(cluster, old, AgentChanged)
    batch = await cluster.place_all([replace(old, incarnations={AgentId(agent): 2})])
    expect(batch.allocated[0].kernels[0].incarnation == 2, "the kernel is not bound to the new incarnation")


async def an_agent_that_no_longer_fits_is_refused(cluster: StoredCluster) -> None:
    """By labels, architecture or scaling group."""
    group = ScalingGroupName(cluster.new("group"))
    await cluster.put(ScalingGroup(name=group))
    kernel = KernelSpec(KernelId(cluster.new("k")), ResourceSlot(ONE_CPU), require={"zone": "a"})
    spec = SessionSpec(SessionId(cluster.new("s")), (kernel,))
    await cluster.store.run(lambda unit: unit.sessions.enqueue(spec, BY_USER))
    agent = cluster.new("a")
    one = Assignment(spec.session_id, ((kernel.kernel_id, AgentId(agent)),))
    fitting: dict[str, Any] = {"labels": {"zone": "a"}, "slots": ONE_CPU}
    changes: list[dict[str, Any]] = [
        {"labels": {}},
        {"labels": {"zone": "b"}},
        {"architecture": "aarch64"},
        {"scaling_group": group},
    ]
    for changed in changes:
        await cluster.agent(agent, **{**fitting, **changed})
        await refused(cluster, one, AgentChanged)
    await cluster.agent(agent, **fitting)
    expect(not (await cluster.place_all([one])).refused, "an agent that fits again was refused")


async def a_changed_topology_is_refused(cluster: StoredCluster) -> None:
    """If the decision depended on it; otherwise it does not matter."""
    [agent] = await agents(cluster, 1, {"cpu": 4000})
    first, second, third = await sessions(cluster, 3, ONE_CPU)
    rack = cluster.new("rack")
    await cluster.put(Topology(hypernodes=(HyperNode(rack, 1, (agent,)),)))
    await cluster.snapshots.refresh()
    context = AllocationContext(topology=cluster.snapshots.marks.topology)
    batch = await cluster.place_all([assignment(first, agent, hypernode=rack)], context=context)
    expect(not batch.refused, f"an unchanged topology was refused: {batch.refused}")
    await cluster.put(Topology(hypernodes=(HyperNode(rack, 2, (agent,)),)))
    await refused(cluster, assignment(second, agent, hypernode=rack), AgentChanged, context=context)
    await cluster.place_all([assignment(third, agent)], context=context)
    expect((await cluster.session(third)).status is SessionStatus.SCHEDULED, "a decision without closeness was refused")


async def each_scope_of_an_owner_has_its_limit(cluster: StoredCluster) -> None:
    """Keypair, user, group and domain, by committed usage."""
    for scope in ("keypair", "user", "group", "domain"):
        policy = ResourcePolicy(cluster.new("policy"), slots_max=SlotLimits({"cpu": 2500, GPU: 0}))
        owner = await owned(cluster, **{scope: policy})
        [agent] = await agents(cluster, 1, {"cpu": 9000, GPU: 1})
        first, second, third = await sessions(cluster, 3, ONE_CPU, owner=owner)
        [device] = await sessions(cluster, 1, {GPU: 1}, owner=owner)
        for name in (first, second):
            await cluster.place(name, agent)
        error = await refused(cluster, assignment(third, agent), QuotaPassed)
        expect(scope in error.problem, f"the refusal does not name the {scope}")
        await refused(cluster, assignment(device, agent), QuotaPassed)
        await cluster.stop(first)
        await refused(cluster, assignment(third, agent), QuotaPassed)
        await cluster.free(first, FreeProof.NEVER_SENT)
        expect(not (await cluster.place(third, agent)).refused, "what was freed cannot be used again")


async def limits_that_the_decision_did_not_check_are_not_verified(cluster: StoredCluster) -> None:
    """A profile may omit validators; other limits of the same owner stay in force."""
    policy = ResourcePolicy(cluster.new("policy"), slots_max=SlotLimits({"cpu": 500}))
    owner = await owned(cluster, user=policy)
    [agent] = await agents(cluster, 1, {"cpu": 9000})
    [name] = await sessions(cluster, 1, ONE_CPU, owner=owner)
    checked = AllocationContext(validators=frozenset({"user-resource-limit"}))
    await refused(cluster, assignment(name, agent), QuotaPassed, context=checked)
    omitted = AllocationContext(validators=frozenset({"keypair-resource-limit", "concurrency"}))
    expect(not (await cluster.place(name, agent, context=omitted)).refused, "an omitted validator refuses")
    [dependent] = await sessions(cluster, 1, ONE_CPU, dependencies=(name,))
    depends = AllocationContext(validators=frozenset({"dependencies"}))
    await refused(cluster, assignment(dependent, agent), DependencyChanged, context=depends)
    expect(not (await cluster.place(dependent, agent, context=omitted)).refused, "an omitted dependency refuses")


async def an_owner_is_limited_over_all_its_sessions_in_a_batch(cluster: StoredCluster) -> None:
    """Earlier sessions count, refused ones do not."""
    policy = ResourcePolicy(cluster.new("policy"), slots_max=SlotLimits({"cpu": 2000}))
    owner = await owned(cluster, user=policy)
    [agent] = await agents(cluster, 1, {"cpu": 9000})
    first, last = await sessions(cluster, 2, ONE_CPU, owner=owner)
    [gang] = await sessions(cluster, 1, ONE_CPU, owner=owner, kernels=2)
    order = [assignment(first, agent), assignment(gang, agent, agent), assignment(last, agent)]
    batch = await cluster.place_all(order)
    expect(allocated(batch) == [first, last], f"allocated were {allocated(batch)}")
    expect(isinstance(batch.refused[SessionId(gang)], QuotaPassed), f"refused with {batch.refused}")


async def the_number_of_sessions_is_limited_in_each_scope(cluster: StoredCluster) -> None:
    """The refusal names the owner; a growing session is not counted again."""
    for scope in ("keypair", "user", "group", "domain"):
        policy = ResourcePolicy(cluster.new("policy"), sessions_max=1)
        owner = await owned(cluster, **{scope: policy})
        [agent] = await agents(cluster, 1, {"cpu": 9000})
        [elastic] = await sessions(cluster, 1, ONE_CPU, owner=owner, kernels=2, min_kernels=1)
        [late] = await sessions(cluster, 1, ONE_CPU, owner=owner)
        await cluster.place(elastic, agent)
        error = await refused(cluster, assignment(late, agent), QuotaPassed)
        expect(f"{scope} " in error.problem and "sessions" in error.problem, f"the refusal says {error.problem}")
        grown = Assignment(SessionId(elastic), ((KernelId(f"{elastic}.1"), AgentId(agent)),))
        expect(not (await cluster.place_all([grown])).refused, "growing counted as a new session")
        await cluster.stop(elastic)
        await cluster.free(elastic, FreeProof.NEVER_SENT)
        expect(not (await cluster.place(late, agent)).refused, "a session that ended still counts")


async def a_limit_applies_from_the_moment_it_is_set(cluster: StoredCluster) -> None:
    """Raised, lowered, or assigned to another owner; nothing is taken away."""
    policy = ResourcePolicy(cluster.new("policy"), slots_max=SlotLimits({"cpu": 1000}))
    owner = await owned(cluster, user=policy)
    [agent] = await agents(cluster, 1, {"cpu": 9000})
    first, second, third = await sessions(cluster, 3, ONE_CPU, owner=owner)
    await cluster.place(first, agent)
    await refused(cluster, assignment(second, agent), QuotaPassed)
    await cluster.put(replace(policy, slots_max=SlotLimits({"cpu": 2000})))
    expect(not (await cluster.place(second, agent)).refused, "a limit that was raised did not count")
    await cluster.put(replace(policy, slots_max=SlotLimits({"cpu": 500})))
    await refused(cluster, assignment(third, agent), QuotaPassed)
    await cluster.put(User(owner.user, owner.domain))
    expect(not (await cluster.place(third, agent)).refused, "a limit that was taken away still counts")


async def concurrent_callers_never_exceed_a_limit(cluster: StoredCluster) -> None:
    """Also the first ones of an owner, on different agents."""
    policy = ResourcePolicy(cluster.new("policy"), slots_max=SlotLimits({"cpu": 3000}))
    for callers in crowds(cluster, 6):
        owner = await owned(cluster, group=policy)
        places = await agents(cluster, 6, ONE_CPU)
        names = await sessions(cluster, 6, ONE_CPU, owner=owner)
        calls = [caller.place(*pair) for caller, *pair in zip(callers, names, places, strict=True)]
        batches = await asyncio.gather(*calls)
        expect(sum(len(batch.allocated) for batch in batches) == 3, "not exactly as many as the limit were allocated")


async def a_dependent_session_waits_for_success(cluster: StoredCluster) -> None:
    """Not for the start, and not for failure or cancellation."""
    [agent] = await agents(cluster, 1, {"cpu": 9000})
    good, bad, cancelled = await sessions(cluster, 3, ONE_CPU)
    names = {one: (await sessions(cluster, 1, ONE_CPU, dependencies=(one,)))[0] for one in (good, bad, cancelled)}
    [both] = await sessions(cluster, 1, ONE_CPU, dependencies=(good, bad))
    await refused(cluster, assignment(names[good], agent), DependencyChanged)
    await finished(cluster, good, agent, exit_code=0)
    await finished(cluster, bad, agent, exit_code=1)
    await cluster.stop(cancelled)
    for name in (names[bad], names[cancelled], both):
        await refused(cluster, assignment(name, agent), DependencyChanged)
    expect(not (await cluster.place(names[good], agent)).refused, "a success did not let the next one start")


async def a_terminating_dependency_has_not_ended(cluster: StoredCluster) -> None:
    """Its success counts when it has ended."""
    [agent] = await agents(cluster, 1, {"cpu": 9000})
    [first] = await sessions(cluster, 1, ONE_CPU)
    [second] = await sessions(cluster, 1, ONE_CPU, dependencies=(SessionId(first),))
    await cluster.place(first, agent)
    await cluster.start(first)
    await cluster.move(first, KernelTrigger.EXITED, BY_AGENT, exit_code=0)
    await refused(cluster, assignment(second, agent), DependencyChanged)


CHECKS: tuple[Check, ...] = (
    slots_in_use_are_refused,
    missing_devices_are_refused,
    a_kernel_limit_is_kept,
    a_session_that_is_not_pending_is_refused,
    kernels_that_are_not_pending_are_refused,
    a_session_assigned_twice_in_a_batch_is_allocated_once,
    fewer_kernels_than_the_minimum_do_not_start,
    an_agent_that_is_not_schedulable_is_refused,
    a_new_incarnation_of_an_agent_is_refused,
    an_agent_that_no_longer_fits_is_refused,
    a_changed_topology_is_refused,
    each_scope_of_an_owner_has_its_limit,
    limits_that_the_decision_did_not_check_are_not_verified,
    an_owner_is_limited_over_all_its_sessions_in_a_batch,
    the_number_of_sessions_is_limited_in_each_scope,
    a_limit_applies_from_the_moment_it_is_set,
    concurrent_callers_never_exceed_a_limit,
    a_dependent_session_waits_for_success,
    a_terminating_dependency_has_not_ended,
)
