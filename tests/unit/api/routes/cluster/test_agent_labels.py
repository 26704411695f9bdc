"""Labels of agents over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.api_harness import ApiHarness

pytestmark = pytest.mark.asyncio(loop_scope="module")


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
