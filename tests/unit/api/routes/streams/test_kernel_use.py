"""The use of kernels over HTTP."""

from __future__ import annotations

import pytest

from sokovan.api.routes.streams.kernel_use import KERNELS_MAX
from sokovan.domain.ids import AgentId, KernelId
from sokovan.ports.agent_states import AgentState, DeviceFigures
from sokovan.ports.runtime import KernelUse
from tests.unit.api.api_harness import ApiHarness, domain_admin, member

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH, SOUTH = member("north"), member("south")


@pytest.mark.slow
async def test_each_kernel_is_shown_with_its_use_and_what_it_asked_for(api: ApiHarness) -> None:
    await api.run("busy", NORTH)
    api.agents.uses[KernelId("busy.0")] = KernelUse(1000, cpu_ms=2500, memory_bytes=4096, processes=3)
    for user in (NORTH, domain_admin("north")):
        answer = await api.get("/sessions/busy/metrics", user=user)
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert (found["session"], found["status"], found["size"]) == ("busy", "running", 1)
        [kernel] = found["items"]
        assert kernel["slots"]["cpu"] > 0
        assert {key: value for key, value in kernel.items() if key != "slots"} == {
            "index": 0, "rank": 0, "status": "running", "agent": "a1", "cpu_ms": 2500, "memory_bytes": 4096,
            "processes": 3, "sampled_ms": 1000, "error": None, "devices": {},
        }  # fmt: skip


async def test_a_kernel_has_the_figures_of_its_own_devices(api: ApiHarness) -> None:
    await api.run("deep", NORTH, slots={"cpu": 1, "cuda.device": 1})
    [kernel] = (await api.cluster.session("deep")).kernels
    [mine] = kernel.devices["cuda.device"]
    figures = {mine: DeviceFigures(71, 3 << 30, 4 << 30, 64), "another": DeviceFigures(5)}
    await api.states.put(AgentState(AgentId("a1"), 1, 1, devices=figures), ttl_s=60)
    [found] = (await api.get("/sessions/deep/metrics", user=NORTH)).json()["items"]
    assert found["devices"] == {
        mine: {"use_percent": 71, "memory_used_bytes": 3 << 30, "memory_bytes": 4 << 30, "temperature_c": 64}
    }


@pytest.mark.slow
async def test_chosen_kernels_are_measured_and_by_default_the_first(api: ApiHarness) -> None:
    await api.submit("wide", NORTH, kernels=KERNELS_MAX + 2)
    everything = (await api.get("/sessions/wide/metrics", user=NORTH)).json()
    assert [one["index"] for one in everything["items"]] == list(range(KERNELS_MAX))
    assert everything["size"] == KERNELS_MAX + 2
    assert {one["error"] for one in everything["items"]} == {"the kernel has not started"}
    chosen = (await api.get("/sessions/wide/metrics?kernel=65,3,4,999", user=NORTH)).json()
    assert [one["index"] for one in chosen["items"]] == [3, 4, 65]


@pytest.mark.slow
async def test_an_agent_that_is_away_is_an_error_of_its_kernel_only(api: ApiHarness) -> None:
    await api.run("lonely", NORTH)
    api.agents.away.add(AgentId("a1"))
    answer = await api.get("/sessions/lonely/metrics", user=NORTH)
    api.agents.away.clear()
    assert answer.status_code == 200
    assert answer.json()["items"][0]["error"] == "agent 'a1': it has no link"


async def test_no_user_measures_sessions_of_others(api: ApiHarness) -> None:
    await api.run("secret", NORTH)
    calls = len(api.agents.calls)
    for user in (SOUTH, domain_admin("south")):
        assert (await api.get("/sessions/secret/metrics", user=user)).status_code == 404
    assert len(api.agents.calls) == calls


@pytest.mark.parametrize(
    "query", ["kernel=x", "kernel=-1", "kernel=", "kernel=" + ",".join("1" * 65), "kernel=12345678"]
)
async def test_kernels_are_named_by_at_most_64_indexes(api: ApiHarness, query: str) -> None:
    await api.submit(f"named-{len(query)}-{ord(query[-1])}", NORTH)
    answer = await api.get(f"/sessions/named-{len(query)}-{ord(query[-1])}/metrics?{query}", user=NORTH)
    assert answer.status_code == 422
