"""Why sessions wait, what would become of one, and what has happened to it."""

from __future__ import annotations

import asyncio

import pytest

from sokovan.domain.ids import DeploymentId, SessionId
from sokovan.domain.lifecycle.replica import ReplicaPlace
from sokovan.domain.session import SessionType
from sokovan.ports.repositories.verdicts import StoredVerdict
from tests.unit.api.api_harness import ADMIN, ApiHarness, member

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH, SOUTH = member("north"), member("south")


@pytest.mark.slow
async def test_a_plan_says_what_would_become_of_a_session_and_stores_nothing(api: ApiHarness) -> None:
    before = (await api.get("/sessions", user=NORTH)).json()["items"]
    body = {"command": ["true"], "resources": {"cpu": 1}}
    plan = (await api.call("POST", "/sessions/plan", json=body, user=NORTH)).json()
    assert (plan["would_start"], plan["code"], plan["placements"]) == ("now", "PLACED", [{"kernel": 0, "agent": "a1"}])
    never = (await api.call("POST", "/sessions/plan", json={**body, "resources": {"cpu": 100_000}}, user=NORTH)).json()
    assert (never["would_start"], never["code"]) == ("never", "NEVER_FITS")
    assert (await api.get("/sessions", user=NORTH)).json()["items"] == before


@pytest.mark.slow
async def test_many_plans_of_one_user_wait_for_their_turn_before_they_cost_anything(api: ApiHarness) -> None:
    body = {"command": ["true"], "resources": {"cpu": 1}}
    plans = [api.call("POST", "/sessions/plan", json=body, user=NORTH) for _ in range(12)]
    assert [answer.status_code for answer in await asyncio.gather(*plans)] == [200] * 12


@pytest.mark.slow
async def test_a_plan_of_a_bad_request_is_refused_like_the_request(api: ApiHarness) -> None:
    answer = await api.call("POST", "/sessions/plan", json={"size": 0, "command": ["x"]}, user=NORTH)
    assert answer.status_code == 422
    assert [one["where"] for one in answer.json()["problems"]] == ["size"]


async def test_why_shows_the_reason_to_the_owner_only(api: ApiHarness) -> None:
    await api.submit("waiting", NORTH)
    verdict = StoredVerdict(SessionId("waiting"), "NO_NODES", "there are no machines", "{}")
    await api.cluster.store.run(lambda unit: unit.verdicts.put([verdict]))
    why = (await api.get("/sessions/waiting/why", user=NORTH)).json()
    assert (why["session"], why["status"], why["code"], why["verdict"]) == (
        "waiting",
        "pending",
        "NO_NODES",
        "ASK_ADMIN",
    )
    assert (await api.get("/sessions/waiting/why", user=SOUTH)).status_code == 404


async def test_what_waits_is_counted_by_reason_among_what_the_caller_sees(api: ApiHarness) -> None:
    for name, owner in (("w-1", NORTH), ("w-2", NORTH), ("w-3", SOUTH)):
        await api.submit(name, owner, queue="counted")
    verdicts = [StoredVerdict(SessionId(name), "FRAGMENTED", "too scattered", "{}") for name in ("w-1", "w-2", "w-3")]
    await api.cluster.store.run(lambda unit: unit.verdicts.put(verdicts))

    async def counted(user: str, query: str = "queue=counted") -> list[tuple[str, int]]:
        items = (await api.get(f"/sessions/waiting?{query}", user=user)).json()["items"]
        return [(item["code"], item["sessions"]) for item in items]

    assert await counted(NORTH) == [("FRAGMENTED", 2)]
    assert await counted(SOUTH) == [("FRAGMENTED", 1)]
    assert await counted(ADMIN) == [("FRAGMENTED", 3)]
    assert await counted(SOUTH, f"queue=counted&user={NORTH}") == []


async def test_a_history_covers_the_session_and_its_kernels(api: ApiHarness) -> None:
    await api.run("recorded", NORTH)
    history = (await api.get("/sessions/recorded/history", user=NORTH)).json()
    subjects = {line["subject"] for line in history["lines"]}
    assert subjects == {"recorded", "recorded.0"}
    afters = [line["after"] for line in history["lines"] if line["subject"] == "recorded"]
    assert afters == ["pending", "scheduled", "prepared", "creating", "running"]
    assert (await api.get("/sessions/recorded/history", user=SOUTH)).status_code == 404


async def test_pages_of_a_history_are_the_whole_of_it(api: ApiHarness) -> None:
    await api.run("paged", NORTH)
    whole = (await api.get("/sessions/paged/history", user=NORTH)).json()
    assert whole["next"] is None
    lines, query = [], "limit=2"
    while query:
        page = (await api.get(f"/sessions/paged/history?{query}", user=NORTH)).json()
        assert 1 <= len(page["lines"]) <= 2
        lines += page["lines"]
        query = f"limit=2&cursor={page['next']}" if page["next"] is not None else ""
    assert lines == whole["lines"]


async def test_the_spec_of_a_session_is_for_those_who_see_it_and_its_variables_for_the_owner(api: ApiHarness) -> None:
    spec = {"command": ["python", "a.py"], "environment": {"SEED": "1"}, "secrets": {"TOKEN": "hidden-value"}}
    sent = {**spec, "name": "exported", "resources": {"cpu": 1, "mem": "64Mi"}, "gates": ["later"]}
    assert (await api.call("POST", "/sessions", json=sent, user=NORTH)).status_code == 201
    found = await api.get("/sessions/exported/spec", user=NORTH)
    mine = found.json()
    assert {name: mine["body"][name] for name in ("name", "command", "environment", "gates")} == {
        "name": "exported", "command": ["python", "a.py"], "environment": {"SEED": "1"}, "gates": ["later"],
    }  # fmt: skip
    assert mine["secrets"] == ["TOKEN"]
    seen = (await api.get("/sessions/exported/spec", user=ADMIN)).json()
    assert (seen["body"]["environment"], seen["hidden"]) == ({}, ["SEED"])
    assert "hidden-value" not in found.text + str(seen)
    assert (await api.get("/sessions/exported/spec", user=SOUTH)).status_code == 404


async def test_a_replica_of_a_deployment_has_no_spec_of_its_own(api: ApiHarness) -> None:
    await api.submit(
        "replica-1", NORTH, session_type=SessionType.INFERENCE, replica=ReplicaPlace(DeploymentId("d-1"), 1, 0, 1)
    )
    refused = await api.get("/sessions/replica-1/spec", user=NORTH)
    assert (refused.status_code, refused.json()["code"]) == (409, "replica-named")
    assert "sokovan deployment show d-1" in refused.json()["hint"]
