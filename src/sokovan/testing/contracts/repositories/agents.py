"""Contract of `ports.repositories.agents`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from sokovan.domain.cluster.agent import RUNTIME_LABEL, RUNTIMES, AgentInfo
from sokovan.domain.cluster.agent_health import HEALTHY, AgentFailure, AgentHealth
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.errors import Conflict, ForbiddenCause, IllegalTransition, ObjectNotFound, StaleVersion
from sokovan.domain.ids import AgentId, ScalingGroupName, SessionId
from sokovan.domain.lifecycle.agent import AgentStatus, AgentTrigger
from sokovan.domain.lifecycle.kernel import FreeProof
from sokovan.domain.records import AgentRecord, Change, Device, HistoryEntry
from sokovan.domain.slots import ResourceSlot
from sokovan.ports.repositories.agents import AgentProfile, NewAgent, SlotRoom
from sokovan.testing.contracts import expect
from sokovan.testing.stored_cluster import BY_AGENT, BY_COORDINATOR, BY_USER, StoredCluster, refusal

Check: TypeAlias = Callable[[StoredCluster], Awaitable[None]]
GPU = "cuda.device"


async def agent_now(cluster: StoredCluster, name: str) -> AgentRecord:
    """The current record of an agent."""
    return await cluster.store.read(lambda unit: unit.fleet.get(AgentId(name)))


async def moved(cluster: StoredCluster, agent: AgentRecord, trigger: AgentTrigger, change: Change) -> AgentRecord:
    """Move an agent from the given record."""
    return await cluster.store.run(lambda unit: unit.fleet.move(agent, trigger, change))


async def walked(cluster: StoredCluster, name: str, *steps: AgentTrigger) -> AgentRecord:
    """An agent after these moves, each by its first permitted cause."""
    record = await agent_now(cluster, name)
    for trigger in steps:
        change = {AgentTrigger.LEFT: BY_AGENT, AgentTrigger.HEARTBEAT_RESUMED: BY_AGENT}.get(trigger, BY_COORDINATOR)
        by_user = {AgentTrigger.DRAIN_REQUESTED, AgentTrigger.DRAIN_REVOKED, AgentTrigger.DECLARED_GONE}
        record = await moved(cluster, record, trigger, BY_USER if trigger in by_user else change)
    return record


async def failing(cluster: StoredCluster, name: str) -> AgentRecord:
    """An agent that gets no kernels, because it failed sessions."""
    record = await agent_now(cluster, name)
    return await cluster.store.run(lambda unit: unit.fleet.set_health(record, AgentHealth(failing_ms=1)))


async def agent_history(cluster: StoredCluster, name: str) -> Sequence[HistoryEntry]:
    """The history of an agent."""
    return await cluster.store.read(lambda unit: unit.fleet.history(AgentId(name)))


async def running_on(cluster: StoredCluster, agent: str, slots: Mapping[str, int], **options: Any) -> str:
    """A session with one kernel on this agent."""
    name = cluster.new("s")
    await cluster.submit(name, slots=slots, **options)
    result = await cluster.place(name, agent)
    expect(not result.refused, f"the set-up was refused: {result.refused}")
    await cluster.start(name)
    return name


async def ended(cluster: StoredCluster, session: str, proof: FreeProof) -> None:
    """Stop a session and free its slots."""
    await cluster.stop(session)
    await cluster.free(session, proof)


async def a_new_agent_is_alive_with_its_reported_resources(cluster: StoredCluster) -> None:
    """All fields are stored; nothing is in use."""
    group = ScalingGroupName(cluster.new("group"))
    await cluster.put(ScalingGroup(name=group))
    info = AgentInfo(
        AgentId(cluster.new("a")),
        ResourceSlot({"cpu": 8000, "mem": 2**40, "cuda.shares": 30}),
        architecture="aarch64",
        labels={"zone": "a b", "näme": "' \" \\ %s :x"},
        kernels_max=7,
        scaling_group=group,
        shard="s1",
        cached_images=frozenset({"python:3.11", "torch:2"}),
    )
    devices = (Device("gpu0", "cuda.shares", units=10), Device("gpu1", "cuda.shares", units=20))
    record = await cluster.store.run(lambda unit: unit.fleet.enrol(info, BY_AGENT, devices=devices))
    expect(record.info == info, "a new agent is not what it reported")
    expect(record.devices == devices, "its devices are not what it reported")
    expect((record.info.status, record.info.incarnation) == (AgentStatus.ALIVE, 1), "it is not new and alive")
    expect(await agent_now(cluster, info.agent_id) == record, "enrol gave another record than get")


async def new_agents_are_enrolled_together_or_not_at_all(cluster: StoredCluster) -> None:
    """Each as by itself; a known one among them leaves all as they were."""
    names = [AgentId(cluster.new("a")) for _ in range(3)]
    slots = ResourceSlot({"cpu": 8000, "cuda.shares": 30})
    devices = (Device("gpu0", "cuda.shares", units=10), Device("gpu1", "cuda.shares", units=20))
    infos = [AgentInfo(name, slots, labels={"zone": name}, cached_images=frozenset({"host"})) for name in names]
    new = [NewAgent(info, Change(f"agent {info.agent_id}", BY_AGENT.by, "enrolled"), devices) for info in infos]
    expect(await cluster.store.run(lambda unit: unit.fleet.enrol_new(new[:2])), "new agents were not enrolled")
    expect(not await cluster.store.run(lambda unit: unit.fleet.enrol_new(new)), "a known agent was enrolled as new")
    found = await cluster.store.read(lambda unit: unit.fleet.all(named=[*names, AgentId("\x00 no name")]))
    expect([one.info for one in found] == infos[:2], f"the agents are {[one.info.agent_id for one in found]}")
    expect(all(one.devices == devices and one.version == 1 for one in found), "their devices are not theirs")
    [entry] = await cluster.store.read(lambda unit: unit.fleet.history(names[1]))
    expect((entry.change.who, entry.trigger) == (f"agent {names[1]}", "enrolled"), f"the history has {entry}")
    again = await cluster.store.run(lambda unit: unit.fleet.enrol(infos[0], BY_AGENT, devices=devices))
    expect(again.info.incarnation == found[0].info.incarnation + 1, "the next enrolment is no second incarnation")


async def images_are_added_to_their_incarnation_only(cluster: StoredCluster) -> None:
    """Repeated ones change nothing; a new enrolment begins with its own."""
    name = AgentId(cluster.new("a"))
    agent = await cluster.agent(name, cached_images=frozenset({"host"}))
    for incarnation, image in ((1, "venv:a"), (1, "venv:a"), (2, "venv:b"), (0, "venv:c")):
        await cluster.store.run(lambda unit, i=incarnation, m=image: unit.fleet.add_images(name, i, [m]))  # type: ignore[misc]  # defaults bind the loop's names
    after = await agent_now(cluster, name)
    expect(after.info.cached_images == {"host", "venv:a"}, f"the images are {sorted(after.info.cached_images)}")
    expect(after.version == agent.version, "an image is no change of the agent's state")
    again = await cluster.agent(name)
    expect(again.info.cached_images == frozenset(), "a new incarnation has the images of the one before")


async def each_enrolment_is_a_new_incarnation(cluster: StoredCluster) -> None:
    """With the new report, and the same id."""
    name = cluster.new("a")
    first = await cluster.agent(name, labels={"zone": "a"})
    second = await cluster.agent(name, slots={"cpu": 16000}, kernels_max=3, architecture="aarch64")
    expect(second.info.incarnation == first.info.incarnation + 1, "the incarnation did not rise by one")
    expect(second.version > first.version, "the version did not rise")
    expect(second.info.available_slots == ResourceSlot({"cpu": 16000}), "the capacity is not what was reported")
    found = (second.info.labels, second.info.kernels_max, second.info.architecture, second.devices)
    expect(found == ({}, 3, "aarch64", ()), f"what was not reported again is still there: {found}")


async def concurrent_enrolments_of_an_agent_are_serialized(cluster: StoredCluster) -> None:
    """Each gets its own incarnation."""
    name = cluster.new("a")
    records = await asyncio.gather(*(cluster.agent(name) for _ in range(3)))
    incarnations = sorted(record.info.incarnation for record in records)
    expect(incarnations == [1, 2, 3], f"three enrolments gave the incarnations {incarnations}")


async def a_suspect_or_lost_agent_rejoins_alive(cluster: StoredCluster) -> None:
    """By the legal move of the lifecycle."""
    cases = {
        "heartbeat_resumed": (AgentTrigger.HEARTBEAT_MISSED,),
        "rejoined": (AgentTrigger.HEARTBEAT_MISSED, AgentTrigger.DECLARED_LOST),
    }
    for trigger, steps in cases.items():
        name = cluster.new("a")
        await cluster.agent(name)
        await walked(cluster, name, *steps)
        record = await cluster.agent(name)
        expect(record.info.status is AgentStatus.ALIVE, f"it came back {record.info.status}")
        expect((await agent_history(cluster, name))[-1].trigger == trigger, f"it did not come back by {trigger}")


async def draining_survives_a_heartbeat_timeout_loss_and_a_restart(cluster: StoredCluster) -> None:
    """Until it is revoked."""
    name = cluster.new("a")
    await cluster.agent(name)
    await walked(cluster, name, AgentTrigger.HEARTBEAT_MISSED, AgentTrigger.DRAIN_REQUESTED)
    expect((await cluster.agent(name)).info.status is AgentStatus.DRAINING, "a restart ended the draining")
    await walked(cluster, name, AgentTrigger.DECLARED_LOST)
    expect((await cluster.agent(name)).info.status is AgentStatus.DRAINING, "a loss ended the draining")
    lost_again = (AgentTrigger.DRAIN_REVOKED, AgentTrigger.HEARTBEAT_MISSED, AgentTrigger.DECLARED_LOST)
    await walked(cluster, name, *lost_again)
    expect((await cluster.agent(name)).info.status is AgentStatus.ALIVE, "a revoked draining came back")


async def a_removed_agent_cannot_rejoin(cluster: StoredCluster) -> None:
    """Conflict, however it left; its record is unchanged."""
    gone = (AgentTrigger.HEARTBEAT_MISSED, AgentTrigger.DECLARED_LOST, AgentTrigger.DECLARED_GONE)
    for steps in ((AgentTrigger.LEFT,), gone):
        name = cluster.new("a")
        await cluster.agent(name)
        record = await walked(cluster, name, *steps)
        await refusal(cluster.agent(name), Conflict)
        expect(await agent_now(cluster, name) == record, "a refused enrolment changed the agent")


async def an_agent_with_kernels_cannot_leave(cluster: StoredCluster) -> None:
    """They may outlive it; an operator may declare the machine gone."""
    name = cluster.new("a")
    await cluster.agent(name)
    session = await running_on(cluster, name, {"cpu": 1000})
    await refusal(moved(cluster, await agent_now(cluster, name), AgentTrigger.LEFT, BY_AGENT), Conflict)
    await ended(cluster, session, FreeProof.AGENT_TOMBSTONE)
    left = await moved(cluster, await agent_now(cluster, name), AgentTrigger.LEFT, BY_AGENT)
    expect(left.info.status is AgentStatus.TERMINATED, f"it is {left.info.status}")


async def an_agent_joins_an_existing_scaling_group(cluster: StoredCluster) -> None:
    """Otherwise ObjectNotFound, and nothing is stored."""
    name = cluster.new("a")
    await refusal(cluster.agent(name, scaling_group=cluster.new("group")), ObjectNotFound)
    await refusal(agent_now(cluster, name), ObjectNotFound)


async def a_capacity_never_falls_below_its_usage(cluster: StoredCluster) -> None:
    """It shrinks to the reported one as slots are freed."""
    name = cluster.new("a")
    await cluster.agent(name, slots={"cpu": 8000})
    first, second = [await running_on(cluster, name, {"cpu": 3000}) for _ in range(2)]
    record = await cluster.agent(name, slots={"cpu": 2000})
    steps = [(record, 6000, 6000)]
    await ended(cluster, first, FreeProof.INCARNATION_FENCED)
    steps.append((await agent_now(cluster, name), 3000, 3000))
    await ended(cluster, second, FreeProof.INCARNATION_FENCED)
    steps.append((await agent_now(cluster, name), 2000, 0))
    for found, capacity, used in steps:
        pair = (found.info.available_slots["cpu"], found.info.occupied_slots["cpu"])
        expect(pair == (capacity, used), f"capacity and use are {pair}, not {(capacity, used)}")


async def a_removed_slot_stays_while_it_is_in_use(cluster: StoredCluster) -> None:
    """It is not allocated again."""
    name = cluster.new("a")
    await cluster.agent(name, slots={"cpu": 8000, "tpu.device": 4}, devices=False)
    session = await running_on(cluster, name, {"tpu.device": 1})
    record = await cluster.agent(name, slots={"cpu": 8000}, devices=False)
    expect(record.info.available_slots["tpu.device"] == 1, "a slot that is held was forgotten")
    late = cluster.new("s")
    await cluster.submit(late, slots={"tpu.device": 1})
    expect((await cluster.place(late, name)).refused, "a slot that is gone was given out")
    await ended(cluster, session, FreeProof.INCARNATION_FENCED)
    freed = await agent_now(cluster, name)
    expect(freed.info.available_slots == ResourceSlot({"cpu": 8000}), "a slot that is gone stayed after it was freed")


async def a_capacity_grows_at_once(cluster: StoredCluster) -> None:
    """Usage is unchanged."""
    name = cluster.new("a")
    await cluster.agent(name, slots={"cpu": 2000})
    await running_on(cluster, name, {"cpu": 2000})
    record = await cluster.agent(name, slots={"cpu": 5000})
    expect(record.info.free_slots == ResourceSlot({"cpu": 3000}), f"free are {record.info.free_slots}")


async def a_removed_device_is_not_allocated(cluster: StoredCluster) -> None:
    """Also not after its kernel is gone; a device that returns is."""
    name = cluster.new("a")
    await cluster.agent(name, slots={GPU: 2})
    session = await running_on(cluster, name, {GPU: 1})
    had = (await cluster.session(session)).kernels[0].devices[GPU]
    other = Device("gpu1", GPU)
    info = AgentInfo(AgentId(name), ResourceSlot({GPU: 1}))
    record = await cluster.store.run(lambda unit: unit.fleet.enrol(info, BY_AGENT, devices=[other]))
    expect(had == ("gpu0",) and record.devices == (other,), "a device that is gone is listed")
    await ended(cluster, session, FreeProof.INCARNATION_FENCED)
    late = await running_on(cluster, name, {GPU: 1})
    found = (await cluster.session(late)).kernels[0].devices
    expect(found == {GPU: ("gpu1",)}, f"given out was {found}")
    again = await cluster.agent(name, slots={GPU: 2})
    expect(len(again.devices) == 2, "a device that came back is not listed")


def room(agent: AgentRecord) -> tuple[int, int]:
    """How many devices an agent offers, and how many of them are in use."""
    return agent.info.available_slots[GPU], agent.info.occupied_slots[GPU]


async def a_device_with_a_fault_is_not_allocated(cluster: StoredCluster) -> None:
    """Its kernel keeps its slots; healthy again or enrolled anew, it is as before."""
    name = cluster.new("a")
    record = await cluster.agent(name, slots={GPU: 2, "cpu": 4000})
    session = await running_on(cluster, name, {GPU: 1})
    faulty = record.info.health.with_faults({"gpu0": "lost", "unknown": "lost"})
    found = await cluster.store.run(lambda unit: unit.fleet.set_health(record, faulty, BY_AGENT))
    expect(found.devices == (Device("gpu0", GPU, fault="lost"), Device("gpu1", GPU)), f"listed are {found.devices}")
    expect(room(found) == (2, 1), f"it has {found.info}")
    expect(found.info.available_slots["cpu"] == 4000, "a slot without devices has changed")
    # The other device goes on to be used, whichever kernel ends first.
    for _ in range(2):
        late = await running_on(cluster, name, {GPU: 1})
        given = (await cluster.session(late)).kernels[0].devices
        expect(given == {GPU: ("gpu1",)}, "a device with a fault was given out")
        await ended(cluster, late, FreeProof.AGENT_TOMBSTONE)
        expect(room(await agent_now(cluster, name)) == (2, 1), f"it has {(await agent_now(cluster, name)).info}")
    await ended(cluster, session, FreeProof.AGENT_TOMBSTONE)
    found = await agent_now(cluster, name)
    expect(room(found) == (1, 0), f"it has {found.info}")
    full = await cluster.store.run(lambda unit: unit.fleet.set_health(found, found.info.health.with_faults({})))
    expect(full.info.available_slots[GPU] == 2 and not any(one.fault for one in full.devices), f"it has {full}")
    await cluster.store.run(lambda unit: unit.fleet.set_health(full, faulty))
    again = await cluster.agent(name, slots={GPU: 2})
    expect(again.info.available_slots[GPU] == 2 and not again.info.health.faults, f"it enrolled with {again}")


async def releasing_slots_are_shown(cluster: StoredCluster) -> None:
    """Still occupied, and marked as releasing."""
    name = cluster.new("a")
    await cluster.agent(name, slots={"cpu": 8000})
    stays, leaves = [await running_on(cluster, name, {"cpu": 1000}) for _ in range(2)]
    await cluster.stop(leaves)
    info = (await agent_now(cluster, name)).info
    expect((info.occupied_slots["cpu"], info.kernel_count) == (2000, 2), "what is on its way out is not occupied")
    expect((info.releasing_slots["cpu"], info.releasing_count) == (1000, 1), "it is not marked as releasing")
    await cluster.free(leaves, FreeProof.AGENT_TOMBSTONE)
    info = (await agent_now(cluster, name)).info
    expect((info.kernel_count, info.releasing_count) == (1, 0), "what was freed is still there")
    await cluster.session(stays)


async def agents_are_listed_by_id(cluster: StoredCluster) -> None:
    """All, or those of a scaling group, in byte order."""
    group = ScalingGroupName(cluster.new("group"))
    await cluster.put(ScalingGroup(name=group))
    prefix = cluster.new("x")
    names = [f"{prefix}{end}" for end in ("B", "a", "A", "-1", "_1", "10", "9")]
    for name in names:
        await cluster.agent(name, scaling_group=group)
    outside = cluster.new("a")
    await cluster.agent(outside)
    found = [one.info.agent_id for one in await cluster.store.read(lambda unit: unit.fleet.all(scaling_group=group))]
    expect(found == sorted(names), f"the scaling group lists {found}")
    for after, limit, expected in (("", 3, sorted(names)[:3]), (sorted(names)[2], 9, sorted(names)[3:]), ("~", 9, [])):
        page = await cluster.store.read(
            lambda unit, after=after, limit=limit: unit.fleet.all(scaling_group=group, after=after, limit=limit)  # type: ignore[misc]  # bound at once
        )
        expect([one.info.agent_id for one in page] == expected, f"{limit} after {after!r} are not {expected}")
    every = [one.info.agent_id for one in await cluster.store.read(lambda unit: unit.fleet.all())]
    expect(every == sorted(every) and {*names, outside} <= set(every), "not every agent is listed, or not by id")


async def architectures_and_slots_are_listed_by_scaling_group(cluster: StoredCluster) -> None:
    """A group without agents is omitted."""
    groups = [ScalingGroupName(cluster.new("group")) for _ in range(3)]
    await cluster.put(*(ScalingGroup(name=group) for group in groups))
    cpu, gpu = ResourceSlot({"cpu": 1}), ResourceSlot({"cpu": 1, "cuda.device": 2})
    only = cluster.new("a")
    for name, group, architecture, slots in (
        (cluster.new("a"), 0, "x86_64", cpu),
        (cluster.new("a"), 0, "aarch64", gpu),
        (cluster.new("a"), 0, "x86_64", gpu),
        (only, 1, "aarch64", cpu),
    ):
        await cluster.agent(name, scaling_group=groups[group], architecture=architecture, slots=slots, devices=False)
    found = await cluster.store.read(lambda unit: unit.fleet.profiles())
    first = AgentProfile({"x86_64": 2, "aarch64": 1}, frozenset({"cpu", "cuda.device"}), {}, runtimes=frozenset({""}))
    expect(found[groups[0]] == first, f"the first group has {found[groups[0]]}")
    second = AgentProfile({"aarch64": 1}, frozenset({"cpu"}), runtimes=frozenset({""}))
    expect(found[groups[1]] == second and groups[2] not in found, "other groups are wrong")
    for value, is_open in (("sandbox", False), ("none", True)):
        labels = {"sokovan.isolation": value, "note": '"sokovan.isolation":"none"'}
        await cluster.agent(only, scaling_group=groups[1], architecture="aarch64", slots=cpu, labels=labels)
        listed = await cluster.store.read(lambda unit: unit.fleet.profiles())
        expect(listed[groups[1]].open is is_open, f"with isolation by {value}, open is {listed[groups[1]].open}")
    for runtime in RUNTIMES:
        labels = {RUNTIME_LABEL: runtime, "note": f'"{RUNTIME_LABEL}":"other"'}
        await cluster.agent(only, scaling_group=groups[1], architecture="aarch64", slots=cpu, labels=labels)
        listed = await cluster.store.read(lambda unit: unit.fleet.profiles())
        expect(listed[groups[1]].runtimes == {runtime}, f"of {runtime} it lists {listed[groups[1]].runtimes}")
    await walked(cluster, only, AgentTrigger.LEFT)
    left = await cluster.store.read(lambda unit: unit.fleet.profiles())
    expect(groups[1] not in left, "an agent that has left for good counts")


async def the_least_memory_is_listed_by_amounts_of_other_slots(cluster: StoredCluster) -> None:
    """Agents that cannot take work count only where no other has that amount."""
    group = ScalingGroupName(cluster.new("group"))
    await cluster.put(ScalingGroup(name=group))
    lost = [cluster.new("a"), cluster.new("a")]
    for name, cpu, memory, gpus in (
        (cluster.new("a"), 8, 64, 2),
        (cluster.new("a"), 8, 32, 0),
        (cluster.new("a"), 4, 0, 0),
        (lost[0], 8, 1, 0),
        (lost[1], 2, 7, 0),
    ):
        slots = ResourceSlot({"cpu": cpu, "mem": memory, GPU: gpus})
        await cluster.agent(name, scaling_group=group, slots=slots, devices=False)
    for name in lost:
        await walked(cluster, name, AgentTrigger.DRAIN_REQUESTED)
    found = (await cluster.store.read(lambda unit: unit.fleet.profiles()))[group]
    expect(found.memory == {"cpu": {8: 32, 2: 7}, GPU: {2: 64}}, f"the least memory is {found.memory}")
    expect(found.slots == {"cpu", "mem", GPU}, f"the slots are {sorted(found.slots)}")


async def free_room_is_summed_by_scaling_group_and_architecture(cluster: StoredCluster) -> None:
    """Agents that take no work do not count."""
    group = ScalingGroupName(cluster.new("group"))
    await cluster.put(ScalingGroup(name=group))
    used, drained = cluster.new("a"), cluster.new("a")
    for name, architecture, cpu in ((used, "x86_64", 8), (cluster.new("a"), "x86_64", 4), (drained, "aarch64", 2)):
        slots = ResourceSlot({"cpu": cpu})
        await cluster.agent(name, scaling_group=group, architecture=architecture, slots=slots)
    await walked(cluster, drained, AgentTrigger.DRAIN_REQUESTED)
    found = await cluster.store.read(lambda unit: unit.fleet.rooms())
    expect(found[group, "x86_64"]["cpu"] == SlotRoom(12, 8, 8), f"an empty group has {found[group, 'x86_64']}")
    expect((group, "aarch64") not in found, "a drained agent has room")
    await running_on(cluster, used, {"cpu": 6}, scaling_group=group)
    left = (await cluster.store.read(lambda unit: unit.fleet.rooms()))[group, "x86_64"]["cpu"]
    expect(left == SlotRoom(6, 4, 8), f"a used group has {left}")


async def an_unknown_agent_is_not_found(cluster: StoredCluster) -> None:
    """ObjectNotFound."""
    for name in (cluster.new("a"), "", "a\0b"):
        await refusal(agent_now(cluster, name), ObjectNotFound)


async def of_concurrent_movers_one_succeeds(cluster: StoredCluster) -> None:
    """The others have a stale version."""
    name = cluster.new("a")
    record = await cluster.agent(name)
    attempts = [moved(cluster, record, AgentTrigger.DRAIN_REQUESTED, BY_USER) for _ in range(4)]
    results = await asyncio.gather(*attempts, return_exceptions=True)
    lost = [result for result in results if isinstance(result, StaleVersion)]
    expect(len(lost) == 3, f"of four writers on one version {4 - len(lost)} won")
    expect(len(await agent_history(cluster, name)) == 2, "a writer that lost is in the history")


async def a_move_fails_after_an_enrolment(cluster: StoredCluster) -> None:
    """An agent that came back is not declared lost by a stale decision."""
    name = cluster.new("a")
    await cluster.agent(name)
    silent = await walked(cluster, name, AgentTrigger.HEARTBEAT_MISSED)
    await cluster.agent(name)
    await refusal(moved(cluster, silent, AgentTrigger.DECLARED_LOST, BY_COORDINATOR), StaleVersion)


async def the_health_of_an_agent_is_replaced_by_compare_and_set(cluster: StoredCluster) -> None:
    """It survives a new incarnation; a change is noted, and a stale writer is refused."""
    name = cluster.new("a")
    record = await cluster.agent(name)
    failure = AgentFailure(SessionId("s1"), "eve", "creation-refused", "no space", 1)
    failing = AgentHealth((failure,), failing_ms=2, clean_ms=1, rounds=3, probed_ms=4)
    await cluster.store.run(lambda unit: unit.fleet.set_health(record, failing, BY_COORDINATOR))
    again = await cluster.agent(name)
    expect(again.info.health == failing and not again.info.schedulable, f"its health is {again.info.health}")
    noted = (await agent_history(cluster, name))[-1]
    expect((noted.trigger, noted.change.who) == ("noted", BY_COORDINATOR.who), f"its last entry is {noted}")
    await refusal(cluster.store.run(lambda unit: unit.fleet.set_health(record, HEALTHY)), StaleVersion)
    await cluster.store.run(lambda unit: unit.fleet.set_health(again, HEALTHY))
    expect((await agent_now(cluster, name)).info.health == HEALTHY, "it is not healthy")


async def only_legal_moves_are_accepted(cluster: StoredCluster) -> None:
    """Other triggers are illegal, other causes forbidden; nothing changes."""
    record = await cluster.agent(cluster.new("a"))
    await refusal(moved(cluster, record, AgentTrigger.REJOINED, BY_AGENT), IllegalTransition)
    await refusal(moved(cluster, record, AgentTrigger.DRAIN_REQUESTED, BY_COORDINATOR), ForbiddenCause)
    expect(await agent_now(cluster, record.info.agent_id) == record, "a refused move changed something")


async def the_history_of_an_agent_is_gapless_and_chained(cluster: StoredCluster) -> None:
    """From its first enrolment to its end, with author and cause."""
    name = cluster.new("a")
    await cluster.agent(name)
    steps = (AgentTrigger.HEARTBEAT_MISSED, AgentTrigger.DECLARED_LOST)
    await walked(cluster, name, *steps)
    await cluster.agent(name)
    await walked(cluster, name, AgentTrigger.DRAIN_REQUESTED, AgentTrigger.LEFT)
    entries = await agent_history(cluster, name)
    triggers = [entry.trigger for entry in entries]
    expected = ["enrolled", "heartbeat_missed", "declared_lost", "rejoined", "drain_requested", "left"]
    expect(triggers == expected, f"the history is {triggers}")
    expect([entry.sequence for entry in entries] == [1, 2, 3, 4, 5, 6], "the history has a gap")
    expect(all(one.after == two.before for one, two in pairwise(entries)), "the history is not chained")
    expect(entries[4].change == BY_USER, "the history lost its author")


CHECKS: tuple[Check, ...] = (
    images_are_added_to_their_incarnation_only,
    new_agents_are_enrolled_together_or_not_at_all,
    a_new_agent_is_alive_with_its_reported_resources,
    each_enrolment_is_a_new_incarnation,
    concurrent_enrolments_of_an_agent_are_serialized,
    a_suspect_or_lost_agent_rejoins_alive,
    draining_survives_a_heartbeat_timeout_loss_and_a_restart,
    a_removed_agent_cannot_rejoin,
    an_agent_with_kernels_cannot_leave,
    an_agent_joins_an_existing_scaling_group,
    a_capacity_never_falls_below_its_usage,
    a_removed_slot_stays_while_it_is_in_use,
    a_capacity_grows_at_once,
    a_removed_device_is_not_allocated,
    a_device_with_a_fault_is_not_allocated,
    releasing_slots_are_shown,
    agents_are_listed_by_id,
    architectures_and_slots_are_listed_by_scaling_group,
    the_least_memory_is_listed_by_amounts_of_other_slots,
    free_room_is_summed_by_scaling_group_and_architecture,
    an_unknown_agent_is_not_found,
    of_concurrent_movers_one_succeeds,
    a_move_fails_after_an_enrolment,
    the_health_of_an_agent_is_replaced_by_compare_and_set,
    only_legal_moves_are_accepted,
    the_history_of_an_agent_is_gapless_and_chained,
)
