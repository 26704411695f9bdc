"""The fleet as columns over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sokovan.api.fleet import reader as fleet_reader
from sokovan.api.fleet.reader import KEPT_MS
from sokovan.api.routes.cluster import fleet_columns
from sokovan.domain.cluster.agent_health import AgentHealth
from sokovan.domain.ids import AgentId
from sokovan.domain.owners.access import AccessSubject, Ownership, session_scope
from sokovan.orchestrator.topology_changes import TopologyState, topology_state
from sokovan.ports.agent_states import AgentState, DeviceFigures
from sokovan.ports.storage import UnitOfWork
from sokovan.testing.clock import VirtualClock
from tests.unit.api.api_harness import ADMIN, ApiHarness, api_harness, member

pytestmark = pytest.mark.asyncio(loop_scope="module")
NORTH, SOUTH = member("north"), member("south")
SLOTS = {"cpu": 1000, "mem": 1 << 30, "cuda.device": 2}


async def fleet(api: ApiHarness, user: str = ADMIN) -> Any:
    answer = await api.get("/fleet", user=user)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.slow
async def test_devices_are_listed_with_the_sessions_that_hold_them() -> None:
    clock = VirtualClock()
    async with api_harness(clock=clock) as api:
        await api.cluster.agent("a2", slots={"cpu": 1000, "mem": 1 << 30})
        nodes = [
            {"name": "r1", "tier": "rack", "members": ["a1"]},
            {"name": "z1", "tier": "zone", "members": ["r1"]},
        ]
        topology = {"tiers": [{"name": "rack"}, {"name": "zone"}], "hypernodes": nodes}
        assert (await api.call("PUT", "/topology", json=topology)).status_code == 200
        before = await fleet(api)
        assert (before["agents"], before["hypernodes"], before["hypernode"]) == (["a1", "a2"], ["r1", "z1"], [0, -1])
        assert before["hypernode_parent"] == [1, -1]
        assert (before["device_agent"], before["device_used"], before["device_holder"]) == ([0] * 4, [0] * 4, [-1] * 4)
        await api.run("train", NORTH, slots=SLOTS)
        assert (await fleet(api))["device_used"] == [0] * 4, "it is read once a second at most"
        await clock.advance(KEPT_MS / 1000)
        after = await fleet(api)
        assert sorted(after["device_used"]) == [0, 0, 1, 1]
        assert [place for place, used in zip(after["device_holder"], after["device_used"], strict=True) if used] == [
            0,
            0,
        ]
        [holder] = after["holders"]
        assert (holder["id"], holder["user"]) == ("train", NORTH)
        assert (after["kernels"], after["status"]) == ([1, 0], ["alive", "alive"])
        used = [one["used"].get("cuda.device", 0) for one in (before, after)]
        assert (used, after["slots"]["cuda.device"]) == ([0, 2], 4)
        assert before["failing"] == {}
        record = await api.cluster.store.read(lambda unit: unit.fleet.get(AgentId("a2")))
        ill = AgentHealth(failing_ms=1)
        await api.cluster.store.run(lambda unit: unit.fleet.set_health(record, ill))
        await clock.advance(KEPT_MS / 1000)
        assert (await fleet(api))["failing"] == {"a2": ill.reason}
        hidden = await fleet(api, SOUTH)
        assert (hidden["holders"], sorted(hidden["device_holder"])) == ([], [-2, -2, -1, -1])
        assert hidden["device_used"] == after["device_used"]
        assert (await fleet(api, NORTH))["holders"] == after["holders"]


async def test_figures_of_devices_come_from_the_last_heartbeat() -> None:
    clock = VirtualClock()
    async with api_harness(clock=clock) as api:
        found = await fleet(api)
        assert (found["device_use"], found["device_memory"], found["device_temperature"]) == ([], [], [])
        gpu0, gpu1 = found["device"][:2]
        figures = {gpu0: DeviceFigures(71, 3 << 30, 4 << 30, 64), gpu1: DeviceFigures(temperature_c=30)}
        await api.states.put(AgentState(AgentId("a1"), 1, 1, devices=figures), ttl_s=60)
        await clock.advance(KEPT_MS / 1000)
        found = await fleet(api)
        unknown = [-1] * (len(found["device"]) - 2)
        assert found["device_use"] == [71, -1, *unknown]
        assert found["device_memory"] == [75, -1, *unknown]
        assert found["device_temperature"] == [64, 30, *unknown]
        shown = (await api.get("/agents/a1")).json()["devices"]
        assert (shown[gpu0]["memory_used_bytes"], shown[gpu1]["use_percent"]) == (3 << 30, None)
        assert {len(one["devices"]) for one in (await api.get("/agents")).json()["items"]} == {0}


async def test_readers_who_come_during_a_slow_read_share_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, both_came, came, reads = VirtualClock(), asyncio.Event(), [], []

    def coming(subject: AccessSubject) -> Ownership:
        came.append(subject)
        if len(came) == 2:
            both_came.set()
        return session_scope(subject)

    async def slow(unit: UnitOfWork, **known: Any) -> TopologyState:
        reads.append(clock.monotonic_ms())
        await both_came.wait()
        await clock.advance(10 * KEPT_MS / 1000)
        return await topology_state(unit, **known)

    async with api_harness(clock=clock) as api:
        monkeypatch.setattr(fleet_columns, "session_scope", coming)
        monkeypatch.setattr(fleet_reader, "topology_state", slow)
        one, other = await asyncio.gather(fleet(api), fleet(api))
        assert one == other
        assert len(reads) == 1
        await fleet(api)
        assert len(reads) == 2, "a later reader sees what has changed since"


async def test_a_key_is_needed_and_parameters_are_refused(api: ApiHarness) -> None:
    assert (await api.get("/fleet", user=None)).status_code == 401
    assert (await api.get("/fleet?limit=1")).status_code == 422
