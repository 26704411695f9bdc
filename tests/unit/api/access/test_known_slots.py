"""Limits on slots that no scaling group has."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.owners.policy import ResourcePolicy
from sokovan.domain.slots import SlotLimits
from tests.unit.api.api_harness import ApiHarness

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def refused(api: ApiHarness, path: str, **fields: Any) -> str:
    """The message of a refused PUT."""
    answer = await api.call("PUT", f"/{path}", json={"name": path.partition("/")[2], **fields})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-request")
    return str(answer.json()["detail"])


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("policies/p", "slots_max"),
        ("policies/p", "pending_slots_max"),
        ("queues/q", "capability"),
        ("queues/q", "deserved"),
        ("queues/q", "guarantee"),
        ("images/i", "slots_min"),
        ("scaling-groups/g", "slot_weights"),
    ],
)
async def test_an_unknown_slot_is_refused_with_the_nearest_name(api: ApiHarness, path: str, field: str) -> None:
    alias = await refused(api, path, **{field: {"gpus": 1}})
    assert f"{field}/gpus: no scaling group has this slot; did you mean cuda.device?" in alias
    misspelt = await refused(api, path, **{field: {"cuda.devices": 1}})
    assert "did you mean cuda.device?" in misspelt
    assert (await api.get(f"/{path}")).status_code == 404


@pytest.mark.parametrize("field", ["known_slots", "slot_priority"])
async def test_a_misspelt_slot_of_a_scaling_group_is_refused(api: ApiHarness, field: str) -> None:
    text = await refused(api, "scaling-groups/g", **{field: ["cpu", "cuda.devcie"]})
    assert f"{field}/cuda.devcie: no agent has this slot; did you mean cuda.device?" in text


async def test_a_name_like_no_other_is_answered_with_the_known_ones(api: ApiHarness) -> None:
    assert "known are cpu, cuda.device," in await refused(api, "policies/p", slots_max={"zzz": 1})


async def test_slots_of_a_scaling_group_and_of_agents_are_known(api: ApiHarness) -> None:
    await api.cluster.agent("with-npu", slots={"cpu": 1000, "npu.device": 1})
    body: dict[str, Any] = {"name": "fpga", "known_slots": ["cpu", "fpga.device"], "slot_weights": {"fpga.device": 3}}
    assert (await api.call("PUT", "/scaling-groups/fpga", json=body)).status_code == 201
    limits = {"npu.device": 1, "fpga.device": 2, "tpu.device": 3, "cpu": 4, "mem": "1GiB"}
    answer = await api.call("PUT", "/policies/all", json={"name": "all", "slots_max": limits})
    assert answer.status_code == 201


async def test_a_slot_that_was_stored_before_does_not_prevent_other_changes(api: ApiHarness) -> None:
    await api.cluster.put(ResourcePolicy("old", slots_max=SlotLimits({"gone.device": 1})))
    body = {"name": "old", "slots_max": {"gone.device": 2}, "sessions_max": 3}
    assert (await api.call("PUT", "/policies/old", json=body)).status_code == 200
