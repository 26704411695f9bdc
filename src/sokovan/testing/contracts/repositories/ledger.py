"""Contract of `ports.repositories.ledger.Ledger`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from sokovan.domain.errors import IllegalTransition, StaleVersion
from sokovan.domain.ids import AccessKey, AgentId, KernelId
from sokovan.domain.lifecycle.agent import AgentTrigger
from sokovan.domain.lifecycle.kernel import FreeProof, KernelStatus, KernelTrigger
from sokovan.domain.lifecycle.session import Goal, SessionStatus
from sokovan.domain.owners.past_usage import PastUsage
from sokovan.domain.owners.policy import Scope
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.records import DeviceHold, HeldSlot, KernelRecord, SessionRecord
from sokovan.domain.slots import ResourceSlot
from sokovan.ports.repositories.ledger import UnprovenFree
from sokovan.testing.contracts import expect
from sokovan.testing.contracts.repositories.agents import agent_now, walked
from sokovan.testing.ledger_rows import ledger_rows
from sokovan.testing.stored_cluster import BY_AGENT, BY_COORDINATOR, DEFAULT_GROUP, StoredCluster, refusal

Check: TypeAlias = Callable[[StoredCluster], Awaitable[None]]
SLOTS = {"cpu": 1000, "mem": 1 << 30, "cuda.device": 1}
GONE = (AgentTrigger.HEARTBEAT_MISSED, AgentTrigger.DECLARED_LOST, AgentTrigger.DECLARED_GONE)


async def held(cluster: StoredCluster, agent: str) -> Sequence[HeldSlot]:
    """Slots held on an agent."""
    return await cluster.store.read(lambda unit: unit.ledger.held(AgentId(agent)))


async def rows_of(cluster: StoredCluster, kernel: str) -> Sequence[HeldSlot]:
    """All ledger rows of a kernel."""
    return await ledger_rows(cluster.store, kernel)


async def usage(cluster: StoredCluster, scope: Scope, name: str) -> Mapping[str, int]:
    """Usage of an owner."""
    return await cluster.store.read(lambda unit: unit.ledger.usage(scope, name))


async def freed(cluster: StoredCluster, kernels: Sequence[KernelRecord], proof: FreeProof) -> None:
    """Free kernels from the given records."""
    await cluster.store.run(lambda unit: unit.ledger.free(kernels, proof, BY_COORDINATOR))


async def running(
    cluster: StoredCluster, *, kernels: int = 1, owner: Owner | None = None, sent: bool = True
) -> tuple[str, SessionRecord]:
    """A session on its own agent: RUNNING, or only SCHEDULED."""
    agent, name = cluster.new("a"), cluster.new("s")
    await cluster.agent(agent)
    await cluster.submit(name, kernels=kernels, slots=SLOTS, owner=owner or Owner())
    await cluster.place(name, *[agent] * kernels)
    return agent, await cluster.start(name) if sent else await cluster.session(name)


async def conserved(cluster: StoredCluster, agent: str) -> None:
    """Expect that the occupied slots of an agent are the sum of its unfreed rows."""
    info = (await agent_now(cluster, agent)).info
    rows = await held(cluster, agent)
    sums: Counter[str] = Counter()
    for row in rows:
        sums[row.slot] += row.amount
    expect(ResourceSlot(sums) == info.occupied_slots, f"held are {dict(sums)}, occupied {info.occupied_slots}")
    expect(info.occupied_slots.fits(info.available_slots), "more is occupied than there is")


async def an_allocation_creates_ledger_rows(cluster: StoredCluster) -> None:
    """One per kernel and slot, of this incarnation, not freed."""
    agent, record = await running(cluster, kernels=2)
    rows = await held(cluster, agent)
    found = {(row.kernel_id, row.slot, row.amount) for row in rows}
    expect(found == {(one.kernel_id, *slot) for one in record.kernels for slot in SLOTS.items()}, "rows are wrong")
    rest = {(row.agent_id, row.incarnation, row.freed_ms, row.proof) for row in rows}
    expect(rest == {(agent, 1, None, None)}, f"ledger rows have {rest}")
    await conserved(cluster, agent)


async def freeing_ends_kernel_and_session_and_releases_everything(cluster: StoredCluster) -> None:
    """Slots, devices, the kernel count, and the owner's usage."""
    owner = Owner(user=cluster.new("u"))
    agent, record = await running(cluster, kernels=2, owner=owner)
    await cluster.stop(record.session_id)
    ended = await cluster.free(record.session_id, FreeProof.AGENT_TOMBSTONE)
    expect(ended.status is SessionStatus.TERMINATED, "the session did not follow")
    expect({kernel.status for kernel in ended.kernels} == {KernelStatus.TERMINATED}, "a kernel did not end")
    expect(not await held(cluster, agent), "something is still held")
    info = (await agent_now(cluster, agent)).info
    expect((info.occupied_slots, info.kernel_count) == (ResourceSlot(), 0), "the agent is still occupied")
    expect(not await usage(cluster, Scope.USER, owner.user), "the owner still uses something")
    again = cluster.new("s")
    await cluster.submit(again, slots={"cuda.device": 4})
    expect(not (await cluster.place(again, agent)).refused, "devices were not released")


