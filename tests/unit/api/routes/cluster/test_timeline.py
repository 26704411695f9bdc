"""Devices over time, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.api.routes.cluster import timeline as routes
from sokovan.domain.lifecycle.kernel import FreeProof
from tests.unit.api.api_harness import ADMIN, ApiHarness, member

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH, SOUTH = member("north"), member("south")


async def timeline(api: ApiHarness, query: str = "", user: str = ADMIN) -> dict[str, Any]:
    answer = await api.get(f"/timeline{query}", user=user)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def held(api: ApiHarness, name: str) -> str:
    """An agent of its own that runs a session of north with a device; the agent."""
    agent = f"{name}-agent"
    await api.cluster.agent(agent)
    await api.submit(name, NORTH, slots={"cpu": 1000, "mem": 1 << 30, "cuda.device": 1})
    await api.cluster.place(name, agent)
    await api.cluster.start(name)
    return agent


async def test_a_device_is_held_from_its_allocation_to_its_end(api: ApiHarness) -> None:
    agent = await held(api, "brief")
    [now] = (await timeline(api, f"?agent={agent}"))["holds"]
    assert (now["session"], now["user"], now["until"]) == ("brief", NORTH, None)
    session = await api.cluster.stop("brief")
    await api.cluster.free("brief", FreeProof.AGENT_TOMBSTONE)
    view = await timeline(api, f"?agent={agent}&until=2099-01-01T00:00:00Z&since={now['since']}")
    [ended] = view["holds"]
    assert (ended["device"], ended["since"]) == (now["device"], now["since"])
    assert ended["since"] <= ended["until"]
    assert now["device"] in view["devices"][agent]
    assert session is not None


async def test_those_who_may_not_see_a_session_see_that_its_device_was_held(api: ApiHarness) -> None:
    agent = await held(api, "private")
    [seen] = (await timeline(api, f"?agent={agent}", NORTH))["holds"]
    [hidden] = (await timeline(api, f"?agent={agent}", SOUTH))["holds"]
    assert (seen["name"], seen["user"]) == ("private", NORTH)
    assert (hidden["session"], hidden["name"], hidden["user"], hidden["queue"]) == ("", "", "", "")
    assert hidden["device"] == seen["device"]


async def test_a_drain_is_a_time_without_new_kernels(api: ApiHarness) -> None:
    await api.cluster.agent("closing")
    for action in ("drain", "undrain", "drain"):
        assert (await api.call("PATCH", "/agents/closing", json={"action": action})).status_code == 200
    closed = (await timeline(api, "?agent=closing&until=2099-01-01T00:00:00Z&since=2001-01-01T00:00:00Z"))["closed"]
    assert {one["status"] for one in closed} == {"draining"}
    assert closed[-1]["until"] is None
    past = await timeline(api, "?agent=closing&since=2001-01-01T00:00:00Z&until=2001-01-02T00:00:00Z")
    assert (past["closed"], past["holds"]) == ([], [])


async def test_a_booking_is_listed_with_its_agents(api: ApiHarness) -> None:
    await api.cluster.agent("booked")
    booking = {
        "name": "course", "agents": ["booked"], "users": [NORTH],
        "starts_at": "2098-01-01T00:00:00Z", "ends_at": "2098-01-01T02:00:00Z",
    }  # fmt: skip
    assert (await api.call("PUT", "/bookings/course", json=booking)).status_code == 201
    during = "since=2098-01-01T01:00:00Z&until=2098-01-01T03:00:00Z"
    [found] = (await timeline(api, f"?{during}&limit=100", NORTH))["bookings"]
    assert (found["name"], found["kind"], found["agents"]) == ("course", "booking", ["booked"])
    assert (await timeline(api, f"?{during}&agent=a1"))["bookings"] == []


async def test_agents_come_page_by_page_and_holds_are_limited(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = await held(api, "long")
    first = await timeline(api, "?limit=1")
    second = await timeline(api, f"?limit=1&cursor={first['next']}")
    assert len(first["agents"]) == len(second["agents"]) == 1
    assert first["agents"] < second["agents"]
    monkeypatch.setattr(routes, "HOLDS_MAX", 0)
    view = await timeline(api, f"?agent={agent}")
    assert (view["cut"], view["holds"]) == (True, [])


async def test_a_time_that_is_none_is_refused(api: ApiHarness) -> None:
    for query in ("since=2030-01-01T00:00:00Z&until=2029-01-01T00:00:00Z", "since=now", "limit=101", "step=3"):
        assert (await api.get(f"/timeline?{query}")).status_code == 422, query
    assert (await api.get("/timeline?agent=nowhere")).status_code == 404
    assert (await api.get("/timeline?scaling_group=nowhere")).status_code == 404
