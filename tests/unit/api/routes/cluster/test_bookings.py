"""Bookings are accepted only if they can be met, and changed by administrators only."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from sokovan.api.mapping.times import time_text
from sokovan.api.routes.cluster.bookings import BOOKINGS, booking_operations
from sokovan.domain.cluster.booking import Booking
from sokovan.domain.ids import ScalingGroupName
from sokovan.domain.lifecycle.eviction import BOOKING_LEAD_MS
from sokovan.domain.owners.access import Action, ObjectKind, role_may
from sokovan.domain.session import SessionType
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.profile import SchedulingProfile
from tests.unit.api.api_harness import ApiHarness, member
from tests.unit.domain.owners.test_access import ADMIN, ALICE

pytestmark = pytest.mark.slow
HOUR_MS = 3_600_000
NORTH, SOUTH = member("north"), member("south")


async def put(
    api: ApiHarness, name: str, begins_h: int, ends_h: int, *, query: str = "", **fields: Any
) -> tuple[int, dict[str, Any]]:
    now_ms = await api.cluster.store.read(_now)
    times = {
        "starts_at": time_text(now_ms + begins_h * HOUR_MS),
        "ends_at": time_text(now_ms + ends_h * HOUR_MS),
    }
    body = {"name": name, "agents": ["a1"], "users": [SOUTH], **times, **fields}
    answer = await api.call("PUT", f"/bookings/{name}{query}", json=body)
    return answer.status_code, answer.json()


async def _now(unit: Any) -> int:
    return int(unit.now_ms)


async def test_bookings_of_one_agent_do_not_overlap_and_the_earliest_time_is_told(api: ApiHarness) -> None:
    await api.cluster.agent("a1")
    await api.cluster.agent("a2")
    assert (await put(api, "first", 1, 3))[0] == 201
    status, problem = await put(api, "second", 2, 4)
    assert (status, problem["code"]) == (409, "booking-conflict")
    assert "agent a1 is booked by first" in problem["detail"]
    first = (await api.get("/bookings/first")).json()
    assert f"the earliest time is {first['ends_at']}" in problem["hint"]
    assert (await put(api, "second", 2, 4, agents=["a2"]))[0] == 201
    assert (await put(api, "first", 1, 2))[0] == 200
    assert (await put(api, "third", 2, 4))[0] == 201


async def test_of_two_that_create_the_same_booking_at_once_one_is_refused(api: ApiHarness) -> None:
    names = ("b1", "b2")
    for name in names:
        await api.cluster.agent(name)
    made = await asyncio.gather(*[put(api, "demo", 1, 2, query="?replace=false", agents=[name]) for name in names])
    assert sorted(status for status, _ in made) == [201, 409]
    [refused] = [problem for status, problem in made if status == 409]
    assert (refused["code"], refused["detail"]) == ("already-exists", "there is a booking 'demo' already")
    assert (await put(api, "demo", 1, 3, query="?replace=true", agents=["b1"]))[0] == 200


async def test_a_booking_of_slots_gets_free_agents_of_one_scaling_group(api: ApiHarness) -> None:
    for name in ("r1", "r2", "r3"):
        await api.cluster.agent(name, slots={"cpu": 8000, "rocm.device": 4})
    status, first = await put(api, "wide", 1, 3, agents=[], slots={"rocm.device": 6})
    assert status == 201, first
    assert (first["agents"], first["slots"]) == (["r1", "r2"], {"rocm.device": "6"})
    status, problem = await put(api, "narrow", 2, 4, agents=[], slots={"rocm.device": 6})
    assert (status, problem["code"]) == (409, "booking-conflict")
    assert "that are free then have" in problem["detail"]
    status, second = await put(api, "narrow", 2, 4, agents=[], slots={"rocm.device": 4})
    assert (status, second["agents"]) == (201, ["r3"])
    # What no scaling group has is no question of time, and the past is past.
    status, problem = await put(api, "huge", 1, 3, agents=[], slots={"rocm.device": 13})
    assert (status, problem["hint"]) == (409, "choose less")
    assert "the agents of no scaling group have rocm.device=13" in problem["detail"]
    status, problem = await put(api, "past", -3, -1, agents=[], slots={"rocm.device": 4})
    assert (status, "is in the past" in problem["detail"]) == (422, True)
    # The chosen ones stay, also if the booking is stored again as it is shown.
    assert (await put(api, "wide", 1, 3, agents=first["agents"], slots=first["slots"]))[1]["agents"] == ["r1", "r2"]


@pytest.mark.parametrize(
    ("fields", "status", "text"),
    [
        ({"agents": ["nobody"]}, 404, "nobody"),
        ({"agents": [], "hypernode": "nowhere"}, 404, "nowhere"),
        ({"users": []}, 422, "it has no users"),
        ({"users": [SOUTH, "anna"]}, 404, "there is no user 'anna'"),
        ({"groups": ["nlp"]}, 404, "there is no group 'nlp'"),
        ({"queues": ["prod"]}, 404, "there is no queue 'prod'"),
        ({"ends_at": "2024-01-01T00:00:00Z"}, 422, "is not after its beginning"),
        ({"kind": "maintenance"}, 422, "must be empty"),
        ({"starts_at": "soon"}, 422, "not a time"),
        ({"wrong": 1}, 422, "wrong"),
    ],
)
async def test_a_booking_of_nothing_or_for_nobody_is_refused(
    api: ApiHarness, fields: dict[str, Any], status: int, text: str
) -> None:
    await api.cluster.agent("a1")
    found, problem = await put(api, "b", 1, 2, **fields)
    assert found == status
    assert text in str(problem)


async def test_a_booking_in_the_past_is_refused_and_users_only_read_bookings(api: ApiHarness) -> None:
    await api.cluster.agent("past")
    assert (await put(api, "b", -2, -1, agents=["past"]))[0] == 422
    assert (await put(api, "b", -1, 1, agents=["past"]))[0] == 201
    body = (await api.call("GET", "/bookings/b", user=member("north"))).json()
    assert (body["kind"], body["users"], body["groups"]) == ("booking", [], [])
    assert (await api.call("PUT", "/bookings/b", json=body, user=member("north"))).status_code == 403
    assert (await api.call("DELETE", "/bookings/b", user=member("north"))).status_code == 403
    assert (await api.call("DELETE", "/bookings/b")).status_code == 204


async def test_users_do_not_see_who_else_may_use_a_booking(api: ApiHarness) -> None:
    await api.cluster.agent("shared")
    north = member("north")
    await put(api, "shared", 1, 2, agents=["shared"], users=[SOUTH, north], groups=["south-group"], queues=["default"])
    seen = (await api.call("GET", "/bookings/shared", user=north)).json()
    assert (seen["users"], seen["groups"], seen["queues"]) == ([north], [], ["default"])
    [listed] = [one for one in (await api.call("GET", "/bookings", user=north)).json()["items"] if one == seen]
    assert listed["users"] == [north]
    whole = (await api.get("/bookings/shared")).json()
    assert (whole["users"], whole["groups"]) == ([SOUTH, north], ["south-group"])


async def test_a_session_names_a_booking_that_is_there_and_permits_it(api: ApiHarness) -> None:
    await api.cluster.agent("named")
    await put(api, "b", 1, 2, agents=["named"])
    body = {"command": ["true"], "resources": {"cpu": 1}}
    for name, text in (("none", "there is no booking"), ("b", "does not permit you")):
        answer = await api.call("POST", "/sessions", json={**body, "booking": name})
        assert answer.status_code == 422
        assert text in answer.text
    await put(api, "b", 1, 2, agents=["named"], queues=["default"])
    answer = await api.call("POST", "/sessions", json={**body, "booking": "b", "deadline": "2030-01-31T18:00:00Z"})
    assert (answer.json()["booking"], answer.json()["deadline"]) == ("b", "2030-01-31T18:00:00.000Z")


async def test_bookings_are_listed_shown_put_and_removed(api: ApiHarness) -> None:
    found = [
        (one.method, one.path.removeprefix("/api/v1/bookings")) for one in booking_operations(api.app.state.context)
    ]
    assert found == [
        ("GET", ""),
        ("GET", "/{name}/evictions"),
        ("GET", "/{name:path}"),
        ("PUT", "/{name:path}"),
        ("DELETE", "/{name:path}"),
    ]


def test_only_administrators_book_agents() -> None:
    assert BOOKINGS.kind is ObjectKind.BOOKING
    assert role_may(ADMIN, Action.CHANGE, BOOKINGS.kind)
    assert not role_may(ALICE, Action.CHANGE, BOOKINGS.kind)


async def runs(api: ApiHarness, name: str, agent: str, **options: Any) -> None:
    """A session that runs on an agent, without a time limit."""
    await api.cluster.agent(agent)
    await api.cluster.submit(name, **{"session_type": SessionType.BATCH, "stop_grace_s": 30, **options})
    await api.cluster.place(name, agent)
    await api.cluster.start(name)


async def soon(api: ApiHarness, agent: str, seconds: float, *, query: str = "") -> tuple[int, dict[str, Any]]:
    """Book an agent so many seconds from now."""
    now_ms = await api.cluster.store.read(_now)
    times = {
        "starts_at": time_text(now_ms + round(seconds * 1000)),
        "ends_at": time_text(now_ms + HOUR_MS),
    }
    body = {"name": "soon", "agents": [agent], "users": [SOUTH], **times}
    answer = await api.call("PUT", f"/bookings/soon{query}", json=body)
    return answer.status_code, answer.json()


async def test_what_may_be_evicted_is_not_in_the_way_if_its_grace_is_over_by_then(api: ApiHarness) -> None:
    await runs(api, "busy", "e1")
    lead_s = BOOKING_LEAD_MS / 1000
    status, problem = await soon(api, "e1", 30 + lead_s - 10)
    assert (status, problem["code"]) == (409, "booking-conflict")
    assert "session busy on agent e1 could not be evicted by then, with its grace" in problem["detail"]
    assert "the earliest time is 2" in problem["hint"]
    status, preview = await soon(api, "e1", 30 + lead_s + 60, query="?dry_run=true")
    assert (status, preview["agents"], [one["session"] for one in preview["planned"]]) == (200, ["e1"], ["busy"])
    assert (await api.get("/bookings/soon")).status_code == 404
    assert (await soon(api, "e1", 30 + lead_s + 60))[0] == 201
    [planned] = (await api.get("/bookings/soon/evictions")).json()["planned"]
    assert (planned["whole"], planned["then"], planned["evicted"]) == (True, "requeue", False)
    assert (await api.call("GET", "/bookings/soon/evictions", user=NORTH)).status_code == 403
    refused = await api.call("PUT", "/bookings/soon?dry_run=true", json={}, user=NORTH)
    assert refused.status_code in {403, 422}
    assert (await api.get("/bookings/nothing/evictions")).status_code == 404
    assert (await api.call("DELETE", "/bookings/soon")).status_code == 204


async def test_a_session_that_may_not_be_evicted_is_in_the_way_for_good(api: ApiHarness) -> None:
    await runs(api, "fixed", "e2", preemptible=False)
    status, problem = await soon(api, "e2", 3_000)
    assert (status, "session fixed on agent e2 has no time limit" in problem["detail"]) == (409, True)
    assert "those that may be evicted are not in the way" in problem["hint"]


async def test_slots_are_booked_on_free_agents_before_others_have_to_leave(api: ApiHarness) -> None:
    slots = {"cpu": 4000, "tpu.device": 4}
    for name in ("t1", "t2"):
        await api.cluster.agent(name, slots=slots)
    await api.cluster.submit("there", session_type=SessionType.BATCH, stop_grace_s=1, slots={"cpu": 1000})
    await api.cluster.place("there", "t1")
    await api.cluster.start("there")
    assert (await put(api, "one", 1, 3, agents=[], slots={"tpu.device": 4}))[1]["agents"] == ["t2"]
    assert (await put(api, "two", 1, 3, agents=[], slots={"tpu.device": 4}))[1]["agents"] == ["t1"]
    status, problem = await put(api, "three", 1, 3, agents=[], slots={"tpu.device": 4})
    first = (await api.get("/bookings/one")).json()
    assert (status, f"the earliest time is {first['ends_at']}" in problem["hint"]) == (409, True)
    for name in ("one", "two"):
        assert (await api.call("DELETE", f"/bookings/{name}")).status_code == 204


async def test_receipts_of_a_booking_are_shown_with_it(api: ApiHarness) -> None:
    await runs(api, "gone", "e3", stop_grace_s=600)
    now_ms = await api.cluster.store.read(_now)
    await put(api, "demo", 1, 2, agents=["e3"])
    # As if it had been accepted earlier.
    begins_soon = replace(await api.cluster.store.read(lambda unit: unit.catalog.get(Booking, "demo")), from_ms=now_ms)
    await api.cluster.put(begins_soon)
    group = ScalingGroupName("default")
    await api.cluster.snapshots.refresh()
    plan = schedule(await api.cluster.snapshots.snapshot(group), SchedulingProfile())
    recorded = await api.cluster.snapshots.record_plan(group, plan)
    assert ([one.session_id for one in recorded.evicted], recorded.spared) == (["gone"], {})
    found = (await api.get("/bookings/demo/evictions")).json()
    [receipt] = found["evicted"]
    assert (receipt["session"], receipt["kernels"], receipt["ended_at"], found["planned"]) == ("gone", 1, None, [])
    [shown] = (await api.get("/sessions/gone")).json()["evictions"]
    assert (shown["for_booking"], shown["for_name"], shown["for_session"]) == ("demo", "booking demo", "")