async def a_freed_row_stays_with_its_time_and_proof(cluster: StoredCluster) -> None:
    """Rows are never deleted."""
    _, record = await running(cluster)
    await cluster.stop(record.session_id)
    await cluster.free(record.session_id, FreeProof.AGENT_TOMBSTONE)
    rows = await rows_of(cluster, record.kernels[0].kernel_id)
    expect({row.slot: row.amount for row in rows} == SLOTS, "freed rows are missing or changed")
    for row in rows:
        expect(row.proof is FreeProof.AGENT_TOMBSTONE, f"the proof of a row is {row.proof}")
        expect(row.freed_ms is not None and row.freed_ms >= row.held_ms, "a row was freed before it was held")


async def the_usage_of_an_owner_is_the_sum_of_its_kernels(cluster: StoredCluster) -> None:
    """In each of the four scopes, and by slot."""
    owner = Owner(cluster.new("u"), cluster.new("g"), cluster.new("d"), AccessKey(cluster.new("k")))
    names = {
        Scope.USER: owner.user,
        Scope.GROUP: owner.group,
        Scope.DOMAIN: owner.domain,
        Scope.KEYPAIR: owner.access_key,
    }
    for scope, name in names.items():
        expect(not await usage(cluster, scope, name), f"a {scope} without sessions uses something")
    _, first = await running(cluster, kernels=2, owner=owner)
    await running(cluster, owner=owner)
    await cluster.stop(first.session_id)
    for factor in (3, 1):
        for scope, name in names.items():
            found = await usage(cluster, scope, name)
            amounts = {slot: found.get(slot) for slot in SLOTS}
            expect(amounts == {slot: factor * n for slot, n in SLOTS.items()}, f"the {scope} uses {found}")
        await cluster.free(first.session_id, FreeProof.AGENT_TOMBSTONE)


async def freeing_is_idempotent(cluster: StoredCluster) -> None:
    """With any proof."""
    agent, record = await running(cluster, kernels=2)
    other = cluster.new("s")
    await cluster.submit(other, slots=SLOTS)
    await cluster.place(other, agent)
    ending = await cluster.stop(record.session_id)
    await freed(cluster, [*ending.kernels, *ending.kernels], FreeProof.AGENT_TOMBSTONE)
    after = await cluster.session(record.session_id)
    for proof in FreeProof:
        await freed(cluster, ending.kernels, proof)
    expect(await cluster.session(record.session_id) == after, "a repeated report changed the session")
    expect({row.kernel_id for row in await held(cluster, agent)} == {f"{other}.0"}, "other slots were freed too")
    await conserved(cluster, agent)


async def concurrent_reports_free_once(cluster: StoredCluster) -> None:
    """Two reports of the same end."""
    agent, record = await running(cluster, kernels=2)
    ending = await cluster.stop(record.session_id)
    await asyncio.gather(*(freed(cluster, ending.kernels, FreeProof.AGENT_TOMBSTONE) for _ in range(4)))
    expect(not await held(cluster, agent), "something is still held")
    await conserved(cluster, agent)


