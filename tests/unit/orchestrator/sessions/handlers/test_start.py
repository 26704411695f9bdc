"""Kernel creation is recorded first, and requested until the kernels start."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from sokovan.agent.messages import ObstacleObserved
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.lifecycle.retry import RetryPolicy
from sokovan.domain.lifecycle.session import Goal, SessionStatus
from sokovan.domain.owners.outputs import OutputLimits
from sokovan.domain.owners.tenancy import Domain, Owner, User
from sokovan.domain.records import KernelRecord, SessionRecord
from sokovan.orchestrator.sessions.handlers import start
from sokovan.orchestrator.sessions.handlers.start import creation_step
from sokovan.orchestrator.sessions.launch import launches
from sokovan.ports.agent_gateway import AgentRefused
from sokovan.testing.acting_agents import Fault
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.simple_work import work_spec
from sokovan.testing.stored_cluster import release
from sokovan.wire.frames import CreateKernel

ONCE = RetryPolicy(attempts=1)

K = KernelStatus


def session(*statuses: K, minimum: int | None = None) -> SessionRecord:
    spec = work_spec("s", kernels=len(statuses), min_kernels=minimum)
    kernels = tuple(
        KernelRecord(one.kernel_id, spec.session_id, index, statuses[index], 1, one.slots)
        for index, one in enumerate(spec.kernels)
    )
    return SessionRecord(spec.session_id, spec, SessionStatus.PREPARED, 1, Goal.RUN, 0, kernels)


def test_a_gang_waits_whole_for_its_last_image() -> None:
    assert creation_step(session(K.PREPARED, K.PULLING)).kernels == ()
    assert creation_step(session(K.PREPARED, K.PREPARED)).kernels == ("s.0", "s.1")
    last = session(K.PREPARED, K.SCHEDULED)
    assert creation_step(last, ready=[last.kernels[1].kernel_id]).kernels == ("s.0", "s.1")


def test_an_elastic_session_starts_what_is_ready_once_it_has_its_minimum() -> None:
    assert creation_step(session(K.PREPARED, K.PULLING, minimum=1)).kernels == ("s.0",)
    assert creation_step(session(K.RUNNING, K.PREPARED, K.PENDING, minimum=1)).kernels == ("s.1",)


def test_no_kernel_starts_before_the_one_where_all_meet() -> None:
    def ranked(*statuses: K) -> SessionRecord:
        record = session(*statuses, minimum=1)
        return replace(record, kernels=tuple(replace(one, rank=one.index) for one in record.kernels))

    assert creation_step(ranked(K.PULLING, K.PREPARED)).kernels == ()
    assert creation_step(ranked(K.PENDING, K.PREPARED)).kernels == ()
    assert creation_step(ranked(K.PREPARED, K.PULLING)).kernels == ("s.0",)
    assert creation_step(ranked(K.RUNNING, K.PREPARED)).kernels == ("s.1",)
    assert creation_step(ranked(K.TERMINATING, K.PREPARED)).kernels == ("s.1",)


@pytest.mark.slow
async def test_creation_is_recorded_before_it_is_requested(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1")
    seen: list[tuple[str, bool]] = []
    create = cluster.agents.create_kernel

    async def looking(agent_id: AgentId, incarnation: int, launch: CreateKernel) -> None:
        kernel = (await cluster.session(launch.session_id)).kernels[0]
        seen.append((kernel.status.value, kernel.sent))
        await create(agent_id, incarnation, launch)

    cluster.agents.create_kernel = looking  # type: ignore[method-assign]  # a spy in front of it
    await cluster.submit("s")
    await cluster.settle()
    assert seen == [("creating", True)]


@pytest.mark.slow
async def test_a_creation_is_repeated_until_the_kernel_is_listed(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    agent.faults["create"] = Fault.ANSWER_LOST
    agent.speaking = False
    await cluster.submit("s")
    await cluster.pass_time(5)
    assert agent.requests["create"] >= 3
    assert sum(agent.started.values()) == 1
    agent.speaking = True
    await cluster.pass_time(1)
    before = agent.requests["create"]
    assert await cluster.status("s") == "running"
    await cluster.pass_time(30)
    assert agent.requests["create"] == before


@pytest.mark.slow
async def test_a_full_disk_on_the_agent_ends_the_session_with_its_message(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    agent.apply(ObstacleObserved("the disk is full"))
    await cluster.submit("s", retry=ONCE)
    await cluster.settle()
    session = await cluster.session("s")
    assert (session.status.value, session.cause) == ("terminated", "creation-refused")
    assert "the disk is full" in (session.cause_detail or "")


@pytest.mark.slow
async def test_an_agent_that_believes_it_is_drained_is_asked_again(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1")
    create, refusals = cluster.agents.create_kernel, ["draining"]

    async def believing(agent_id: AgentId, incarnation: int, launch: CreateKernel) -> None:
        if refusals:
            raise AgentRefused(agent_id=agent_id, problem="it is being drained", reason=refusals.pop())
        await create(agent_id, incarnation, launch)

    cluster.agents.create_kernel = believing  # type: ignore[method-assign]  # an agent of an earlier release
    await cluster.submit("s")
    await cluster.pass_time(30)
    assert await cluster.status("s") == "running"


@pytest.mark.slow
async def test_kernels_find_each_other_by_the_addresses_of_their_agents(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Mapping[AgentId, str]] = []

    def recording(
        session: SessionRecord, addresses: Mapping[AgentId, str], *outputs: OutputLimits, **only: Any
    ) -> Sequence[CreateKernel]:
        given.append(addresses)
        return launches(session, addresses, *outputs, **only)

    agent = await cluster.agent("a1")
    monkeypatch.setattr(start, "launches", recording)
    # What the agent reports, unless an operator says otherwise.
    for label, address in (("sokovan.address", "10.0.0.6"), ("address", "10.0.0.7")):
        agent.labels[label] = address
        await agent.restart()
        await cluster.submit(f"s-{address[-1]}")
        await cluster.tick()
        assert given[-1] == {AgentId("a1"): address}


@pytest.mark.slow
async def test_folders_of_the_only_user_are_closed_once_there_is_another(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.stored.put(Domain("d"), User("first", "d"))
    await cluster.submit("alone", owns_folders=True, workdir="/data/mine", owner=Owner(user="first"))
    await cluster.settle()
    [started] = agent.machine.values()
    assert (await cluster.status("alone"), started.launch.owns_folders) == ("running", True)

    held = {"owns_folders": True, "owner": Owner(user="first"), "gates": ("later",)}
    await cluster.submit("closed", workdir="/data/mine", **held)
    await cluster.submit("open", workdir="/srv/shared", **held)
    group = await cluster.store.read(lambda unit: unit.catalog.get(ScalingGroup, "default"))
    await cluster.stored.put(User("second", "d"), replace(group, mount_roots=("/srv",)))
    for name in ("closed", "open"):
        await release(cluster.store, name, "later")
    await cluster.settle()
    closed = await cluster.session("closed")
    assert (closed.status, closed.cause) == ("terminated", "folder-refused")
    assert "several users now: /data/mine may not be used" in (closed.cause_detail or "")
    assert await cluster.status("open") == "running"
    assert [one.launch.owns_folders for one in agent.machine.values() if one.launch.session_id == "open"] == [False]
    assert await cluster.status("alone") == "running"
