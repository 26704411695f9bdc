"""Sessions over HTTP: submit, list, show, end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sokovan.api.mapping.sessions import KERNELS_LISTED, KERNELS_SHOWN
from sokovan.api.routes.parameters import IDS_MAX
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.ids import QueueName, SessionId
from sokovan.domain.lifecycle.kernel import KernelTrigger
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.ports.repositories.verdicts import StoredVerdict
from sokovan.testing.stored_cluster import BY_AGENT, BY_COORDINATOR
from tests.unit.api.api_harness import ADMIN, ApiHarness, domain_admin, member

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH, SOUTH = member("north"), member("south")
BODY: dict[str, Any] = {"command": ["python", "train.py"], "resources": {"cpu": 1, "mem": "1Gi"}}


async def ids(api: ApiHarness, query: str = "", user: str = NORTH) -> list[str]:
    """The ids on every page."""
    found: list[str] = []
    cursor = ""
    while True:
        page = (await api.get(f"/sessions?{query}{cursor}", user=user)).json()
        found += [item["id"] for item in page["items"]]
        if page["next"] is None:
            return found
        cursor = f"&cursor={page['next']}"


@pytest.mark.slow
async def test_a_session_is_submitted_and_says_where_it_is(api: ApiHarness) -> None:
    answer = await api.call("POST", "/sessions", json={**BODY, "name": "submitted"}, user=NORTH)
    view = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/api/v1/sessions/{view['id']}"
    assert (view["name"], view["status"], view["user"], view["domain"]) == ("submitted", "pending", NORTH, "north")
    assert view["slots"]["cpu"] == 1000
    assert (await api.get(answer.headers["location"], bare=True, user=NORTH)).json()["id"] == view["id"]


@pytest.mark.slow
async def test_the_same_key_with_the_same_body_is_the_same_session(api: ApiHarness) -> None:
    headers = {"idempotency-key": "once"}
    first = await api.call("POST", "/sessions", json=BODY, user=NORTH, headers=headers)
    again = await api.call("POST", "/sessions", json=BODY, user=NORTH, headers=headers)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]


async def test_the_same_key_with_another_body_is_refused(api: ApiHarness) -> None:
    headers = {"idempotency-key": "twice"}
    await api.call("POST", "/sessions", json=BODY, user=NORTH, headers=headers)
    other = await api.call("POST", "/sessions", json={**BODY, "size": 2}, user=NORTH, headers=headers)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency-conflict")


async def test_a_key_belongs_to_who_sent_it(api: ApiHarness) -> None:
    headers = {"idempotency-key": "shared"}
    mine = await api.call("POST", "/sessions", json=BODY, user=NORTH, headers=headers)
    yours = await api.call("POST", "/sessions", json={**BODY, "size": 2}, user=SOUTH, headers=headers)
    assert (mine.status_code, yours.status_code) == (201, 201)


@pytest.mark.parametrize("key", ["", "a b", "x" * 129, "é"])
async def test_a_key_that_is_none_is_refused(api: ApiHarness, key: str) -> None:
    answer = await api.call("POST", "/sessions", json=BODY, headers={"idempotency-key": key.encode("latin-1")})
    assert answer.status_code == 422


async def test_a_session_is_found_by_id_name_and_unique_beginning(api: ApiHarness) -> None:
    await api.submit("lookup-1", NORTH, called="findable-one")
    await api.submit("lookup-2", NORTH, called="findable-two")
    for ref in ("lookup-1", "findable-one", "findable-o"):
        assert (await api.get(f"/sessions/{ref}", user=NORTH)).json()["id"] == "lookup-1"
    doubtful = await api.get("/sessions/findable", user=NORTH)
    assert (doubtful.status_code, doubtful.json()["code"]) == (409, "ambiguous-name")
    assert (await api.get("/sessions/lookup-1", user=SOUTH)).status_code == 404


async def test_a_waiting_session_says_why(api: ApiHarness) -> None:
    await api.submit("reasoned", NORTH)
    verdict = StoredVerdict(SessionId("reasoned"), "NO_NODES", "there are no machines", "{}")
    await api.cluster.store.run(lambda unit: unit.verdicts.put([verdict]))
    view = (await api.get("/sessions/reasoned", user=NORTH)).json()
    assert (view["reason"], view["reason_detail"]) == ("NO_NODES", "there are no machines")
    listed = (await api.get("/sessions?name=reasoned", user=NORTH)).json()["items"][0]
    assert listed == view
    for path in ("/sessions", "/sessions/rows"):
        found = (await api.get(f"{path}?reason=NO_NODES", user=NORTH)).json()["items"]
        assert [one["name"] for one in found] == [view["name"]]
        assert (await api.get(f"{path}?reason=HELD", user=NORTH)).json()["items"] == []
        assert (await api.get(f"{path}?reason=NO_NODES", user=SOUTH)).json()["items"] == []
    counts = (await api.get("/sessions/counts?reason=NO_NODES&by=user", user=NORTH)).json()["items"]
    assert [one["count"] for one in counts] == [1]


async def test_a_session_that_waits_for_its_image_says_how_far_it_is(api: ApiHarness) -> None:
    await api.submit("pulls", NORTH)
    await api.cluster.agent("puller")
    await api.cluster.place("pulls", "puller")
    await api.cluster.move("pulls", KernelTrigger.PREPARATION_STARTED, BY_COORDINATOR)
    await api.cluster.move("pulls", KernelTrigger.PULL_STARTED, BY_AGENT)
    assert (await api.get("/sessions/pulls", user=NORTH)).json()["reason"] is None
    progress = replace(BY_COORDINATOR, code="pulling", detail="venv:tiny: Collecting numpy")
    await api.cluster.store.run(lambda unit: unit.sessions.note([SessionId("pulls")], progress))
    view = (await api.get("/sessions/pulls", user=NORTH)).json()
    assert (view["status"], view["reason"], view["reason_detail"]) == ("pulling", "pulling", progress.detail)
    assert (await api.get("/sessions?name=pulls", user=NORTH)).json()["items"] == [view]


async def test_a_list_has_the_newest_first_and_goes_on_by_its_cursor(api: ApiHarness) -> None:
    for number in range(5):
        await api.submit(f"paged-{number}", NORTH, queue="paging")
    newest_first = [f"paged-{number}" for number in (4, 3, 2, 1, 0)]
    for limit in (1, 2, 5, 500):
        assert await ids(api, f"queue=paging&limit={limit}") == newest_first


@pytest.mark.parametrize("path", ["/sessions", "/sessions/waiting", "/arrays"])
async def test_an_unknown_queue_or_scaling_group_is_an_error_with_the_nearest_name(api: ApiHarness, path: str) -> None:
    for query, hint in (("queue=defualt", "did you mean default?"), ("scaling_group=gpus", "known are default")):
        answer = await api.get(f"{path}?{query}", user=NORTH)
        assert (answer.status_code, answer.json()["code"], answer.json()["hint"]) == (404, "not-found", hint)


@pytest.mark.slow
async def test_a_list_is_filtered_by_its_parameters(api: ApiHarness) -> None:
    await api.cluster.put(Queue(QueueName("filtering")))
    await api.submit("filter-a", NORTH, queue="filtering", called="same")
    await api.run("filter-b", NORTH, queue="filtering")
    assert await ids(api, "queue=filtering&status=running") == ["filter-b"]
    assert await ids(api, "queue=filtering&status=running&status=pending") == ["filter-b", "filter-a"]
    assert await ids(api, "queue=filtering&status=running,pending") == ["filter-b", "filter-a"]
    assert await ids(api, "queue=filtering&name=same") == ["filter-a"]
    assert await ids(api, "queue=filtering&group=other") == []
    assert await ids(api, "queue=filtering&scaling_group=default") == ["filter-b", "filter-a"]


async def test_a_list_of_ids_has_what_the_caller_may_see_of_them(api: ApiHarness) -> None:
    await api.submit("by-id-1", NORTH)
    await api.submit("by-id-2", NORTH)
    await api.submit("by-id-s", SOUTH)
    assert await ids(api, "id=by-id-1&id=by-id-2&id=by-id-s&id=unknown") == ["by-id-2", "by-id-1"]
    assert await ids(api, "id=by-id-1,by-id-s", user=SOUTH) == ["by-id-s"]
    assert await ids(api, "id=") == []
    many = ",".join(f"s{number}" for number in range(IDS_MAX + 1))
    answer = await api.get(f"/sessions?id={many}", user=NORTH)
    assert (answer.status_code, answer.json()["problems"][0]["where"]) == (422, "query/id")


@pytest.mark.slow
async def test_a_list_is_filtered_by_labels_on_every_page(api: ApiHarness) -> None:
    for number in range(6):
        labels = {"team": "vision" if number % 2 else "audio", **({"nightly": ""} if number < 3 else {})}
        await api.submit(f"label-{number}", NORTH, queue="labelled", labels=labels)
    await api.submit("label-none", NORTH, queue="labelled")
    await api.submit("label-south", SOUTH, queue="labelled", labels={"team": "vision"})
    for limit in (1, 2, 500):
        assert await ids(api, f"label=team%3Dvision&limit={limit}") == ["label-5", "label-3", "label-1"]
    assert await ids(api, "queue=labelled&label=nightly") == ["label-2", "label-1", "label-0"]
    assert await ids(api, "label=nightly&label=team=vision") == ["label-1"]
    assert await ids(api, "label=nightly,team=vision") == ["label-1"]
    assert await ids(api, "label=team=") == []
    assert await ids(api, "label=team=vision", user=SOUTH) == ["label-south"]


async def test_a_filter_that_is_not_a_label_is_rejected(api: ApiHarness) -> None:
    for text in ("my%20team", "%22", "team=a%20b", "", "a%00b"):
        answer = await api.get(f"/sessions?label={text}", user=NORTH)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid-spec"), text
        assert answer.json()["problems"][0]["where"].startswith("label")


async def test_labels_are_stored_shown_and_validated(api: ApiHarness) -> None:
    body = {"name": "labelled", "command": ["true"], "labels": {"team": "vision", "example.com/run": "7"}}
    made = await api.call("POST", "/sessions", json=body, user=NORTH)
    assert (made.status_code, made.json()["labels"]) == (201, body["labels"])
    assert (await api.get("/sessions/labelled", user=NORTH)).json()["labels"] == body["labels"]
    refused = await api.call("POST", "/sessions", json={**body, "name": "b", "labels": {"team": "a b"}}, user=NORTH)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid-request")
    assert refused.json()["problems"][0]["where"] == "labels/team"


async def test_no_filter_or_cursor_shows_sessions_of_others(api: ApiHarness) -> None:
    await api.cluster.put(Queue(QueueName("leaks")))
    await api.submit("secret-north", NORTH, queue="leaks")
    await api.submit("secret-south", SOUTH, queue="leaks")
    assert await ids(api, "queue=leaks") == ["secret-north"]
    assert await ids(api, f"queue=leaks&user={SOUTH}") == []
    assert await ids(api, "queue=leaks&group=south-group") == []
    assert await ids(api, "queue=leaks&name=secret-south") == []
    assert await ids(api, "queue=leaks", user=domain_admin("south")) == ["secret-south"]
    assert await ids(api, f"queue=leaks&user={NORTH}", user=domain_admin("south")) == []
    assert await ids(api, "queue=leaks", user=ADMIN) == ["secret-south", "secret-north"]
    cursor = (await api.get("/sessions?queue=leaks&limit=1", user=ADMIN)).json()["next"]
    page = await api.get(f"/sessions?queue=leaks&cursor={cursor}", user=SOUTH)
    assert page.json()["items"] == []


async def test_an_administrator_may_list_own_sessions_only(api: ApiHarness) -> None:
    await api.cluster.put(Queue(QueueName("mine")))
    await api.submit("not-mine", NORTH, queue="mine")
    assert await ids(api, "queue=mine", user=ADMIN) == ["not-mine"]
    assert await ids(api, "queue=mine&mine=true", user=ADMIN) == []
    assert await ids(api, f"queue=mine&mine=true&user={NORTH}", user=ADMIN) == []
    assert await ids(api, "queue=mine&mine=true", user=NORTH) == ["not-mine"]


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=501",
        "limit=x",
        "status=asleep",
        "status=",
        "user=",
        "user=a%00b",
        "queue=%F0%9F%92%A9",
        "cursor=%21",
        "cursor=bm90aGluZw",
        "mine=perhaps",
        "staus=running",
        "sort=color",
        "name=" + "x" * 129,
    ],
)
async def test_a_filter_that_is_none_is_refused(api: ApiHarness, query: str) -> None:
    answer = await api.get(f"/sessions?{query}", user=NORTH)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-request")
    assert answer.json()["problems"][0]["where"].startswith("query/")


async def test_ending_a_session_sets_its_goal(api: ApiHarness) -> None:
    await api.run("ending", NORTH)
    answer = await api.call("DELETE", "/sessions/ending?reason=enough", user=NORTH)
    assert (answer.status_code, answer.json()["status"], answer.json()["goal"]) == (202, "terminating", "stop")
    again = await api.call("DELETE", "/sessions/ending", user=NORTH)
    assert (again.status_code, again.json()["version"]) == (202, answer.json()["version"])
    forced = await api.call("DELETE", "/sessions/ending?forced=true", user=domain_admin("north"))
    assert (forced.json()["status"], forced.json()["goal"]) == ("terminated", "force")


async def test_only_a_waiting_session_is_cancelled(api: ApiHarness) -> None:
    await api.submit("waiting", NORTH)
    await api.run("started", NORTH)
    cancelled = await api.call("POST", "/sessions/waiting/cancel", user=NORTH)
    assert (cancelled.status_code, cancelled.json()["status"]) == (200, "cancelled")
    refused = await api.call("POST", "/sessions/started/cancel", user=NORTH)
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert (await api.cluster.session("started")).status is SessionStatus.RUNNING


@pytest.mark.slow
async def test_no_user_ends_sessions_of_others(api: ApiHarness) -> None:
    await api.run("precious", NORTH)
    for user in (SOUTH, domain_admin("south")):
        assert (await api.call("DELETE", "/sessions/precious", user=user)).status_code == 404
        assert (await api.call("POST", "/sessions/precious/cancel", user=user)).status_code == 404
        assert (await api.call("POST", "/sessions/precious/release", user=user)).status_code == 404
    assert (await api.cluster.session("precious")).status is SessionStatus.RUNNING


async def test_the_kernels_of_a_session_are_listed(api: ApiHarness) -> None:
    await api.run("many", NORTH, kernels=3)
    kernels = (await api.get("/sessions/many/kernels", user=NORTH)).json()["items"]
    assert [(one["index"], one["role"], one["status"], one["agent"]) for one in kernels] == [
        (0, "main", "running", "a1"),
        (1, "sub", "running", "a1"),
        (2, "sub", "running", "a1"),
    ]


async def test_the_kernels_of_a_session_are_listed_page_by_page(api: ApiHarness) -> None:
    await api.run("paged", NORTH, kernels=5)
    found, cursor = [], ""
    while True:
        page = (await api.get(f"/sessions/paged/kernels?limit=2{cursor}", user=NORTH)).json()
        found.append([one["index"] for one in page["items"]])
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert found == [[0, 1], [2, 3], [4]]


async def test_a_list_has_the_first_kernels_of_a_session_and_counts_of_all(api: ApiHarness) -> None:
    body = {**BODY, "name": "gang", "size": KERNELS_SHOWN + 1}
    sent = await api.call("POST", "/sessions", json=body, user=NORTH)
    assert len(sent.json()["kernels"]) == KERNELS_SHOWN
    [listed] = (await api.get("/sessions?name=gang", user=NORTH)).json()["items"]
    assert [one["index"] for one in listed["kernels"]] == list(range(KERNELS_LISTED))
    shown = (await api.get("/sessions/gang", user=NORTH)).json()
    assert [one["index"] for one in shown["kernels"]] == list(range(KERNELS_SHOWN))
    for view in (listed, shown):
        assert (view["size"], view["kernel_counts"]) == (KERNELS_SHOWN + 1, {"pending": KERNELS_SHOWN + 1})
        assert (view["agents"], view["exited"]) == (0, 0)


@pytest.mark.slow
async def test_an_array_is_submitted_shown_listed_and_ended_as_one(api: ApiHarness) -> None:
    body = {**BODY, "name": "sweep", "array": "0-4:2%1"}
    headers = {"idempotency-key": "sweep-once"}
    first = await api.call("POST", "/sessions", json=body, user=NORTH, headers=headers)
    again = await api.call("POST", "/sessions", json=body, user=NORTH, headers=headers)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["array"] == again.json()["array"]
    array = first.json()["array"]
    assert array == {"id": array["id"], "name": "sweep", "index": 0, "size": 3, "limit": 1}
    whole = (await api.get("/arrays/sweep", user=NORTH)).json()
    assert (whole["id"], whole["counts"], whole["status"]) == (array["id"], {"pending": 3}, "pending")
    members = await ids(api, "array=sweep&")
    assert len(members) == 3
    assert first.json()["id"] == members[0]
    assert (await api.get("/sessions/sweep[4]", user=NORTH)).json()["id"] == members[-1]
    assert not set(members) & set(await ids(api, "outside_arrays=true&"))
    listed = (await api.get("/arrays?status=pending&mine=true", user=NORTH)).json()["items"]
    assert [one["name"] for one in listed] == ["sweep"]
    named = await api.get("/sessions/sweep", user=NORTH)
    assert (named.status_code, named.json()["code"]) == (409, "array-named")
    ended = await api.call("DELETE", "/arrays/sweep", user=NORTH)
    assert (ended.status_code, ended.json()["counts"], ended.json()["result"]) == (202, {"cancelled": 3}, "cancelled")
    assert (await api.get("/arrays?status=pending", user=NORTH)).json()["items"] == []


@pytest.mark.slow
async def test_arrays_of_others_are_not_found(api: ApiHarness) -> None:
    await api.call("POST", "/sessions", json={**BODY, "name": "theirs", "array": "0-1"}, user=NORTH)
    assert (await api.get("/arrays/theirs", user=SOUTH)).status_code == 404
    assert (await api.call("DELETE", "/arrays/theirs", user=SOUTH)).status_code == 404
    assert (await api.get("/sessions?array=theirs", user=SOUTH)).status_code == 404
    assert (await api.get("/arrays", user=SOUTH)).json()["items"] == []
    assert (await api.get("/arrays?user=north", user=SOUTH)).json()["items"] == []
    assert (await api.get("/arrays?mine=true&user=someone", user=SOUTH)).json()["items"] == []
    assert (await api.get("/arrays/theirs", user=ADMIN)).json()["size"] == 2


@pytest.mark.parametrize("array", ["0-9999999", "5-1", "", "0-3%0", 7])
async def test_a_bad_array_is_refused_and_names_its_field(api: ApiHarness, array: object) -> None:
    before = await ids(api)
    answer = await api.call("POST", "/sessions", json={**BODY, "array": array}, user=NORTH)
    assert answer.status_code == 422
    assert "array" in answer.text
    assert await ids(api) == before
