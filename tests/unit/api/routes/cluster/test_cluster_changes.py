"""What changes of the cluster would do, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.api_harness import ADMIN, ApiHarness, domain_admin, member

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def what_if(api: ApiHarness, user: str = ADMIN, **changes: Any) -> Any:
    return await api.call("POST", "/what-if", json=changes, user=user)


@pytest.mark.slow
async def test_a_drain_keeps_a_waiting_session_from_starting(api: ApiHarness) -> None:
    await api.cluster.agent("lonely")
    await api.submit("would-start", member("north"))
    before = (await what_if(api)).json()
    assert (before["sessions"], before["shares"], before["left_out"]) == ([], [], 0)
    assert before["before"] == before["after"]
    agents = [one["id"] for one in (await api.get("/agents", user=ADMIN)).json()["items"]]
    answer = (await what_if(api, drain=agents)).json()
    assert answer["after"]["starts"] == 0 < answer["before"]["starts"]
    [session] = [one for one in answer["sessions"] if one["id"] == "would-start"]
    assert session["before"] == "PLACED" != session["after"]
    assert (await api.get("/agents/lonely", user=ADMIN)).json()["status"] == "alive"


async def test_it_is_for_administrators_and_for_what_exists(api: ApiHarness) -> None:
    for user in (member("north"), domain_admin("north")):
        assert (await what_if(api, user)).status_code == 403
    assert (await what_if(api, drain=["nowhere"])).status_code == 404
    assert (await what_if(api, weights={"defualt": 2})).json()["hint"] == "did you mean default?"
    assert (await what_if(api, scaling_group="defualt")).status_code == 404
    assert (await what_if(api, add={"lonely": 0})).status_code == 422
    assert (await what_if(api, remove=["a1"])).status_code == 422
