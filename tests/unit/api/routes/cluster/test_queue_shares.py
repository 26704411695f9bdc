"""Shares of queues over HTTP."""

from __future__ import annotations

import pytest

from sokovan.domain.cluster.queue import Queue
from sokovan.domain.ids import QueueName
from tests.unit.api.api_harness import ADMIN, ApiHarness, member

pytestmark = pytest.mark.asyncio(loop_scope="module")
NORTH = member("north")


@pytest.mark.slow
async def test_the_shares_of_queues_are_listed_by_slot(api: ApiHarness) -> None:
    body = {"command": ["true"], "resources": {"cpu": 2}, "queue": "default"}
    assert (await api.call("POST", "/sessions", json=body, user=NORTH)).status_code == 201
    items = (await api.get("/queue-shares?queue=default", user=NORTH)).json()["items"]
    (cpu,) = [one for one in items if one["slot"] == "cpu"]
    assert (cpu["queue"], cpu["scaling_group"], cpu["allocated"], cpu["borrowed"]) == ("default", "default", 0, 0)
    assert cpu["waiting"] >= 2000
    await api.cluster.put(Queue(QueueName("silent")))
    assert (await api.get("/queue-shares?queue=silent", user=NORTH)).json()["items"] == []


async def test_unknown_queues_and_scaling_groups_are_errors_with_the_nearest_name(api: ApiHarness) -> None:
    for query in ("queue=defualt", "scaling_group=defualt"):
        answer = await api.get(f"/queue-shares?{query}", user=ADMIN)
        assert (answer.status_code, answer.json()["hint"]) == (404, "did you mean default?")
    assert (await api.get("/queue-shares?queue=%20", user=ADMIN)).status_code == 422
