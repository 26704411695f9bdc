"""Pools, queues and images over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import QueueName, ScalingGroupName
from tests.unit.api.api_harness import ApiHarness, member

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.slow
async def test_an_image_is_found_by_its_architecture_too(api: ApiHarness) -> None:
    for architecture in ("x86_64", "aarch64"):
        body = {"name": "repo/a:1", "architecture": architecture}
        query = f"architecture={architecture}"
        assert (await api.call("PUT", f"/images/repo/a:1?{query}", json=body)).status_code == 201
    assert (await api.get("/images/repo/a:1")).json()["architecture"] == "x86_64"
    assert (await api.get("/images/repo/a:1?architecture=aarch64")).json()["architecture"] == "aarch64"
    assert (await api.get("/images/repo/a:1?architecture=riscv64")).status_code == 404
    assert (await api.call("DELETE", "/images/repo/a:1?architecture=x86_64")).status_code == 204
    # The only one that is left needs no architecture.
    assert (await api.get("/images/repo/a:1", user=member("north"))).json()["architecture"] == "aarch64"


@pytest.mark.slow
async def test_an_architecture_that_contradicts_the_body_is_refused(api: ApiHarness) -> None:
    answer = await api.call("PUT", "/images/b?architecture=aarch64", json={"name": "b"})
    assert answer.status_code == 422
    assert (await api.get("/images/b")).status_code == 404


async def test_every_field_of_a_queue_is_put(api: ApiHarness) -> None:
    await api.cluster.put(Queue(QueueName("kept"), priority=3))
    await api.call("PUT", "/queues/kept", json={"name": "kept", "weight": 5, "reclaimable": False})
    stored = await api.cluster.store.read(lambda unit: unit.catalog.get(Queue, "kept"))
    assert stored == Queue(QueueName("kept"), weight=5, reclaimable=False)


async def test_queues_form_a_tree(api: ApiHarness) -> None:
    await api.call("PUT", "/queues/parent", json={"name": "parent"})
    await api.call("PUT", "/queues/child", json={"name": "child", "parent": "parent"})
    circle = await api.call("PUT", "/queues/parent", json={"name": "parent", "parent": "child"})
    assert (circle.status_code, circle.json()["code"]) == (422, "invalid-queues")
    assert (await api.call("DELETE", "/queues/parent")).status_code == 409
    assert (await api.get("/queues/parent")).json()["parent"] is None


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"scheduler": "psychic"}, "unknown-plugin"),
        ({"scheduler_opts": {"agent_selector": "nearest"}}, "unknown-plugin"),
        ({"scheduler_opts": {"validators": ["mood"]}}, "unknown-plugin"),
        ({"scheduler_opts": {"plugins": ["mood"]}}, "unknown-plugin"),
        ({"scheduler_opts": {"actions": ["preempt"]}}, "unsupported-action"),
        ({"scheduler_opts": {"queue_policy": "luck"}}, "invalid-spec"),
        ({"scheduler_opts": {"hierarchy": "yes"}}, "invalid-spec"),
        ({"scheduler_opts": {"shard_mode": "hard"}}, "invalid-spec"),
        ({"scheduler_opts": {"sequencer": "lifo"}}, "invalid-spec"),
        ({"scheduler_opts": {"selector": "legacy"}}, "invalid-spec"),
        ({"scheduler_opts": {"options": {"a": 1}}}, "invalid-spec"),
        ({"scheduler_opts": {"agent_selectr": "dispersed"}}, "invalid-spec"),
        ({"scheduler_opts": {"own": [1]}}, "invalid-spec"),
        ({"pending_timeout_s": 0}, "invalid-spec"),
        ({"mem_per_gpu": 0}, "invalid-spec"),
        ({"mem_per_cpu": "much"}, "invalid-slots"),
        ({"known_slots": ["CPU"]}, "invalid-slots"),
    ],
)
async def test_a_pool_that_no_cycle_could_run_is_refused(api: ApiHarness, options: dict[str, Any], code: str) -> None:
    answer = await api.call("PUT", "/scaling-groups/bad", json={"name": "bad", **options})
    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert (await api.get("/scaling-groups/bad")).status_code == 404


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", '[{"a": 1e999}]'])
async def test_a_number_that_json_does_not_have_is_not_kept_as_nothing(api: ApiHarness, number: str) -> None:
    content = '{"name": "endless", "scheduler_opts": {"own": ' + number + "}}"
    headers = {"content-type": "application/json"}
    answer = await api.call("PUT", "/scaling-groups/endless", content=content, headers=headers)
    assert answer.status_code == 422
    assert (await api.get("/scaling-groups/endless")).status_code == 404


async def test_a_pool_may_choose_its_policy(api: ApiHarness) -> None:
    body = {"name": "fair", "scheduler": "drf", "scheduler_opts": {"agent_selector": "dispersed"}}
    assert (await api.call("PUT", "/scaling-groups/fair", json=body)).status_code == 201
    assert (await api.get("/scaling-groups/fair")).json()["scheduler_opts"] == body["scheduler_opts"]


async def test_a_misspelt_scheduler_option_is_refused_with_the_nearest_name(api: ApiHarness) -> None:
    body = {"name": "typo", "scheduler_opts": {"agent_selectr": "dispersed"}}
    answer = await api.call("PUT", "/scaling-groups/typo", json=body)
    assert answer.status_code == 422
    assert "did you mean agent_selector?" in answer.json()["hint"]
    assert answer.json()["problems"][0]["where"] == "scheduler_opts/agent_selectr"


async def test_a_scheduler_option_set_to_null_is_removed(api: ApiHarness) -> None:
    options = {"scheduler_opts": {"agent_selector": "dispersed"}}
    # An unknown option that was stored before options were checked.
    await api.cluster.put(ScalingGroup(ScalingGroupName("old"), scheduler_opts={**options["scheduler_opts"], "own": 1}))
    body = {"name": "old", "scheduler_opts": {"agent_selector": "dispersed", "own": None}}
    assert (await api.call("PUT", "/scaling-groups/old", json=body)).status_code == 200
    assert (await api.get("/scaling-groups/old")).json()["scheduler_opts"] == options["scheduler_opts"]


async def test_a_pool_with_machines_stays(api: ApiHarness) -> None:
    assert (await api.call("DELETE", "/scaling-groups/default")).status_code == 409


@pytest.mark.parametrize("name", ["host", "venv:train"])
async def test_an_image_of_the_process_runtime_needs_no_registration(api: ApiHarness, name: str) -> None:
    problem = (await api.get(f"/images/{name}")).json()
    assert (problem["code"], problem["hint"]) == (
        "not-found",
        f"{name} can be used without being registered; image set registers it",
    )
