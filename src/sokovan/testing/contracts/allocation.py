"""Contract of `ports.allocation`: results of allocations.

Refusals are in `allocation_refusals`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

from sokovan.domain.errors import FencedOut
from sokovan.domain.events import KernelMoved, SessionMoved
from sokovan.domain.ids import AgentId, KernelId, ScalingGroupName, SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.session import KernelSpec, ServicePort, SessionSpec
from sokovan.domain.slots import ResourceSlot
from sokovan.ports.allocation import (
    AllocationContext,
    AllocationRefused,
    Assignment,
    BatchResult,
    SessionNotWaiting,
)
from sokovan.scheduling.selectors.base import AgentSelection
from sokovan.scheduling.snapshot import SessionWorkload
from sokovan.testing.contracts import expect
from sokovan.testing.contracts.repositories.agents import agent_now
from sokovan.testing.contracts.repositories.ledger import conserved, held
from sokovan.testing.contracts.repositories.sessions import enqueue_together
from sokovan.testing.contracts.storage import published
from sokovan.testing.stored_cluster import BY_USER, StoredCluster, assignment, refusal, session_spec

Check: TypeAlias = Callable[[StoredCluster], Awaitable[None]]
ONE_CPU = {"cpu": 1000}


async def agents(cluster: StoredCluster, count: int, slots: Mapping[str, int], **options: Any) -> list[str]:
    """New agents of equal capacity."""
    names = [cluster.new("a") for _ in range(count)]
    for name in names:
        await cluster.agent(name, slots=slots, **options)
    return names


async def sessions(cluster: StoredCluster, count: int, slots: Mapping[str, int], **options: Any) -> list[str]:
    """New sessions with equal requests."""
    names = [cluster.new("s") for _ in range(count)]
    for name in names:
        await cluster.submit(name, slots=slots, **options)
    return names


async def workload(cluster: StoredCluster, name: str, group: str = "default") -> SessionWorkload:
    """The workload of a session."""
    await cluster.snapshots.refresh()
    found = (await cluster.snapshots.snapshot(ScalingGroupName(group))).sessions
    return next(one for one in found if one.session_id == name)


def crowds(cluster: StoredCluster, count: int) -> list[list[StoredCluster]]:
    """Concurrent callers: all in one process, and each in its own."""
    return [[cluster] * count, [StoredCluster(cluster.store) for _ in range(count)]]


def allocated(batch: BatchResult) -> list[str]:
    """The sessions that a batch allocated."""
    return [result.session_id for result in batch.allocated]


async def an_allocated_session_is_scheduled(cluster: StoredCluster) -> None:
    """Kernels, agents and the result agree."""
    first, second = await agents(cluster, 2, {"cpu": 4000})
    [name] = await sessions(cluster, 1, ONE_CPU, kernels=3)
    batch = await cluster.place(name, first, second, first)
    record = await cluster.session(name)
    expect(record.status is SessionStatus.SCHEDULED, f"the session is {record.status}")
    expect([kernel.agent_id for kernel in record.kernels] == [first, second, first], "a kernel is elsewhere")
    expect({kernel.status for kernel in record.kernels} == {KernelStatus.SCHEDULED}, "a kernel is not SCHEDULED")
    [result] = batch.allocated
    expect(result.kernels == record.kernels, "the result has other kernels than the store")
    expect(result.scheduled_at == datetime.fromtimestamp((record.scheduled_ms or 0) / 1000, tz=UTC), "the time")
    expected = {first: ResourceSlot({"cpu": 2000}), second: ResourceSlot(ONE_CPU)}
    expect(dict(result.agent_allocations) == expected, f"the agents took {result.agent_allocations}")
    for agent in (first, second):
        expect((await agent_now(cluster, agent)).info.occupied_slots == expected[agent], "an agent is not occupied")
        await conserved(cluster, agent)


async def a_known_session_is_allocated_as_if_it_was_read(cluster: StoredCluster) -> None:
    """With labels, ports and ranks; some kernels first, and the rest later."""
    [agent] = await agents(cluster, 1, {"cpu": 9000}, labels={"zone": "a"})
    read, known = [await _in_zone(cluster, "a") for _ in range(2)]
    for placed in ((0, 1), (2,)):
        before = await cluster.session(known)
        for name in (read, known):
            context = AllocationContext(known={before.session_id: before} if name == known else {})
            kernels = tuple((KernelId(f"{name}.{index}"), AgentId(agent)) for index in placed)
            [result] = (await cluster.place_all([Assignment(SessionId(name), kernels)], context=context)).allocated
            now = await cluster.session(name)
            expect(result.session == (now if name == known else None), f"the result has {result.session}, not {now}")
            expect(result.kernels == tuple(now.kernels[index] for index in placed), "the kernels of the result")
        same, other = await cluster.session(read), await cluster.session(known)
        for one, two in zip(same.kernels, other.kernels, strict=True):
            expect((one.status, one.rank, sorted(one.host_ports)) == (two.status, two.rank, sorted(two.host_ports)), "")
    elsewhere = await agents(cluster, 1, {"cpu": 9000}, labels={"zone": "b"})
    name = await _in_zone(cluster, "a")
    context = AllocationContext(known={SessionId(name): await cluster.session(name)})
    expect(not (await cluster.place(name, *elsewhere * 3, context=context)).allocated, "a label was not required")


async def _in_zone(cluster: StoredCluster, zone: str) -> str:
    """A session of three kernels, two of them at least, with a port, for agents of a zone."""
    name = cluster.new("s")
    kernels = tuple(
        KernelSpec(KernelId(f"{name}.{index}"), ResourceSlot(ONE_CPU), require={"zone": zone}) for index in range(3)
    )
    spec = SessionSpec(SessionId(name), kernels, min_kernels=2, ports=(ServicePort("web"),))
    await cluster.store.run(lambda unit: unit.sessions.enqueue(spec, BY_USER))
    return name


async def a_known_session_that_has_changed_is_read_again(cluster: StoredCluster) -> None:
    """Its earlier state does not count."""
    [agent] = await agents(cluster, 1, {"cpu": 9000})
    [name] = await sessions(cluster, 1, ONE_CPU)
    context = AllocationContext(known={SessionId(name): await cluster.session(name)})
    await cluster.stop(name)
    batch = await cluster.place(name, agent, context=context)
    expect(isinstance(batch.refused.get(SessionId(name)), SessionNotWaiting), f"it was not refused: {batch}")


async def an_empty_batch_gives_an_empty_result(cluster: StoredCluster) -> None:
    """Nothing is written."""
    expect(await cluster.place_all([]) == BatchResult((), {}), "an empty batch did something")


async def an_allocation_is_recorded_with_its_author(cluster: StoredCluster) -> None:
    """In the histories, and in the events of the same commit."""
    [agent] = await agents(cluster, 1, ONE_CPU)
    [name] = await sessions(cluster, 1, ONE_CPU)
    await published(cluster)
    await cluster.place(name, agent, context=AllocationContext(who="m7"))
    results = await cluster.store.read(lambda unit: unit.sessions.history(SessionId(name), kernels=True))
    last = [entry for _, entry in results if entry.trigger == "allocated"]
    expect([entry.change.who for entry in last] == ["m7", "m7"], "the history does not have the allocator")
    kinds = {type(event) for event in await published(cluster)}
    expect(kinds == {SessionMoved, KernelMoved}, "an allocation was not published")


async def a_whole_session_goes_to_one_agent(cluster: StoredCluster) -> None:
    """`allocate` places all pending kernels."""
    [agent] = await agents(cluster, 1, {"cpu": 4000})
    [name] = await sessions(cluster, 1, ONE_CPU, kernels=3)
    selection = AgentSelection(AgentId(agent))
    result = await cluster.allocator.allocate(await workload(cluster, name), selection, AllocationContext())
    expect({kernel.agent_id for kernel in result.kernels} == {agent}, "a kernel is elsewhere")
    expect(len(result.kernels) == 3, "a kernel was left out")


async def a_gang_goes_to_many_agents_in_one_step(cluster: StoredCluster) -> None:
    """`allocate_cluster` raises the refusal of the batch."""
    names = await agents(cluster, 2, ONE_CPU)
    first, second = await sessions(cluster, 2, ONE_CPU, kernels=2)
    session = await workload(cluster, first)
    pairs = [(kernel, AgentId(agent)) for kernel, agent in zip(session.kernels, names, strict=True)]
    result = await cluster.allocator.allocate_cluster(session, pairs, AllocationContext())
    expect([kernel.agent_id for kernel in result.kernels] == names, "a kernel is elsewhere")
    other = await workload(cluster, second)
    pairs = [(kernel, AgentId(agent)) for kernel, agent in zip(other.kernels, names, strict=True)]
    await refusal(cluster.allocator.allocate_cluster(other, pairs, AllocationContext()), AllocationRefused)


async def a_gang_is_allocated_completely_or_not_at_all(cluster: StoredCluster) -> None:
    """If one kernel does not fit, nothing is taken."""
    wide, narrow = (await agents(cluster, 1, {"cpu": 4000}))[0], (await agents(cluster, 1, {"cpu": 500}))[0]
    [name] = await sessions(cluster, 1, ONE_CPU, kernels=3)
    before = await cluster.session(name)
    refused = (await cluster.place(name, wide, wide, narrow)).refused
    expect(isinstance(refused[SessionId(name)], AllocationRefused), f"refused with {refused}")
    expect(await cluster.session(name) == before, "a part of the gang was allocated")
    expect(not await held(cluster, wide), "a part of the gang holds slots")
    expect(not (await cluster.place(name, wide, wide, wide)).refused, "a refused gang cannot try again")


async def a_session_above_its_minimum_grows(cluster: StoredCluster) -> None:
    """Pending kernels may be allocated later, one by one."""
    [agent] = await agents(cluster, 1, {"cpu": 3000})
    [name] = await sessions(cluster, 1, ONE_CPU, kernels=3, min_kernels=1)
    await cluster.place(name, agent)
    await cluster.start(name)
    for index in (2, 1):
        grown = assignment(name)
        pairs = ((KernelId(f"{name}.{index}"), AgentId(agent)),)
        batch = await cluster.place_all([type(grown)(grown.session_id, pairs)])
        expect(not batch.refused, f"growing was refused: {batch.refused}")
    record = await cluster.session(name)
    expect(record.status is SessionStatus.RUNNING, f"growing made the session {record.status}")
    expect(len(await held(cluster, agent)) == 3, "a kernel that followed holds nothing")
    await conserved(cluster, agent)


async def a_refusal_does_not_affect_other_sessions(cluster: StoredCluster) -> None:
    """The rest of the batch commits, in the given order."""
    [agent] = await agents(cluster, 1, {"cpu": 3000})
    small = await sessions(cluster, 3, ONE_CPU)
    [large] = await sessions(cluster, 1, {"cpu": 2500})
    missing = cluster.new("s")
    order = [small[0], large, missing, small[1], small[2]]
    batch = await cluster.place_all([assignment(name, agent) for name in order])
    expect(allocated(batch) == small, f"allocated were {allocated(batch)}")
    expect(set(batch.refused) == {large, missing}, f"refused were {set(batch.refused)}")
    await conserved(cluster, agent)


async def sessions_of_a_batch_are_served_in_order(cluster: StoredCluster) -> None:
    """Each sees what the earlier ones took."""
    [agent] = await agents(cluster, 1, {"cpu": 2000})
    names = await sessions(cluster, 4, ONE_CPU)
    batch = await cluster.place_all([assignment(name, agent) for name in reversed(names)])
    expect(allocated(batch) == [names[3], names[2]], f"allocated were {allocated(batch)}")


async def a_large_batch_is_served_in_its_order_on_every_agent(cluster: StoredCluster) -> None:
    """However it is partitioned: as many as fit, the first ones, each reported once."""
    names = await agents(cluster, 6, {"cpu": 15_000})
    waiting = [cluster.new("s") for _ in range(120)]
    await enqueue_together(cluster, [session_spec(name, slots=ONE_CPU) for name in waiting])
    requested = [assignment(name, names[index % 6]) for index, name in enumerate(waiting)]
    batch = await cluster.place_all(requested)
    expect(allocated(batch) == waiting[:90], "not the first ones of each agent were allocated, in the order given")
    expect(set(batch.refused) == set(waiting[90:]), "the others were not refused")
    for name in names:
        await conserved(cluster, name)


async def concurrent_callers_never_exceed_the_capacity(cluster: StoredCluster) -> None:
    """As many as fit are allocated; each caller gets its own results."""
    for callers in crowds(cluster, 10):
        pair = await agents(cluster, 2, {"cpu": 3000})
        names = await sessions(cluster, 10, ONE_CPU)
        calls = [callers[index].place(name, pair[index % 2]) for index, name in enumerate(names)]
        batches = await asyncio.gather(*calls)
        expect(sum(len(batch.allocated) for batch in batches) == 6, "not exactly as many as fit were allocated")
        for name, batch in zip(names, batches, strict=True):
            results = [*allocated(batch), *batch.refused]
            expect(results == [name], f"the caller of {name} got results for {results}")
        for agent in pair:
            await conserved(cluster, agent)


async def concurrent_callers_for_one_session_make_one_allocation(cluster: StoredCluster) -> None:
    """One caller gets the allocation, and the others are refused."""
    for callers in crowds(cluster, 4):
        names = await agents(cluster, 4, {"cpu": 3000})
        [name] = await sessions(cluster, 1, ONE_CPU)
        calls = [caller.place(name, agent) for caller, agent in zip(callers, names, strict=True)]
        batches = await asyncio.gather(*calls)
        won = [batch for batch in batches if batch.allocated]
        expect(len(won) == 1, f"{len(won)} callers got the allocation of the session")
        expect(not won[0].refused, "the successful caller was refused as well")
        lost = [error for batch in batches for error in batch.refused.values()]
        expect([type(error) for error in lost] == [SessionNotWaiting] * 3, f"the others got {lost}")
        kernel = (await cluster.session(name)).kernels[0]
        expect(won[0].allocated[0].kernels == (kernel,), "the successful caller got another placement")


async def a_refused_caller_leaves_the_session_to_the_next(cluster: StoredCluster) -> None:
    """An invalid placement does not affect a concurrent valid one."""
    [agent] = await agents(cluster, 1, {"cpu": 3000})
    [name] = await sessions(cluster, 1, ONE_CPU)
    bad, good = await asyncio.gather(cluster.place(name, cluster.new("a")), cluster.place(name, agent))
    expect(list(bad.refused) == [name] and not bad.allocated, f"the bad place gave {bad}")
    expect(allocated(good) == [name] and not good.refused, f"the good place gave {good}")


async def the_hypernode_is_stored_with_the_session(cluster: StoredCluster) -> None:
    """It is the one that the decision chose."""
    [agent] = await agents(cluster, 1, ONE_CPU)
    [name] = await sessions(cluster, 1, ONE_CPU)
    await cluster.place_all([assignment(name, agent, hypernode="rack1")])
    expect((await cluster.session(name)).hypernode == "rack1", "the HyperNode was lost")


async def the_domains_of_kernel_groups_are_stored_with_the_session(cluster: StoredCluster) -> None:
    """By partition and label value."""
    [agent] = await agents(cluster, 1, {"cpu": 4000})
    [name] = await sessions(cluster, 1, ONE_CPU)
    domains = {"stages/0": "rack1", "stages/1": "rack2"}
    await cluster.place_all([assignment(name, agent, group_domains=domains)])
    expect((await cluster.session(name)).group_domains == domains, "the domains of the groups were lost")


async def only_the_leader_allocates(cluster: StoredCluster) -> None:
    """A replaced leader is fenced out, and nothing is taken."""
    [agent] = await agents(cluster, 1, {"cpu": 2000})
    [name] = await sessions(cluster, 1, ONE_CPU)
    lease_name = cluster.new("lease")
    old = await cluster.leases.acquire(lease_name, holder="m1", ttl_s=60)
    if old is None:
        raise AssertionError("a free lease was refused")
    await cluster.leases.release(old)
    new = await cluster.leases.acquire(lease_name, holder="m2", ttl_s=60)
    await refusal(cluster.place(name, agent, context=AllocationContext(fence=old.fence)), FencedOut)
    expect((await cluster.session(name)).status is SessionStatus.PENDING, "a leader that was replaced allocated")
    expect(not await held(cluster, agent), "a leader that was replaced took slots")
    await cluster.place(name, agent, context=AllocationContext(fence=None if new is None else new.fence))
    [*_, (_, entry)] = await cluster.store.read(lambda unit: unit.sessions.history(SessionId(name)))
    expect((entry.lease, entry.epoch) == (lease_name, 2), "the history does not have the leader")


async def a_replaced_leader_does_not_affect_concurrent_callers(cluster: StoredCluster) -> None:
    """Concurrent calls with different fences have separate results."""
    [agent] = await agents(cluster, 1, {"cpu": 4000})
    names = await sessions(cluster, 4, ONE_CPU)
    lease = await cluster.leases.acquire(cluster.new("lease"), holder="m1", ttl_s=60)
    if lease is None:
        raise AssertionError("a free lease was refused")
    await cluster.leases.release(lease)
    await cluster.leases.acquire(lease.name, holder="m2", ttl_s=60)
    old, free = AllocationContext(fence=lease.fence), AllocationContext()
    calls = [cluster.place(name, agent, context=old if index % 2 else free) for index, name in enumerate(names)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    fenced = [isinstance(result, FencedOut) for result in results]
    expect(fenced == [False, True, False, True], f"fenced out were {fenced}")


CHECKS: tuple[Check, ...] = (
    an_allocated_session_is_scheduled,
    a_known_session_is_allocated_as_if_it_was_read,
    a_known_session_that_has_changed_is_read_again,
    an_empty_batch_gives_an_empty_result,
    an_allocation_is_recorded_with_its_author,
    a_whole_session_goes_to_one_agent,
    a_gang_goes_to_many_agents_in_one_step,
    a_gang_is_allocated_completely_or_not_at_all,
    a_session_above_its_minimum_grows,
    a_refusal_does_not_affect_other_sessions,
    sessions_of_a_batch_are_served_in_order,
    a_large_batch_is_served_in_its_order_on_every_agent,
    concurrent_callers_never_exceed_the_capacity,
    concurrent_callers_for_one_session_make_one_allocation,
    a_refused_caller_leaves_the_session_to_the_next,
    the_hypernode_is_stored_with_the_session,
    the_domains_of_kernel_groups_are_stored_with_the_session,
    only_the_leader_allocates,
    a_replaced_leader_does_not_affect_concurrent_callers,
)