async def a_kernel_that_was_never_sent_is_freed_without_the_agent(cluster: StoredCluster) -> None:
    """One whose creation was requested is not."""
    _, record = await running(cluster, sent=False)
    await cluster.stop(record.session_id)
    await cluster.free(record.session_id, FreeProof.NEVER_SENT)
    agent, record = await running(cluster, sent=False)
    for trigger in (KernelTrigger.IMAGE_READY, KernelTrigger.CREATION_REQUESTED):
        await cluster.move(record.session_id, trigger)
    await cluster.stop(record.session_id)
    await _refused(cluster, record, FreeProof.NEVER_SENT, agent)


async def the_agent_that_ran_a_kernel_proves_its_end(cluster: StoredCluster) -> None:
    """Another incarnation of it does not."""
    _, record = await running(cluster)
    await cluster.stop(record.session_id)
    await cluster.free(record.session_id, FreeProof.AGENT_TOMBSTONE)
    agent, record = await running(cluster)
    await cluster.stop(record.session_id)
    await cluster.agent(agent)
    await _refused(cluster, record, FreeProof.AGENT_TOMBSTONE, agent)


async def a_new_incarnation_proves_the_end_of_the_old_one(cluster: StoredCluster) -> None:
    """The same incarnation proves nothing."""
    agent, record = await running(cluster)
    await cluster.stop(record.session_id)
    await _refused(cluster, record, FreeProof.INCARNATION_FENCED, agent)
    await cluster.agent(agent)
    await cluster.free(record.session_id, FreeProof.INCARNATION_FENCED)


async def an_adopted_kernel_belongs_to_the_new_incarnation(cluster: StoredCluster) -> None:
    """Its process may live, so only the new incarnation proves its end."""
    agent, first = await running(cluster, kernels=2)
    info = (await agent_now(cluster, agent)).info
    found = [(first.kernels[0].kernel_id, first.kernels[0].attempt)]
    await cluster.store.run(lambda unit: unit.fleet.enrol(info, BY_AGENT, adopted=found))
    adopted, lost = (await cluster.stop(first.session_id)).kernels
    expect((adopted.incarnation, lost.incarnation) == (2, 1), "the wrong kernels went over")
    await refusal(freed(cluster, [adopted], FreeProof.INCARNATION_FENCED), UnprovenFree)
    await freed(cluster, [adopted], FreeProof.AGENT_TOMBSTONE)
    await refusal(freed(cluster, [lost], FreeProof.AGENT_TOMBSTONE), UnprovenFree)
    await freed(cluster, [lost], FreeProof.INCARNATION_FENCED)
    await conserved(cluster, agent)


async def kernels_with_slots_are_listed_by_agent(cluster: StoredCluster) -> None:
    """Also those of a force-terminated session."""
    agent, forced = await running(cluster)
    await cluster.stop(forced.session_id, Goal.FORCE)
    listed = await cluster.store.read(lambda unit: unit.ledger.kernels_on(AgentId(agent)))
    expect([kernel.session_id for kernel in listed] == [forced.session_id], f"{listed} are listed")
    await freed(cluster, listed, FreeProof.AGENT_TOMBSTONE)
    left = await cluster.store.read(lambda unit: unit.ledger.kernels_on(AgentId(agent)))
    expect(not left, f"{left} are listed after they were freed")


async def a_host_declared_gone_proves_the_end(cluster: StoredCluster) -> None:
    """A lost host does not: kernels may still run there."""
    agent, record = await running(cluster)
    await cluster.stop(record.session_id)
    await _refused(cluster, record, FreeProof.HOST_GONE, agent)
    await walked(cluster, agent, *GONE[:2])
    await _refused(cluster, record, FreeProof.HOST_GONE, agent)
    await walked(cluster, agent, *GONE[2:])
    await cluster.free(record.session_id, FreeProof.HOST_GONE)


async def _refused(cluster: StoredCluster, record: SessionRecord, proof: FreeProof, agent: str) -> None:
    """Expect that the proof is refused and nothing changes."""
    before = await cluster.session(record.session_id)
    error = await refusal(cluster.free(record.session_id, proof), UnprovenFree)
    expect((error.proof, error.kernel) == (proof.value, before.kernels[0].kernel_id), "the problem is missing")
    expect(await cluster.session(record.session_id) == before, "a refused proof changed the session")
    expect(len(await held(cluster, agent)) == len(SLOTS) * len(before.kernels), "a refused proof freed something")
    await conserved(cluster, agent)


