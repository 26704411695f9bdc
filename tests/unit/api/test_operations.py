"""One operation of the API: its route and its documentation."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Any

import httpx2
import pytest
from fastapi import FastAPI, Query
from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.request_queues import ReadQueues
from sokovan.api.errors import Forbidden, UnsupportedMedia
from sokovan.api.operations import ALWAYS, EVENT_STREAM, ApiOperation, OperationRoute, body_of, json_response
from sokovan.domain.errors import ObjectNotFound, SokovanError
from sokovan.domain.problems import InvalidRequest
from sokovan.wire.api.fleet import AgentChange, QueueBody


class ThingQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    color: str = "red"
    limit: int = 1


async def things(query: Annotated[ThingQuery, Query()]) -> Response:
    """List things.

    All of them.
    """
    return json_response({"color": query.color})


async def change(request: Request, name: str, *, hard: bool = False) -> Response:
    """Change a thing."""
    body = body_of(request, AgentChange)
    if name == "foreign":
        raise ObjectNotFound(what="thing", name=name)
    if name == "precious":
        raise Forbidden("no")
    return json_response({"action": body.action, "hard": hard})


LIST = ApiOperation(method="GET", path="/things", endpoint=things, tag="some-things", answer=QueueBody)
CHANGE = ApiOperation(
    method="PATCH",
    path="/things/{name}",
    endpoint=change,
    tag="things",
    body=AgentChange,
    answer=QueueBody,
    fails=(404,),
)


class Client:
    """Calls the operations of a little app; errors come out as they are raised."""

    def __init__(self, *operations: ApiOperation) -> None:
        self.denied: list[str] = []
        self._app = FastAPI()
        for operation in operations:
            self._app.router.routes.append(OperationRoute(operation, denied=self._note, in_turn=ReadQueues(at_once=2)))

    async def _note(self, request: Request, error: SokovanError) -> None:
        self.denied.append(f"{request.url.path} {error.code}")

    async def call(self, method: str, path: str, **options: Any) -> httpx2.Response:
        transport = httpx2.ASGITransport(self._app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://x") as client:
            return await client.request(method, path, **options)


def test_an_operation_has_the_name_of_its_endpoint() -> None:
    assert LIST.name == "some_things_things"
    assert (LIST.changes, CHANGE.changes) == (False, True)


def test_what_may_always_happen_is_always_documented() -> None:
    assert set(ALWAYS) <= set(LIST.responses())
    assert 415 not in LIST.responses()
    assert {415, 404} <= set(CHANGE.responses())
    problem = CHANGE.responses()[404]["content"]
    assert problem == {"application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemView"}}}


def test_an_answer_that_is_no_json_is_documented_as_what_it_is() -> None:
    plain = replace(LIST, media="text/plain", answer=None)
    assert plain.responses()[200]["content"] == {"text/plain": {"schema": {"type": "string"}}}
    item = replace(LIST, media=EVENT_STREAM).responses()[200]["content"][EVENT_STREAM]["itemSchema"]
    types = [one["$ref"].rpartition("/")[2] for one in item["properties"]["data"]["contentSchema"]["anyOf"]]
    assert types == ["QueueBody", "ProblemView"]


def test_the_first_line_of_the_docstring_is_the_summary() -> None:
    route = OperationRoute(LIST, denied=Client()._note, in_turn=ReadQueues(at_once=2)).served
    assert (route.summary, route.operation_id) == ("List things", "some_things_things")
    assert "All of them" in route.description


def test_only_a_described_route_has_the_types_of_its_responses() -> None:
    route = OperationRoute(replace(LIST, also={202: QueueBody}), denied=Client()._note, in_turn=ReadQueues(at_once=2))
    assert (route.served.response_field, route.served.response_fields) == (None, {})
    described = route.described()
    assert described.response_model is QueueBody
    assert list(described.response_fields) == [202]


async def test_a_parameter_that_is_not_there_is_refused_and_not_ignored() -> None:
    client = Client(LIST, CHANGE)
    assert (await client.call("GET", "/things", params={"color": "blue"})).json() == {"color": "blue"}
    with pytest.raises(InvalidRequest, match=r"query/colour.*color, limit"):
        await client.call("GET", "/things", params={"colour": "blue"})
    with pytest.raises(InvalidRequest, match="query/x"):
        await client.call("PATCH", "/things/a", params={"x": "1"}, json={"action": "drain"})


async def test_a_parameter_of_the_wrong_type_is_refused_by_its_place() -> None:
    with pytest.raises(InvalidRequest, match="query/limit"):
        await Client(LIST).call("GET", "/things", params={"limit": "many"})


async def test_a_body_is_read_before_the_endpoint_and_given_to_it() -> None:
    answer = await Client(CHANGE).call("PATCH", "/things/a?hard=true", json={"action": "drain"})
    assert answer.json() == {"action": "drain", "hard": True}


@pytest.mark.parametrize("media", ["text/plain", "", "application/x-www-form-urlencoded", "application/jsonx"])
async def test_a_body_that_is_not_said_to_be_json_is_not_read(media: str) -> None:
    with pytest.raises(UnsupportedMedia):
        await Client(CHANGE).call(
            "PATCH", "/things/a", content=json.dumps({"action": "drain"}), headers={"content-type": media}
        )


async def test_a_body_with_a_charset_is_json_still() -> None:
    headers = {"content-type": "application/json; charset=utf-8"}
    answer = await Client(CHANGE).call("PATCH", "/things/a", content=b'{"action": "x"}', headers=headers)
    assert answer.status_code == 200


async def test_who_may_not_change_something_is_noted() -> None:
    client = Client(CHANGE)
    for name, kind in (("foreign", ObjectNotFound), ("precious", Forbidden)):
        with pytest.raises(kind):
            await client.call("PATCH", f"/things/{name}", json={"action": "drain"})
    assert client.denied == ["/things/foreign not-found", "/things/precious forbidden"]


async def test_who_may_not_read_something_is_not_noted() -> None:
    async def hidden() -> Response:
        """Show what is not there."""
        raise ObjectNotFound(what="thing", name="x")

    client = Client(replace(LIST, endpoint=hidden))
    with pytest.raises(ObjectNotFound):
        await client.call("GET", "/things")
    assert client.denied == []


def test_a_body_that_was_not_read_is_missing() -> None:
    with pytest.raises(InvalidRequest, match="body"):
        body_of(Request({"type": "http", "headers": []}), AgentChange)


def test_reads_of_the_store_take_turns_and_streams_probes_and_changes_do_not() -> None:
    assert replace(LIST, path="/api/v1/things").takes_turns
    assert not replace(LIST, path="/readyz").takes_turns
    assert replace(LIST, path="/api/v1/things", method="POST", stores_nothing=True).takes_turns
    others: tuple[dict[str, Any], ...] = ({"method": "POST"}, {"media": EVENT_STREAM}, {"asks_agents": True})
    assert not any(replace(LIST, path="/api/v1/things", **other).takes_turns for other in others)
