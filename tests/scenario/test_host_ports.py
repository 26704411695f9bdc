"""Ports of agents are leased with the slots, and rest for a minute after release."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sokovan.domain.cluster.agent import PORTS_LABEL
from sokovan.domain.ids import SessionId
from sokovan.domain.session import ServicePort
from sokovan.orchestrator.sessions.explain.why import WhyService
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.testing.acting_agents import ActingAgent
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from tests.scenario.test_ranks import record_environments

pytestmark = pytest.mark.slow

WEB = (ServicePort("web", 8080),)
ANY = (ServicePort("web"),)


async def agent(cluster: OrchestratedCluster, name: str, ports: str = "") -> ActingAgent:
    """An agent with a range of ports."""
    joined = await cluster.agent(name)
    if ports:
        joined.labels[PORTS_LABEL] = ports
        await joined.restart()
    return joined


async def submit(cluster: OrchestratedCluster, name: str, **options: Any) -> None:
    await cluster.submit(name, **options)
    await cluster.pass_time(2)


async def leases(cluster: OrchestratedCluster, name: str) -> list[dict[str, int]]:
    return [dict(kernel.host_ports) for kernel in (await cluster.session(name)).kernels]


async def test_a_fixed_port_is_used_once_per_agent_and_goes_to_another(cluster: OrchestratedCluster) -> None:
    await agent(cluster, "a1")
    await submit(cluster, "first", ports=WEB)
    await submit(cluster, "second", ports=WEB)
    assert [await cluster.status(name) for name in ("first", "second")] == ["running", "pending"]
    verdict = await cluster.store.read(lambda unit: unit.verdicts.get(SessionId("second")))
    assert verdict is not None
    assert (verdict.code, "8080" in verdict.summary) == ("PORTS_TAKEN", True)
    await agent(cluster, "a2")
    await cluster.pass_time(2)
    assert await cluster.status("second") == "running"
    assert await leases(cluster, "second") == [{"web": 8080}]


async def test_why_says_who_has_the_port_or_when_it_is_free_again(cluster: OrchestratedCluster) -> None:
    await agent(cluster, "a1")
    await cluster.submit("first", ports=WEB, name="notebook")
    await cluster.pass_time(2)
    await submit(cluster, "second", ports=WEB)
    why = WhyService(cluster.store)
    own = await why.why(SessionId("second"))
    assert own.summary.endswith("; leased on a1 by session notebook")
    assert [(one.name, one.detail) for one in own.checks if one.name.startswith("port")] == [
        ("port 8080", "leased on a1 by session notebook")
    ]
    foreign = await why.why(SessionId("second"), SessionFilter(user="bob"))
    assert foreign.summary.endswith("; leased on a1 by a session of another user")
    await cluster.stop("first")
    await cluster.pass_time(5)
    resting = await why.why(SessionId("second"))
    assert re.search(r"; rests on a1, free again in 5[0-9] s$", resting.summary)
    # It starts when the port has rested, not with the next long cycle.
    await cluster.pass_time(56)
    assert await cluster.status("second") == "running"


async def test_a_kernel_gets_the_number_of_its_port(cluster: OrchestratedCluster) -> None:
    await agent(cluster, "a1", "31000-31999")
    seen = record_environments(cluster)
    await submit(cluster, "s", ports=(ServicePort("web"), ServicePort("my-api", 9000)))
    environment = seen["s.0"][0]
    assert (environment["SOKOVAN_PORT_WEB"], environment["SOKOVAN_PORT_MY_API"]) == ("31000", "9000")
    assert await leases(cluster, "s") == [{"web": 31000, "my-api": 9000}]


async def test_any_port_needs_a_free_one_of_the_range(cluster: OrchestratedCluster) -> None:
    await agent(cluster, "a1", "31000-31001")
    for name in ("first", "second", "third"):
        await submit(cluster, name, ports=ANY)
    assert [await leases(cluster, name) for name in ("first", "second")] == [[{"web": 31000}], [{"web": 31001}]]
    assert await cluster.status("third") == "pending"


async def test_a_released_port_rests_for_a_minute(cluster: OrchestratedCluster) -> None:
    await agent(cluster, "a1")
    await submit(cluster, "first", ports=WEB)
    await submit(cluster, "second", ports=WEB)
    await cluster.stop("first")
    while await cluster.status("first") != "terminated":
        await cluster.pass_time(1)
    await cluster.pass_time(55, step_s=5)
    assert await cluster.status("second") == "pending"
    await cluster.pass_time(50, step_s=5)
    assert await cluster.status("second") == "running"


async def test_the_port_where_kernels_meet_is_leased_on_the_agent_of_rank_0(cluster: OrchestratedCluster) -> None:
    await agent(cluster, "a1", "31000-31999")
    seen = record_environments(cluster)
    await submit(cluster, "first", kernels=2)
    await submit(cluster, "second", kernels=2)
    ports = {name: {one["MASTER_PORT"] for one in sent} for name, sent in seen.items()}
    assert ports == {"first.0": {"31000"}, "first.1": {"31000"}, "second.0": {"31001"}, "second.1": {"31001"}}
    assert await leases(cluster, "first") == [{"#master": 31000}, {}]


async def test_a_session_waits_while_no_agent_has_a_port_to_meet_at(cluster: OrchestratedCluster) -> None:
    await agent(cluster, "a1", "31000-31000")
    await submit(cluster, "first", kernels=2)
    await submit(cluster, "second", kernels=2)
    await submit(cluster, "alone")
    assert [await cluster.status(name) for name in ("first", "second", "alone")] == ["running", "pending", "running"]
    verdict = await cluster.store.read(lambda unit: unit.verdicts.get(SessionId("second")))
    assert verdict is not None
    assert (verdict.code, "each port of the range" in verdict.summary) == ("PORTS_TAKEN", True)
    await agent(cluster, "a2")
    await cluster.pass_time(2)
    assert await cluster.status("second") == "running"


async def test_a_kernel_with_accelerators_has_a_port_to_meet_at_and_another_has_none(
    cluster: OrchestratedCluster,
) -> None:
    await agent(cluster, "a1", "31000-31999")
    seen = record_environments(cluster)
    for name in ("first", "second"):
        await submit(cluster, name, slots={"cpu": 1000, "cuda.device": 1})
    await submit(cluster, "third", slots={"cpu": 1000})
    ports = {name: sent[0].get("MASTER_PORT") for name, sent in seen.items()}
    assert ports == {"first.0": "31000", "second.0": "31001", "third.0": None}