async def freeing_several_kernels_is_atomic(cluster: StoredCluster) -> None:
    """All of them, or none."""
    _, never = await running(cluster, sent=False)
    agent, sent = await running(cluster)
    ending = [await cluster.stop(one.session_id) for one in (never, sent)]
    kernels = [kernel for one in ending for kernel in one.kernels]
    await refusal(freed(cluster, kernels, FreeProof.NEVER_SENT), UnprovenFree)
    expect(await cluster.session(never.session_id) == ending[0], "a part of the call stayed")
    expect(len(await held(cluster, agent)) == len(SLOTS), "a part was freed")


async def kernels_of_many_sessions_and_agents_are_freed_together(cluster: StoredCluster) -> None:
    """The status of each session follows its own kernels."""
    pairs = [await running(cluster, kernels=2) for _ in range(3)]
    ending = [await cluster.stop(record.session_id) for _, record in pairs]
    kernels = [kernel for one in ending for kernel in one.kernels][:-1]
    await freed(cluster, kernels, FreeProof.AGENT_TOMBSTONE)
    statuses = [(await cluster.session(one.session_id)).status for one in ending]
    expected = [SessionStatus.TERMINATED, SessionStatus.TERMINATED, SessionStatus.TERMINATING]
    expect(statuses == expected, f"the sessions are {statuses}")
    for agent, _ in pairs:
        await conserved(cluster, agent)


async def a_running_kernel_is_not_freed(cluster: StoredCluster) -> None:
    """Only TERMINATING kernels are, with any proof."""
    agent, record = await running(cluster)
    await refusal(freed(cluster, record.kernels, FreeProof.AGENT_TOMBSTONE), IllegalTransition)
    expect(len(await held(cluster, agent)) == len(SLOTS), "a running kernel was freed")


async def another_attempt_of_a_kernel_is_not_freed(cluster: StoredCluster) -> None:
    """Nor one on another agent, nor an unknown one."""
    _, record = await running(cluster)
    ending = (await cluster.stop(record.session_id)).kernels[0]
    strangers = [
        replace(ending, attempt=ending.attempt + 1),
        replace(ending, agent_id=AgentId(cluster.new("a"))),
        replace(ending, kernel_id=KernelId(cluster.new("k"))),
    ]
    for stranger in strangers:
        await refusal(freed(cluster, [stranger], FreeProof.AGENT_TOMBSTONE), StaleVersion)


async def a_forced_end_frees_nothing_without_a_proof(cluster: StoredCluster) -> None:
    """Then everything, and the session's end is unchanged."""
    owner = Owner(user=cluster.new("u"))
    agent, record = await running(cluster, kernels=2, owner=owner)
    forced = await cluster.stop(record.session_id, Goal.FORCE)
    expect(len(await held(cluster, agent)) == 2 * len(SLOTS), "force freed something")
    expect((await usage(cluster, Scope.USER, owner.user))["cpu"] == 2000, "force lowered the use")
    after = await cluster.free(record.session_id, FreeProof.AGENT_TOMBSTONE)
    expect((after.status, after.ended_ms) == (forced.status, forced.ended_ms), "the end of the session moved")
    expect(not await held(cluster, agent), "a proof did not free the slots of a forced session")
    expect(not await usage(cluster, Scope.USER, owner.user), "its owner still uses something")


async def a_kernel_without_slots_is_freed_too(cluster: StoredCluster) -> None:
    """It counts against the agent's kernel limit."""
    agent, name = cluster.new("a"), cluster.new("s")
    await cluster.agent(agent, kernels_max=1)
    await cluster.submit(name, slots={})
    await cluster.place(name, agent)
    expect((await agent_now(cluster, agent)).info.kernel_count == 1, "it takes no place")
    await cluster.stop(name)
    ended = await cluster.free(name, FreeProof.NEVER_SENT)
    expect(ended.status is SessionStatus.TERMINATED, "it did not end")
    expect((await agent_now(cluster, agent)).info.kernel_count == 0, "it keeps its place")


