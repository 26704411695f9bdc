"""Plans and explanations of deployments over HTTP."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sokovan.domain.ids import DeploymentId, ReplicaId, SessionId
from sokovan.domain.lifecycle.replica import ReplicaPlace, ReplicaTrigger
from sokovan.ports.storage import UnitOfWork
from sokovan.testing.stored_cluster import BY_COORDINATOR as CHANGE
from tests.unit.api.api_harness import ApiHarness, member
from tests.unit.api.routes.serving.test_deployments import TOY, create

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH = member("north")


@pytest.mark.slow
async def test_a_plan_shows_the_command_and_stores_nothing(api: ApiHarness) -> None:
    body = {"name": "planned", "revision": {**TOY, "arguments": ["--tokens", "3"]}}
    planned = (await api.call("POST", "/deployments/plan", json=body, user=NORTH)).json()
    assert "{port}" in planned["command"]
    assert planned["command"][-2:] == ["--tokens", "3"]
    assert planned["probe"]["path"] == "/health"
    assert (await api.get("/deployments/planned", user=NORTH)).status_code == 404


@pytest.mark.slow
async def test_why_says_that_replicas_are_on_their_way(api: ApiHarness) -> None:
    await create(api, "waits", replicas_min=2)
    why = (await api.get("/deployments/waits/why", user=NORTH)).json()
    assert (why["code"], why["health"]) == ("REPLICAS_WAIT", "unhealthy")
    assert why["summary"].startswith("0 of 2 replicas serve")


async def test_why_has_the_last_lines_of_a_replica_that_failed(api: ApiHarness) -> None:
    view = (await create(api, "crashes")).json()
    session = SessionId(await api.run("crashed-engine", NORTH))
    api.agents.says("crashed-engine.0", b"loading\n\x1b[31mout of memory\n", ends=True)

    async def fail(unit: UnitOfWork) -> None:
        place = ReplicaPlace(DeploymentId(view["id"]), 1, 0, 1)
        replica = await unit.replicas.create(ReplicaId("r-crash"), place, "s", CHANGE)
        started = await unit.replicas.move(replica, ReplicaTrigger.ENQUEUED, CHANGE, session_id=session)
        await unit.replicas.move(started, ReplicaTrigger.EXITED, replace(CHANGE, code="exited", detail="exit code 1"))

    await api.cluster.store.run(fail)
    why = (await api.get("/deployments/crashes/why", user=NORTH)).json()
    assert why["code"] == "REPLICAS_FAIL"
    [failed] = why["replicas"]
    assert (failed["replica"]["status"], failed["summary"]) == ("failed", "failed: exit code 1")
    assert failed["log"] == ["loading", "[31mout of memory"]


async def test_why_says_that_no_more_replicas_are_started_after_three_failures(api: ApiHarness) -> None:
    view = (await create(api, "crash-loop")).json()

    async def fail(unit: UnitOfWork) -> None:
        for attempt in (1, 2, 3):
            place = ReplicaPlace(DeploymentId(view["id"]), 1, 0, attempt)
            replica = await unit.replicas.create(ReplicaId(f"r-loop-{attempt}"), place, "s", CHANGE)
            started = await unit.replicas.move(replica, ReplicaTrigger.ENQUEUED, CHANGE)
            await unit.replicas.move(started, ReplicaTrigger.EXITED, replace(CHANGE, code="exited", detail="exit 3"))

    await api.cluster.store.run(fail)
    why = (await api.get("/deployments/crash-loop/why", user=NORTH)).json()
    assert why["code"] == "CRASH_LOOP"
    assert why["summary"] == "0 of 1 replicas serve; the last one failed: exit 3; further attempts wait"
