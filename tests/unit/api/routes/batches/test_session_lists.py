"""Rows and counts of sessions, for callers of every kind."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.cluster.queue import Queue
from sokovan.domain.ids import QueueName
from tests.unit.api.api_harness import ADMIN, ApiHarness, domain_admin, member

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH, SOUTH = member("north"), member("south")


async def answer_of(api: ApiHarness, path: str, user: str = NORTH) -> Any:
    answer = await api.get(path, user=user)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def counted(api: ApiHarness, query: str, user: str = NORTH) -> dict[str, int]:
    found = await answer_of(api, f"/sessions/counts?{query}", user)
    return {one["value"]: one["count"] for one in found["items"]}


@pytest.mark.slow
async def test_a_row_says_what_the_view_says(api: ApiHarness) -> None:
    await api.cluster.put(Queue(QueueName("rows")))
    await api.submit("row-waits", NORTH, queue="rows", called="waits")
    await api.run("row-runs", NORTH, queue="rows")
    await api.call("POST", "/sessions/row-waits/cancel", user=NORTH)
    rows = (await answer_of(api, "/sessions/rows?queue=rows"))["items"]
    views = (await answer_of(api, "/sessions?queue=rows"))["items"]
    assert [row["id"] for row in rows] == ["row-runs", "row-waits"]
    for row, view in zip(rows, views, strict=True):
        assert row == {name: view[name] for name in row}
    assert (rows[0]["agents"], rows[1]["result"], rows[1]["reason"]) == (1, "cancelled", "user-requested")


async def test_rows_go_on_by_their_cursor(api: ApiHarness) -> None:
    await api.cluster.put(Queue(QueueName("row-pages")))
    for number in range(3):
        await api.submit(f"row-page-{number}", NORTH, queue="row-pages")
    first = await answer_of(api, "/sessions/rows?queue=row-pages&limit=2")
    second = await answer_of(api, f"/sessions/rows?queue=row-pages&limit=2&cursor={first['next']}")
    assert [row["id"] for row in first["items"] + second["items"]] == ["row-page-2", "row-page-1", "row-page-0"]
    assert second["next"] is None


async def test_pages_of_a_sorted_list_go_on_after_what_was_listed_though_it_changes(api: ApiHarness) -> None:
    await api.cluster.put(Queue(QueueName("ordered")))
    for name in ("b", "a", "c"):
        await api.submit(f"ordered-{name}", NORTH, queue="ordered", called=f"ordered-{name}")
    orders = {
        "name": "abc", "-name": "cba", "user": "cab", "-queue": "cab", "kernels": "cab", "-gpus": "cab",
        "-status": "cab", "status": "cab", "reason": "cab", "oldest": "bac", "newest": "cab",
    }  # fmt: skip
    for path in ("/sessions", "/sessions/rows"):
        for sort, expected in orders.items():
            found, cursor, more = "", "", True
            while more:
                page = await answer_of(api, f"{path}?queue=ordered&sort={sort}&limit=1{cursor}")
                found += "".join(one["id"][-1] for one in page["items"])
                cursor, more = f"&cursor={page['next']}", page["next"] is not None
            assert (path, sort, found) == (path, sort, expected)
    first = await answer_of(api, "/sessions/rows?queue=ordered&sort=-status&limit=2")
    await api.call("POST", "/sessions/ordered-a/cancel", user=NORTH)
    rest = await answer_of(api, f"/sessions/rows?queue=ordered&sort=-status&cursor={first['next']}")
    assert [one["id"] for one in first["items"]] == ["ordered-c", "ordered-a"]
    assert [one["id"] for one in rest["items"]] == ["ordered-b", "ordered-a"], "that which changed is listed again"
    of_places = (await answer_of(api, "/sessions/rows?queue=ordered&limit=1"))["next"]
    assert (await api.get(f"/sessions/rows?sort=name&cursor={of_places}", user=NORTH)).status_code == 422


@pytest.mark.slow
async def test_sessions_are_searched_and_listed_from_either_end_page_by_page(api: ApiHarness) -> None:
    for number in range(3):
        await api.submit(f"hunted-{number}", NORTH, called=f"Hunt_{number}")
    await api.submit("hunted-3", SOUTH, called="Hunt_3")

    async def pages(path: str, query: str) -> list[str]:
        page = await answer_of(api, f"{path}?{query}&limit=1")
        found = [one["id"] for one in page["items"]]
        while page["next"] is not None:
            page = await answer_of(api, f"{path}?{query}&limit=1&cursor={page['next']}")
            found += [one["id"] for one in page["items"]]
        return found

    for path in ("/sessions", "/sessions/rows"):
        assert await pages(path, "q=hunt_") == ["hunted-2", "hunted-1", "hunted-0"]
        assert await pages(path, "q=hunt_&sort=oldest") == ["hunted-0", "hunted-1", "hunted-2"]
        assert await pages(path, "q=HUNT%20unted-1") == ["hunted-1"]
        assert await pages(path, "q=hunt%25") == []
        assert (await api.get(f"{path}?sort=color", user=NORTH)).status_code == 422
        assert (await api.get(f"{path}?q={'x' * 65}", user=NORTH)).status_code == 422
    assert await counted(api, "q=hunt_&by=user") == {NORTH: 3}
    assert await counted(api, "q=hunt_&by=user", ADMIN) == {NORTH: 3, SOUTH: 1}


@pytest.mark.slow
async def test_sessions_are_counted_by_what_they_have(api: ApiHarness) -> None:
    await api.cluster.put(Queue(QueueName("counting")))
    await api.submit("count-1", NORTH, queue="counting")
    await api.submit("count-2", NORTH, queue="counting")
    await api.run("count-3", NORTH, queue="counting")
    await api.submit("count-4", SOUTH, queue="counting")
    assert await counted(api, "queue=counting") == {"pending": 2, "running": 1}
    assert list(await counted(api, "queue=counting")) == ["pending", "running"]
    assert await counted(api, "queue=counting&status=pending&by=queue") == {"counting": 2}
    # Nobody counts what nobody may see.
    assert await counted(api, "queue=counting&by=user", SOUTH) == {SOUTH: 1}
    assert await counted(api, f"queue=counting&user={SOUTH}") == {}
    assert await counted(api, "queue=counting&by=user", domain_admin("south")) == {SOUTH: 1}
    assert await counted(api, "queue=counting&by=user", ADMIN) == {NORTH: 3, SOUTH: 1}


async def test_rows_are_those_that_were_alive_in_a_time(api: ApiHarness) -> None:
    await api.cluster.put(Queue(QueueName("timed")))
    await api.submit("timed-1", NORTH, queue="timed")
    for query, count in (
        ("since=2000-01-01T00:00:00Z", 1),
        ("until=2000-01-01T00:00:00Z", 0),
        ("since=2100-01-01T00:00:00Z", 1),
    ):
        assert len((await answer_of(api, f"/sessions/rows?queue=timed&{query}"))["items"]) == count
    await api.call("POST", "/sessions/timed-1/cancel", user=NORTH)
    found = await answer_of(api, "/sessions/rows?queue=timed&since=2100-01-01T00:00:00Z")
    assert found["items"] == []
    assert (await api.get("/sessions/rows?since=yesterday", user=NORTH)).status_code == 422


@pytest.mark.parametrize("path", ["rows", "counts"])
async def test_filters_that_are_none_are_refused(api: ApiHarness, path: str) -> None:
    for query in ("staus=running", "status=asleep", "by=colour", "by="):
        answer = await api.get(f"/sessions/{path}?{query}", user=NORTH)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid-request"), query
    assert (await api.get(f"/sessions/{path}?queue=unknown", user=NORTH)).status_code == 404
    assert (await api.get(f"/sessions/{path}?array=unknown", user=NORTH)).status_code == 404