async def an_exit_code_that_comes_with_the_proof_is_stored(cluster: StoredCluster) -> None:
    """Unless one is stored already."""
    agent, stopped, ended = cluster.new("a"), cluster.new("s"), cluster.new("s")
    await cluster.agent(agent)
    for name in (stopped, ended):
        await cluster.submit(name)
        await cluster.place(name, agent)
        await cluster.start(name)
    await cluster.stop(stopped)
    await cluster.move(ended, KernelTrigger.EXITED, BY_AGENT, exit_code=3)
    records = [await cluster.session(name) for name in (stopped, ended)]
    kernels = [replace(record.kernels[0], exit_code=143) for record in records]
    await cluster.store.run(lambda unit: unit.ledger.free(kernels, FreeProof.AGENT_TOMBSTONE, BY_COORDINATOR))
    codes = [(await cluster.session(name)).kernels[0].exit_code for name in (stopped, ended)]
    expect(codes == [143, 3], f"the exit codes are {codes}")


async def past_of(cluster: StoredCluster, name: str) -> dict[tuple[str, str], PastUsage]:
    """Past usage of this name, by scope and slot."""
    rows = await cluster.store.read(lambda unit: unit.ledger.past_usage(DEFAULT_GROUP, names=[name]))
    expect({row.key.name for row in rows} <= {name}, "another name was read")
    return {(row.key.scope, row.key.slot): row for row in rows}


async def held_slots_are_recorded_as_past_usage(cluster: StoredCluster) -> None:
    """For user, group and queue: from the allocation on, and no longer after the end."""
    user = cluster.new("u")
    _, record = await running(cluster, kernels=2, owner=Owner(user=user))
    before = await past_of(cluster, user)
    expect({slot: row.held for (_, slot), row in before.items()} == {k: 2 * v for k, v in SLOTS.items()}, f"{before}")
    for scope, name in (("user", user), ("group", "default"), ("queue", "default")):
        expect((scope, "cpu") in await past_of(cluster, name), f"no past usage of {scope} {name}")
    await cluster.elapse(0.05)
    await cluster.stop(record.session_id)
    await cluster.free(record.session_id, FreeProof.AGENT_TOMBSTONE)
    after = await past_of(cluster, user)
    expect({row.held for row in after.values()} == {0}, f"after the end {after} is held")
    device = after["user", "cuda.device"]
    passed = device.at_ms - before["user", "cuda.device"].at_ms
    expect(device.amount == 2 * passed > 0, f"{device} after {passed} ms")


async def past_usage_is_recorded_once(cluster: StoredCluster) -> None:
    """A repeated report of the end changes nothing."""
    user = cluster.new("u")
    _, record = await running(cluster, owner=Owner(user=user))
    await cluster.stop(record.session_id)
    await cluster.free(record.session_id, FreeProof.AGENT_TOMBSTONE)
    once = await past_of(cluster, user)
    await cluster.elapse(0.05)
    await cluster.free(record.session_id, FreeProof.AGENT_TOMBSTONE)
    expect(await past_of(cluster, user) == once, "a repeated report was counted again")


async def held_devices_are_listed_with_their_session(cluster: StoredCluster) -> None:
    """As long as they are held, by agent and device."""
    user = cluster.new("u")
    agent, record = await running(cluster, kernels=2, owner=Owner(user=user))

    async def on_agent() -> list[tuple[str, int, str, str]]:
        found = await cluster.store.read(lambda unit: unit.ledger.held_devices())
        mine = [one for one in found if one.agent_id == agent]
        expect([one.device_id for one in mine] == sorted(one.device_id for one in mine), f"{mine} is not in order")
        return [(one.device_id, one.units, one.session_id, one.user) for one in mine]

    holds = [(device, 1, record.session_id, user) for one in record.kernels for device in one.devices["cuda.device"]]
    expect(await on_agent() == sorted(holds), f"{await on_agent()} is held, not {holds}")
    await cluster.stop(record.session_id)
    await cluster.free(record.session_id, FreeProof.AGENT_TOMBSTONE)
    expect(await on_agent() == [], "devices are held after the end")


