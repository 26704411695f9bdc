"""Held slots over time, over HTTP."""

from __future__ import annotations

import pytest

from tests.unit.api.api_harness import ADMIN, ApiHarness, domain_admin, member

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH, SOUTH = member("north"), member("south")


async def history(api: ApiHarness, query: str, user: str) -> list[tuple[str, str]]:
    found = (await api.get(f"/usage/history?{query}", user=user)).json()
    return [(one["name"], one["slot"]) for one in found["items"]]


@pytest.mark.slow
async def test_callers_see_what_sessions_of_their_view_held_over_time(api: ApiHarness) -> None:
    await api.run("held-north", NORTH)
    await api.run("held-south", SOUTH)
    assert await history(api, "by=user&slot=cpu", NORTH) == [(NORTH, "cpu")]
    assert await history(api, "by=user&slot=cpu", domain_admin("south")) == [(SOUTH, "cpu")]
    assert {(NORTH, "cpu"), (SOUTH, "cpu")} <= set(await history(api, "by=user", ADMIN))
    assert await history(api, f"user={SOUTH}", NORTH) == []
    answer = (await api.get("/usage/history?by=queue&slot=cpu&step=3600", user=NORTH)).json()
    assert (answer["by"], answer["step_s"], answer["left_out"]) == ("queue", 3600, 0)
    [series] = answer["items"]
    assert (len(series["used"]), series["used"][0]) == (24, 0)


async def test_callers_see_how_many_of_their_sessions_ran_and_waited(api: ApiHarness) -> None:
    await api.run("ran-north", NORTH)
    await api.submit("waited-south", SOUTH)
    assert (NORTH, "running") in await history(api, "of=sessions&by=user", NORTH)
    assert await history(api, "of=sessions&by=user&slot=running", SOUTH) != [(NORTH, "running")]
    assert (SOUTH, "waiting") in await history(api, "of=sessions&by=user&slot=waiting", ADMIN)


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("by=colour", 422),
        ("of=kernels", 422),
        ("since=yesterday", 422),
        ("since=2030-01-01T00:00:00Z", 422),
        ("step=1", 422),
        ("step=10", 422),
        ("slto=cpu", 422),
        ("slot=%20", 422),
        ("queue=defualt", 404),
    ],
)
async def test_a_history_that_cannot_be_is_refused(api: ApiHarness, query: str, status: int) -> None:
    assert (await api.get(f"/usage/history?{query}", user=NORTH)).status_code == status
