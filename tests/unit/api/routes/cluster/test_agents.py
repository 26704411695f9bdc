"""Machines over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.cluster.agent_health import AgentFailure, AgentHealth
from sokovan.domain.ids import AgentId, SessionId
from sokovan.domain.lifecycle.agent import AgentTrigger
from sokovan.ports.agent_states import AgentState
from sokovan.testing.stored_cluster import BY_COORDINATOR
from tests.unit.api.api_harness import ApiHarness, domain_admin, member

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH = member("north")


async def change(api: ApiHarness, name: str, action: str, **options: Any) -> Any:
    body = {"action": action, **options.pop("body", {})}
    return await api.call("PATCH", f"/agents/{name}", json=body, **options)


@pytest.mark.slow
async def test_every_user_sees_every_agent(api: ApiHarness) -> None:
    state = AgentState(AgentId("a1"), 1, 1, load={"load_milli": 250})
    await api.dependencies.agents.put(state, ttl_s=60)
    for user in (NORTH, domain_admin("south"), "root"):
        page = (await api.get("/agents", user=user)).json()
        assert "a1" in [item["id"] for item in page["items"]]
        view = (await api.get("/agents/a1", user=user)).json()
        assert (view["status"], view["load"], view["connected"]) == ("alive", {"load_milli": 250}, True)


@pytest.mark.slow
async def test_the_identity_of_an_agent_is_shown_to_administrators_only(api: ApiHarness) -> None:
    labels = {"sokovan.identity": "0123", "sokovan.process": "p", "sokovan.network": "closed"}
    await api.cluster.agent("trusted", devices=False, labels=labels)
    for user in (NORTH, domain_admin("south")):
        page = (await api.get("/agents?limit=500", user=user)).json()["items"]
        listed = next(item for item in page if item["id"] == "trusted")
        shown = (await api.get("/agents/trusted", user=user)).json()
        assert listed["labels"] == shown["labels"] == {"sokovan.network": "closed"}
    seen = (await api.get("/agents/trusted")).json()["labels"]
    assert seen == {"sokovan.identity": "0123", "sokovan.network": "closed"}


async def test_machines_are_listed_page_by_page_and_by_pool(api: ApiHarness) -> None:
    for number in range(3):
        await api.cluster.agent(f"m{number}", devices=False)
    first = (await api.get("/agents?limit=2")).json()
    second = (await api.get(f"/agents?limit=500&cursor={first['next']}")).json()
    assert [item["id"] for item in first["items"]] == ["a1", "m0"]
    assert [item["id"] for item in second["items"]][:2] == ["m1", "m2"]
    assert (await api.get("/agents?scaling_group=other")).json()["items"] == []


async def test_a_machine_is_drained_and_taken_back(api: ApiHarness) -> None:
    await api.cluster.agent("drained", devices=False)
    assert (await change(api, "drained", "drain", body={"reason": "new disks"})).json()["status"] == "draining"
    assert (await change(api, "drained", "drain")).status_code == 200
    assert (await change(api, "drained", "undrain")).json()["status"] == "alive"
    history = (await api.get("/agents/drained/history")).json()
    assert [(line["after"], line["code"], line["detail"]) for line in history][1:] == [
        ("draining", "admin-drain", "new disks"),
        ("alive", "admin-undrain", ""),
    ]
    assert ("root", "agent.drain", "drained", "done") in await api.audited()


async def test_a_failing_machine_is_shown_and_returned_by_an_administrator(api: ApiHarness) -> None:
    record = await api.cluster.agent("failing", devices=False)
    failure = AgentFailure(SessionId("s1"), "north", "creation-refused", "no space left", 1_700_000_000_000)
    health = AgentHealth((failure,), failing_ms=1_700_000_001_000, rounds=1)
    await api.cluster.store.run(lambda unit: unit.fleet.set_health(record, health))
    seen = (await api.get("/agents/failing", user=NORTH)).json()
    assert (seen["status"], seen["failing_since"]) == ("alive", "2023-11-14T22:13:21.000Z")
    assert seen["failing_reason"] == "1 session in a row could not be started: creation-refused"
    assert [(one["code"], one["user"], one["detail"]) for one in seen["failed_starts"]] == [
        ("creation-refused", "", "")
    ]
    shown = (await api.get("/agents/failing")).json()["failed_starts"]
    assert [(one["session"], one["user"], one["detail"]) for one in shown] == [("s1", "north", "no space left")]
    after = (await change(api, "failing", "undrain", body={"reason": "new disk"})).json()
    assert (after["failing_since"], after["failing_reason"], after["failed_starts"]) == (None, "", [])
    last = (await api.get("/agents/failing/history")).json()[-1]
    assert (last["code"], last["detail"]) == ("admin-undrain", "new disk")
    assert ("root", "agent.undrain", "failing", "done") in await api.audited()


async def test_only_a_lost_machine_is_declared_gone(api: ApiHarness) -> None:
    record = await api.cluster.agent("lost", devices=False)
    refused = await change(api, "lost", "declare-gone")
    assert (refused.status_code, refused.json()["code"]) == (409, "illegal-transition")

    async def loses_its_agent(unit: Any) -> None:
        missed = await unit.fleet.move(record, AgentTrigger.HEARTBEAT_MISSED, BY_COORDINATOR)
        await unit.fleet.move(missed, AgentTrigger.DECLARED_LOST, BY_COORDINATOR)

    await api.cluster.store.run(loses_its_agent)
    assert (await change(api, "lost", "declare-gone")).json()["status"] == "terminated"


async def test_a_change_wakes_the_scheduler(api: ApiHarness) -> None:
    await api.cluster.agent("waking", devices=False)
    await api.dependencies.hints.take("sessions")
    await change(api, "waking", "drain")
    assert await api.dependencies.hints.take("sessions")


@pytest.mark.parametrize("user", [NORTH, domain_admin("north")])
async def test_only_administrators_change_machines(api: ApiHarness, user: str) -> None:
    assert (await change(api, "a1", "drain", user=user)).status_code == 403
    assert (await change(api, "nothing", "drain", user=user)).status_code == 403


@pytest.mark.parametrize(
    ("name", "body", "status"),
    [
        ("a1", {"action": "explode"}, 422),
        ("a1", {"action": "drain", "reason": "x" * 1001}, 422),
        ("a1", {"reason": "x"}, 422),
        ("a1", {"action": "drain", "force": True}, 422),
        ("nothing", {"action": "drain"}, 404),
        ("a%00b", {"action": "drain"}, 404),
    ],
)
async def test_a_change_that_is_none_is_refused(api: ApiHarness, name: str, body: dict[str, Any], status: int) -> None:
    answer = await api.call("PATCH", f"/agents/{name}", json=body)
    assert answer.status_code == status


async def test_a_machine_that_is_not_there_is_not_found(api: ApiHarness) -> None:
    for path in ("/agents/nothing", "/agents/nothing/history", "/agents/a%00b"):
        assert (await api.get(path)).status_code == 404


async def test_a_machine_may_have_a_name_with_slashes(api: ApiHarness) -> None:
    await api.cluster.agent("rack/1", devices=False)
    assert (await api.get("/agents/rack/1")).json()["id"] == "rack/1"
    assert (await api.get("/agents/rack/1/history")).status_code == 200


async def test_an_action_is_tried_out_without_a_change(api: ApiHarness) -> None:
    await api.cluster.agent("tried")
    await api.submit("there", NORTH)
    await api.cluster.place("there", "tried")
    await api.cluster.start("there")
    found = (await change(api, "tried?dry_run=true", "drain")).json()
    assert (found["before"], found["after"], found["ends_kernels"], found["kernels"]) == ("alive", "draining", False, 1)
    [session] = found["sessions"]
    assert (session["id"], session["user"], session["kernels"], session["size"]) == ("there", NORTH, 1, 1)
    assert found["group_agents_after"] == found["group_agents"] - 1
    assert found["group_free_after"]["cpu"] < found["group_free"]["cpu"]
    assert (await change(api, "tried?dry_run=true", "declare-gone")).status_code == 409
    same = (await change(api, "tried?dry_run=true", "undrain")).json()
    assert (same["after"], same["group_agents_after"]) == ("alive", same["group_agents"])
    assert (await api.get("/agents/tried")).json()["status"] == "alive"
    assert not [entry for entry in await api.audited() if entry[2] == "tried"]


async def test_only_administrators_try_out_actions(api: ApiHarness) -> None:
    for user in (NORTH, domain_admin("north")):
        assert (await change(api, "a1?dry_run=true", "drain", user=user)).status_code == 403
    assert (await change(api, "nowhere?dry_run=true", "drain")).status_code == 404
