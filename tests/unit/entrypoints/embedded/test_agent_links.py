"""Admission of agents: Hello frames are converted, or refused with a reason."""

from __future__ import annotations

import pytest

from sokovan.adapters.inprocess.agents import InProcessAgentStates
from sokovan.adapters.inprocess.hints import InProcessHints
from sokovan.domain.errors import InvalidInput
from sokovan.domain.ids import AgentId
from sokovan.entrypoints.embedded.agent_links import admission, arrival_of
from sokovan.orchestrator.agent_registry import AgentRegistry
from sokovan.testing.stored_cluster import StoredCluster
from sokovan.wire.frames import DeviceEntry, Hello, HelloRefused, KernelEntry, Welcome

KEY = "an-agent-key"


def hello(**changes: object) -> Hello:
    given: dict[str, object] = {
        "agent_id": "a1",
        "software": "sokovan",
        "architecture": "x86_64",
        "scaling_group": "default",
        "slots": {"cpu": 4000, "cuda.device": 1},
        "devices": (DeviceEntry("gpu0", "cuda.device"),),
        **changes,
    }
    return Hello(**given)  # type: ignore[arg-type]  # a test names the few fields that matter to it


def registry(cluster: StoredCluster) -> AgentRegistry:
    clock = cluster.store.database.clock
    return AgentRegistry(cluster.store, InProcessAgentStates(clock), hints=InProcessHints(clock), clock=clock)


async def test_an_agent_with_the_key_is_enrolled_with_what_it_has() -> None:
    async with StoredCluster.open() as cluster:
        welcome = await admission(registry(cluster), KEY, heartbeat_s=2.0)(hello(), KEY)
        assert isinstance(welcome, Welcome)
        agent = await cluster.store.read(lambda unit: unit.fleet.get(AgentId("a1")))
        assert agent.info.incarnation == welcome.incarnation == 1
        assert (welcome.kept_max, welcome.kept_s) == (1000, 3600)
        assert agent.info.available_slots["cpu"] == 4000
        assert [device.device_id for device in agent.devices] == ["gpu0"]


async def test_a_wrong_token_is_refused_permanently_and_enrols_no_agent() -> None:
    async with StoredCluster.open() as cluster:
        refusal = await admission(registry(cluster), KEY, heartbeat_s=2.0)(hello(), "another")
        assert isinstance(refusal, HelloRefused)
        assert (refusal.code, refusal.final) == ("unauthorized", True)
        assert await cluster.store.read(lambda unit: unit.fleet.all()) == []


async def test_an_older_process_of_the_same_agent_is_refused_for_good() -> None:
    async with StoredCluster.open() as cluster:
        admit = admission(registry(cluster), KEY, heartbeat_s=2.0)
        await admit(hello(), KEY)
        await admit(hello(), KEY)
        refusal = await admit(hello(incarnation=1), KEY)
        assert isinstance(refusal, HelloRefused)
        assert (refusal.code, refusal.final) == ("superseded", True)


@pytest.mark.parametrize(
    "changes", [{"agent_id": "../etc"}, {"slots": {"CPU!": 1}}, {"agent_id": ""}], ids=["path", "slot", "empty"]
)
async def test_an_invalid_hello_is_refused_with_a_reason(changes: dict[str, object]) -> None:
    async with StoredCluster.open() as cluster:
        refusal = await admission(registry(cluster), KEY, heartbeat_s=2.0)(hello(**changes), KEY)
        assert isinstance(refusal, HelloRefused)
        assert refusal.final
        assert refusal.message


async def test_a_second_machine_of_the_same_name_is_refused_for_good() -> None:
    async with StoredCluster.open() as cluster:
        admit = admission(registry(cluster), KEY, heartbeat_s=2.0)
        await admit(hello(identity="first"), KEY)
        refusal = await admit(hello(identity="second"), KEY)
        assert isinstance(refusal, HelloRefused)
        assert (refusal.code, refusal.final) == ("name-taken", True)


def test_the_kernels_that_an_agent_answers_for_come_along() -> None:
    arrival = arrival_of(hello(kernels=(KernelEntry("k1", 2, running=True),)))
    assert arrival.kernels == (("k1", 2),)


def test_an_agent_without_a_name_is_no_agent() -> None:
    with pytest.raises(InvalidInput):
        arrival_of(hello(agent_id="no spaces allowed"))