async def held_devices_are_listed_of_some_agents(cluster: StoredCluster) -> None:
    """And the stamp of an agent says whether they are others than before."""
    (one, first), (other, _) = await running(cluster, kernels=2), await running(cluster, kernels=1)

    async def of(*agents: str) -> list[str]:
        named = [AgentId(agent) for agent in agents]
        return [hold.agent_id for hold in await cluster.store.read(lambda unit: unit.ledger.held_devices(named))]

    async def stamp() -> int:
        return (await cluster.store.read(lambda unit: unit.fleet.get(AgentId(one)))).stamp

    expect(await of() == [], "without agents there is nothing to list")
    expect(await of(one) == [one, one], f"{await of(one)} are listed, and not the two of {one}")
    expect(sorted(await of(other, one)) == sorted([one, one, other]), "the devices of both agents are not listed")
    before = await stamp()
    await cluster.stop(first.session_id)
    await cluster.free(first.session_id, FreeProof.AGENT_TOMBSTONE)
    expect(await of(one) == [], "devices are held after the end")
    expect(await stamp() != before, "devices were freed, and the stamp of their agent is as before")


async def device_times_are_listed_after_the_end(cluster: StoredCluster) -> None:
    """With their beginning and end, for a time that they reach into."""
    agent, record = await running(cluster, kernels=2)
    [first, *_] = await rows_of(cluster, record.kernels[0].kernel_id)

    async def within(from_ms: int, to_ms: int, *, most: int = 10) -> Sequence[DeviceHold]:
        agents = [AgentId(agent)]
        times = await cluster.store.read(
            lambda unit: unit.ledger.device_times(agents, from_ms=from_ms, to_ms=to_ms, most=most)
        )
        return times.holds

    later_ms = first.held_ms + 1_000_000
    held_now = await within(first.held_ms, later_ms)
    expect([one.to_ms for one in held_now] == [None, None], f"{held_now} are not held")
    expect({one.from_ms for one in held_now} == {first.held_ms}, "they do not begin with their slots")
    expect(await within(0, first.held_ms) == [], "they are listed before they began")
    await cluster.elapse(0.05)
    await cluster.stop(record.session_id)
    await cluster.free(record.session_id, FreeProof.AGENT_TOMBSTONE)
    [row, *_] = await rows_of(cluster, record.kernels[0].kernel_id)
    ended = await within(first.held_ms, later_ms)
    expect([one.to_ms for one in ended] == [row.freed_ms, row.freed_ms], f"{ended} did not end at {row.freed_ms}")
    expect([one.device for one in ended] == [one.device for one in held_now], "other devices are listed")
    expect(len(await within(first.held_ms, later_ms, most=1)) == 1, "more are listed than were wanted")
    expect(await within((row.freed_ms or 0) + 1, later_ms) == [], "they are listed after they ended")


CHECKS: tuple[Check, ...] = (
    device_times_are_listed_after_the_end,
    held_devices_are_listed_with_their_session,
    held_devices_are_listed_of_some_agents,
    held_slots_are_recorded_as_past_usage,
    past_usage_is_recorded_once,
    an_exit_code_that_comes_with_the_proof_is_stored,
    an_allocation_creates_ledger_rows,
    freeing_ends_kernel_and_session_and_releases_everything,
    a_freed_row_stays_with_its_time_and_proof,
    the_usage_of_an_owner_is_the_sum_of_its_kernels,
    freeing_is_idempotent,
    concurrent_reports_free_once,
    a_kernel_that_was_never_sent_is_freed_without_the_agent,
    the_agent_that_ran_a_kernel_proves_its_end,
    a_new_incarnation_proves_the_end_of_the_old_one,
    an_adopted_kernel_belongs_to_the_new_incarnation,
    kernels_with_slots_are_listed_by_agent,
    a_host_declared_gone_proves_the_end,
    freeing_several_kernels_is_atomic,
    kernels_of_many_sessions_and_agents_are_freed_together,
    a_running_kernel_is_not_freed,
    another_attempt_of_a_kernel_is_not_freed,
    a_forced_end_frees_nothing_without_a_proof,
    a_kernel_without_slots_is_freed_too,
)
