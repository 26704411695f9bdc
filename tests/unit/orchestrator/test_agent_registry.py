"""Admission of agents, incarnations and heartbeats."""

import asyncio
from dataclasses import replace

import pytest

from sokovan.domain.cluster.agent_claims import AgentClaims, claims_in
from sokovan.domain.ids import AgentId, KernelId, ScalingGroupName
from sokovan.domain.lifecycle.agent import AgentStatus, AgentTrigger
from sokovan.domain.records import AgentRecord, Device
from sokovan.domain.slots import ResourceSlot
from sokovan.orchestrator.agent_registry import AgentAdmission, AgentRejection, EnrolmentRequest, admit_together
from sokovan.ports.agent_gateway import ImageReport, ImageState
from sokovan.ports.agent_states import AgentState, KernelReport
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.stored_cluster import BY_COORDINATOR, BY_USER
from tests.unit.adapters.sql.statements import recorded_statements

A1 = AgentId("a1")
# For all agents that link together: four of them read what is known of these.
STATEMENTS_KNOWN, STATEMENTS_NEW = 6, 12
ARRIVAL = EnrolmentRequest(
    agent_id=A1,
    slots=ResourceSlot({"cpu": 4000, "mem": 8 << 30, "cuda.device": 1}),
    devices=(Device("g0", "cuda.device"),),
)


async def stored(cluster: OrchestratedCluster) -> AgentRecord:
    return await cluster.store.read(lambda unit: unit.fleet.get(A1))


async def moved(cluster: OrchestratedCluster, *triggers: AgentTrigger) -> None:
    for trigger in triggers:
        record = await stored(cluster)
        change = BY_USER if trigger in {AgentTrigger.DRAIN_REQUESTED, AgentTrigger.DECLARED_GONE} else BY_COORDINATOR
        await cluster.store.run(lambda unit, r=record, t=trigger, c=change: unit.fleet.move(r, t, c))  # type: ignore[misc]  # defaults bind the loop's names


async def hinted(cluster: OrchestratedCluster) -> bool:
    return await cluster.hints.take("sessions")


@pytest.mark.slow
async def test_a_new_agent_is_enrolled_with_what_it_has(cluster: OrchestratedCluster) -> None:
    assert await cluster.registry.admit(ARRIVAL) == AgentAdmission(1)
    record = await stored(cluster)
    assert record.info.available_slots == ARRIVAL.slots
    assert record.devices == ARRIVAL.devices
    assert await hinted(cluster)


@pytest.mark.slow
async def test_agents_that_come_together_each_get_their_own_answer(cluster: OrchestratedCluster) -> None:
    names = [AgentId(f"n{number}") for number in (3, 1, 2)]
    strange = replace(ARRIVAL, agent_id=AgentId("n0"), scaling_group=ScalingGroupName("nowhere"))
    await cluster.registry.admit(replace(ARRIVAL, agent_id=names[0]))
    arrivals = [*(replace(ARRIVAL, agent_id=name) for name in names), strange]
    *admitted, refused = await asyncio.gather(*map(cluster.registry.admit, arrivals))
    assert admitted == [AgentAdmission(2), AgentAdmission(1), AgentAdmission(1)]
    assert isinstance(refused, AgentRejection)
    assert not refused.final


@pytest.mark.slow
async def test_a_new_process_gets_a_new_incarnation_and_the_same_one_keeps_its_own(
    cluster: OrchestratedCluster,
) -> None:
    await cluster.registry.admit(ARRIVAL)
    assert await cluster.registry.admit(ARRIVAL) == AgentAdmission(2)
    assert await cluster.registry.admit(replace(ARRIVAL, incarnation=2)) == AgentAdmission(2)


@pytest.mark.slow
async def test_an_older_incarnation_is_refused_for_good(cluster: OrchestratedCluster) -> None:
    await cluster.registry.admit(ARRIVAL)
    await cluster.registry.admit(ARRIVAL)
    verdict = await cluster.registry.admit(replace(ARRIVAL, incarnation=1))
    assert isinstance(verdict, AgentRejection)
    assert (verdict.code, verdict.final) == ("superseded", True)


@pytest.mark.slow
async def test_an_agent_from_a_lost_future_is_overtaken(cluster: OrchestratedCluster) -> None:
    assert await cluster.registry.admit(replace(ARRIVAL, incarnation=41)) == AgentAdmission(42)
    verdict = await cluster.registry.admit(replace(ARRIVAL, incarnation=10**9))
    assert isinstance(verdict, AgentRejection)


