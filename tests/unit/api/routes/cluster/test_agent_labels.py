"""Labels of agents over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.api_harness import ApiHarness

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.slow
async def test_labels_of_operators_are_set_removed_and_recorded(api: ApiHarness) -> None:
    await api.cluster.agent("labelled", devices=False, labels={"rack": "r1"})

    async def label(name: str = "labelled", **body: Any) -> Any:
        return await api.call("PATCH", f"/agents/{name}/labels", json=body)

    changed = (await label(set={"rack": "r2", "zone": "z"})).json()
    assert changed["agent"]["labels"] == {"rack": "r2", "zone": "z"}
    assert changed["agent"]["operator_labels"] == {"rack": "r2", "zone": "z"}
    assert (await label(remove=["rack"])).json()["agent"]["labels"] == {"rack": "r1", "zone": "z"}
    assert (await label("nobody", set={"a": "b"})).status_code == 404
    wrong: tuple[dict[str, Any], ...] = (
        {"set": {"sokovan.identity": "x"}},
        {"set": {"": "x"}},
        {"set": {"a": "\n"}},
        {"set": {"a": "x"}, "remove": ["a"]},
        {"remove": ["rack"]},
        {"set": {str(number): "" for number in range(33)}},
        {"labels": {}},
    )
    for bad in wrong:
        assert (await label(**bad)).status_code == 422
    assert (await api.get("/agents/labelled")).json()["operator_labels"] == {"zone": "z"}


@pytest.mark.slow
async def test_taints_of_operators_are_set_removed_and_shown_apart_from_labels(api: ApiHarness) -> None:
    await api.cluster.agent("tainted", devices=False, labels={"rack": "r1"})

    async def taint(name: str = "tainted", **body: Any) -> Any:
        return await api.call("PATCH", f"/agents/{name}/taints", json=body)

    changed = (await taint(set=["dedicated=ml", "spot:NoSchedule"])).json()
    assert changed["taints"] == ["dedicated=ml", "spot"]
    assert (changed["labels"], changed["operator_labels"]) == ({"rack": "r1"}, {})
    assert (await taint(remove=["spot"])).json()["taints"] == ["dedicated=ml"]
    assert (await taint("nobody", set=["a"])).status_code == 404
    wrong: tuple[dict[str, Any], ...] = (
        {"set": ["=ml"]},
        {"set": ["a:NoExecute"]},
        {"set": ["a=1", "a=2"]},
        {"set": ["a"], "remove": ["a"]},
        {"remove": ["never"]},
        {"set": [f"a{number}" for number in range(33)]},
        {"taints": []},
    )
    for bad in wrong:
        assert (await taint(**bad)).status_code == 422, bad
    assert (await api.get("/agents/tainted")).json()["taints"] == ["dedicated=ml"]
    by_label = await api.call("PATCH", "/agents/tainted/labels", json={"set": {"sokovan.taint/a": ""}})
    assert (by_label.status_code, by_label.json()["hint"]) == (422, "taints are set by `sokovan agent taint`")
