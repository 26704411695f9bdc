"""What the router itself refuses."""

from __future__ import annotations

import pytest

from tests.unit.api.little_api import LittleApi

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_path_that_is_not_there_says_where_to_look(api: LittleApi) -> None:
    answer = await api.get("/nothing%0Ahere")
    assert (answer.status_code, answer.json()["code"]) == (404, "no-such-route")
    assert "openapi.json" in answer.json()["hint"]
    assert answer.json()["detail"].isprintable()


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PATCH", "/queues/default", "DELETE, GET, PUT"),
        ("PUT", "/sessions", "GET, POST"),
        ("POST", "/sessions/x", "DELETE, GET"),
        ("OPTIONS", "/whoami", "GET"),
    ],
)
async def test_a_method_that_is_not_there_lists_all_that_are(
    api: LittleApi, method: str, path: str, allowed: str
) -> None:
    answer = await api.call(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)


async def test_a_plain_request_to_the_socket_finds_nothing(api: LittleApi) -> None:
    assert (await api.get("/sessions/x/kernels/0/exec")).json()["code"] == "no-such-route"