@pytest.mark.slow
async def test_an_agent_that_left_for_good_is_refused(cluster: OrchestratedCluster) -> None:
    await cluster.registry.admit(ARRIVAL)
    await moved(cluster, AgentTrigger.HEARTBEAT_MISSED, AgentTrigger.DECLARED_LOST, AgentTrigger.DECLARED_GONE)
    for incarnation in (0, 1):
        verdict = await cluster.registry.admit(replace(ARRIVAL, incarnation=incarnation))
        assert isinstance(verdict, AgentRejection)
        assert verdict.code == "agent-left"


async def test_an_agent_of_an_unknown_scaling_group_may_try_again(cluster: OrchestratedCluster) -> None:
    verdict = await cluster.registry.admit(replace(ARRIVAL, scaling_group=ScalingGroupName("elsewhere")))
    assert isinstance(verdict, AgentRejection)
    assert (verdict.code, verdict.final) == ("not-found", False)
    assert "elsewhere" in verdict.message


@pytest.mark.slow
async def test_a_draining_agent_is_informed_at_admission(cluster: OrchestratedCluster) -> None:
    await cluster.registry.admit(ARRIVAL)
    await moved(cluster, AgentTrigger.DRAIN_REQUESTED)
    assert await cluster.registry.admit(replace(ARRIVAL, incarnation=1)) == AgentAdmission(1, draining=True)
    assert await cluster.registry.admit(ARRIVAL) == AgentAdmission(2, draining=True)


async def test_a_reconnecting_agent_is_alive_again(cluster: OrchestratedCluster) -> None:
    await cluster.registry.admit(ARRIVAL)
    await moved(cluster, AgentTrigger.HEARTBEAT_MISSED)
    await cluster.registry.admit(replace(ARRIVAL, incarnation=1))
    assert (await stored(cluster)).info.status is AgentStatus.ALIVE


@pytest.mark.slow
async def test_what_the_agent_found_and_what_has_not_begun_belongs_to_the_new_incarnation(
    cluster: OrchestratedCluster,
) -> None:
    await cluster.registry.admit(ARRIVAL)
    for name in ("found", "lost", "waiting"):
        await cluster.submit(name)
        await cluster.stored.place(name, "a1")
    await cluster.stored.start("found")
    await cluster.stored.start("lost")
    await cluster.registry.admit(replace(ARRIVAL, kernels=((KernelId("found.0"), 1), (KernelId("unknown"), 3))))
    found, lost, waiting = [
        (await cluster.session(name)).kernels[0].incarnation for name in ("found", "lost", "waiting")
    ]
    assert (found, lost, waiting) == (2, 1, 2)


@pytest.mark.slow
async def test_another_machine_cannot_take_the_name_of_an_agent_that_is_there(cluster: OrchestratedCluster) -> None:
    mine, others = replace(ARRIVAL, identity="mine"), replace(ARRIVAL, identity="another's")
    await cluster.registry.admit(mine)
    await cluster.submit("s")
    await cluster.stored.place("s", "a1")
    await cluster.stored.start("s")
    for trigger in (None, AgentTrigger.HEARTBEAT_MISSED, AgentTrigger.DECLARED_LOST):
        await moved(cluster, *([trigger] if trigger else []))
        for incarnation in (0, 1):
            verdict = await cluster.registry.admit(replace(others, incarnation=incarnation))
            assert isinstance(verdict, AgentRejection)
            assert (verdict.code, verdict.final) == ("name-taken", True)
            assert "a1" in verdict.message
    assert isinstance(await cluster.registry.admit(ARRIVAL), AgentRejection)
    assert (await cluster.session("s")).kernels[0].incarnation == 1
    assert await cluster.registry.admit(replace(mine, kernels=((KernelId("s.0"), 1),))) == AgentAdmission(2)
    assert (await cluster.session("s")).kernels[0].incarnation == 2


@pytest.mark.slow
async def test_another_machine_cannot_take_the_name_of_an_agent_that_is_drained(cluster: OrchestratedCluster) -> None:
    await cluster.registry.admit(replace(ARRIVAL, identity="mine"))
    await moved(cluster, AgentTrigger.DRAIN_REQUESTED)
    assert isinstance(await cluster.registry.admit(replace(ARRIVAL, identity="another's")), AgentRejection)


@pytest.mark.slow
async def test_a_lost_agent_that_holds_nothing_may_be_replaced(cluster: OrchestratedCluster) -> None:
    await cluster.registry.admit(replace(ARRIVAL, identity="mine"))
    await moved(cluster, AgentTrigger.HEARTBEAT_MISSED, AgentTrigger.DECLARED_LOST)
    assert await cluster.registry.admit(replace(ARRIVAL, identity="another's")) == AgentAdmission(2)
    assert (await stored(cluster)).info.labels == {"sokovan.identity": "another's"}


@pytest.mark.slow
async def test_an_identity_is_known_from_the_first_enrolment_that_has_one(cluster: OrchestratedCluster) -> None:
    await cluster.registry.admit(replace(ARRIVAL, labels={"sokovan.identity": "made up", "zone": "a"}))
    assert (await stored(cluster)).info.labels == {"zone": "a"}
    assert await cluster.registry.admit(replace(ARRIVAL, identity="mine")) == AgentAdmission(2)
    assert isinstance(await cluster.registry.admit(replace(ARRIVAL, identity="another's")), AgentRejection)


@pytest.mark.slow
async def test_a_heartbeat_is_stored_with_its_time_of_arrival(cluster: OrchestratedCluster) -> None:
    await cluster.registry.admit(ARRIVAL)
    await cluster.clock.advance(3)
    await cluster.registry.heartbeat(A1, AgentState(A1, 1, 1))
    state = await cluster.cache.get(A1)
    assert state is not None
    assert state.heard_ms == cluster.clock.now_ms()


@pytest.mark.slow
async def test_a_heartbeat_with_nothing_new_costs_nothing(cluster: OrchestratedCluster) -> None:
    await cluster.registry.admit(ARRIVAL)
    kernels = (KernelReport(KernelId("k"), 1, running=True),)
    await cluster.registry.heartbeat(A1, AgentState(A1, 1, 1, kernels))
    assert await hinted(cluster)
    runs = 0
    run = cluster.store.run

    async def counted(*arguments: object, **options: object) -> object:
        nonlocal runs
        runs += 1
        return await run(*arguments, **options)  # type: ignore[arg-type]  # a spy in front of it

    cluster.store.run = counted  # type: ignore[assignment, method-assign]  # a spy in front of it
    for sequence in range(2, 20):
        await cluster.clock.advance(5)
        await cluster.registry.heartbeat(A1, AgentState(A1, 1, sequence, kernels))
    assert (await hinted(cluster), runs) == (False, 0)
    state = await cluster.cache.get(A1)
    assert state is not None
    assert state.sequence == 19


@pytest.mark.slow
async def test_news_of_kernels_and_images_wake_the_coordinator(cluster: OrchestratedCluster) -> None:
    await cluster.registry.admit(ARRIVAL)
    await cluster.registry.heartbeat(A1, AgentState(A1, 1, 1))
    await hinted(cluster)
    await cluster.registry.heartbeat(A1, AgentState(A1, 1, 2, (KernelReport(KernelId("k"), 1, running=False),)))
    assert await hinted(cluster)
    ready = ImageReport("python", ImageState.READY)
    await cluster.registry.heartbeat(
        A1, AgentState(A1, 1, 3, (KernelReport(KernelId("k"), 1, running=False),)), [ready]
    )
    assert await hinted(cluster)
    assert cluster.registry.images.of(A1, 1, "python") == ready


async def test_images_of_agents_are_in_the_snapshot(cluster: OrchestratedCluster) -> None:
    await cluster.registry.admit(replace(ARRIVAL, shard="east", images=("host", "not a name")))
    snapshots = cluster.stored.snapshots
    states = [ImageReport("venv:a", ImageState.READY), ImageReport("venv:b", ImageState.PULLING)]
    await cluster.registry.heartbeat(A1, AgentState(A1, 1, 1), states)
    await snapshots.refresh()
    [agent] = (await snapshots.snapshot(ARRIVAL.scaling_group)).agents
    assert agent.shard == "east"
    assert agent.cached_images == {"host", "venv:a"}
    await cluster.registry.heartbeat(A1, AgentState(A1, 1, 2), [ImageReport("venv:b", ImageState.READY)])
    await snapshots.refresh()
    [agent] = (await snapshots.snapshot(ARRIVAL.scaling_group)).agents
    assert agent.cached_images == {"host", "venv:a", "venv:b"}


@pytest.mark.slow
async def test_a_heartbeat_after_a_timeout_moves_the_agent_back(cluster: OrchestratedCluster) -> None:
    await cluster.registry.admit(ARRIVAL)
    await cluster.registry.heartbeat(A1, AgentState(A1, 1, 1))
    await moved(cluster, AgentTrigger.HEARTBEAT_MISSED, AgentTrigger.DECLARED_LOST)
    await hinted(cluster)
    await cluster.clock.advance(60)
    await cluster.registry.heartbeat(A1, AgentState(A1, 1, 2))
    assert (await stored(cluster)).info.status is AgentStatus.ALIVE
    assert await hinted(cluster)


@pytest.mark.slow
async def test_a_late_heartbeat_of_an_earlier_incarnation_is_ignored(cluster: OrchestratedCluster) -> None:
    await cluster.registry.admit(ARRIVAL)
    await cluster.registry.admit(ARRIVAL)
    await cluster.registry.heartbeat(A1, AgentState(A1, 2, 1))
    await hinted(cluster)
    await cluster.registry.heartbeat(A1, AgentState(A1, 1, 99, (KernelReport(KernelId("k"), 1, running=True),)))
    assert not await hinted(cluster)


@pytest.mark.slow
async def test_all_links_of_a_process_have_one_incarnation(cluster: OrchestratedCluster) -> None:
    arrival = replace(ARRIVAL, process="p1")
    assert await cluster.registry.admit(arrival) == AgentAdmission(1)
    # Another manager, or the same one whose welcome was lost: the process has no incarnation yet.
    assert await cluster.registry.admit(arrival) == AgentAdmission(1)
    assert await cluster.registry.admit(replace(arrival, process="p2")) == AgentAdmission(2)
    assert await cluster.registry.admit(replace(arrival, process="p2")) == AgentAdmission(2)
    verdict = await cluster.registry.admit(replace(arrival, incarnation=1))
    assert isinstance(verdict, AgentRejection)
    assert verdict.code == "superseded"


async def test_a_process_that_knows_an_earlier_incarnation_of_its_own_takes_the_later_one(
    cluster: OrchestratedCluster,
) -> None:
    await cluster.registry.admit(ARRIVAL)
    await cluster.registry.admit(replace(ARRIVAL, process="p1"))
    await moved(cluster, AgentTrigger.HEARTBEAT_MISSED)
    assert await cluster.registry.admit(replace(ARRIVAL, process="p1", incarnation=1)) == AgentAdmission(2)
    assert (await stored(cluster)).info.status is AgentStatus.ALIVE


@pytest.mark.slow
@pytest.mark.parametrize("incarnation", [0, 1], ids=["new", "known"])
async def test_many_agents_that_link_at_once_need_as_many_statements_as_one(
    cluster: OrchestratedCluster, incarnation: int
) -> None:
    def arrivals(first: int, last: int) -> list[EnrolmentRequest]:
        return [replace(ARRIVAL, agent_id=AgentId(f"n{number:03}"), process="p") for number in range(first, last)]

    async def linked(requests: list[EnrolmentRequest]) -> int:
        if incarnation:
            await cluster.store.run(lambda unit: admit_together(unit, requests))
        again = [replace(request, incarnation=incarnation) for request in requests]
        with recorded_statements(cluster.stored) as statements:
            await cluster.store.run(lambda unit: admit_together(unit, again))
        return len(statements)

    one = await linked(arrivals(0, 1))
    assert await linked(arrivals(1, 31)) == one
    assert one <= (STATEMENTS_KNOWN if incarnation else STATEMENTS_NEW)


async def test_an_agent_with_claims_is_enrolled_and_marked_until_it_claims_nothing(
    cluster: OrchestratedCluster,
) -> None:
    claims = AgentClaims(ResourceSlot({"cpu": 4000}), {"rack": "r1"})
    claiming = replace(ARRIVAL, labels={"rack": "r1"}, claims=claims.marks())
    assert await cluster.registry.admit(claiming) == AgentAdmission(1)
    record = await stored(cluster)
    assert (claims_in(record.operator_labels), record.reported_labels["rack"]) == (claims, "r1")
    assert not record.info.schedulable
    # Another link of the same process changes nothing; a new process claims anew.
    assert await cluster.registry.admit(replace(claiming, incarnation=1)) == AgentAdmission(1)
    assert not (await stored(cluster)).info.approved
    assert await cluster.registry.admit(ARRIVAL) == AgentAdmission(2)
    assert ((await stored(cluster)).info.schedulable, (await stored(cluster)).operator_labels) == (True, {})


async def test_an_approved_agent_stays_so_when_its_process_opens_another_link(cluster: OrchestratedCluster) -> None:
    claiming = replace(ARRIVAL, claims=AgentClaims(labels={"rack": "r1"}).marks())
    await cluster.registry.admit(claiming)
    record = await stored(cluster)
    await cluster.store.run(lambda unit: unit.catalog.set_labels(A1, {}, version=record.version))
    assert await cluster.registry.admit(replace(claiming, incarnation=1)) == AgentAdmission(1)
    assert (await stored(cluster)).info.approved
