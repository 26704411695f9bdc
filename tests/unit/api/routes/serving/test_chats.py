"""Chatting with a deployment through the API."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sokovan.api.app import make_app
from sokovan.entrypoints.serving import with_gateway
from tests.unit.api.api_harness import ApiHarness, member
from tests.unit.api.routes.serving.test_deployments import create
from tests.unit.entrypoints.chat_server import ChatServer, chat_server, delta

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH, SOUTH = member("north"), member("south")
QUESTION = {"messages": [{"role": "user", "content": "hi"}]}


async def ask(api: ApiHarness, deployment: str, user: str = NORTH, **fields: Any) -> Any:
    return await api.call("POST", f"/deployments/{deployment}/chat", json={**QUESTION, **fields}, user=user)


def behind(api: ApiHarness, server: ChatServer) -> ApiHarness:
    """The same API with a gateway."""
    return replace(api, app=make_app(with_gateway(api.dependencies, server.url), api.app.state.context.settings))


@pytest.mark.slow
async def test_an_answer_is_streamed_with_a_token_of_its_own(api: ApiHarness) -> None:
    await create(api, "asked")
    async with chat_server() as server:
        server.lines = [delta("<b>a</b> "), delta("b"), "data: [DONE]\n"]
        answer = await ask(behind(api, server), "asked", max_tokens=5, temperature=0)
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert [line for line in answer.text.splitlines() if line.startswith("data: ")] == [
            'data: {"text":"<b>a</b> ","end":false}',
            'data: {"text":"b","end":false}',
            'data: {"text":"","end":true}',
        ]
        [(token, sent)] = server.asked
    assert token.startswith("bearer ske_")
    assert sent == {"model": "asked", **QUESTION, "max_tokens": 5, "temperature": 0.0, "stream": True}
    assert (await api.get("/deployments/asked/tokens", user=NORTH)).json()["items"] == []


@pytest.mark.slow
async def test_a_failure_of_the_gateway_is_the_last_event(api: ApiHarness) -> None:
    await create(api, "failing")
    async with chat_server() as server:
        server.status, server.lines = "503 Service Unavailable", ['{"error": {"message": "no replica"}}']
        answer = await ask(behind(api, server), "failing")
    assert "event: problem" in answer.text
    assert '"code":"model-failed"' in answer.text
    assert "no replica" in answer.text
    assert (await api.get("/deployments/failing/tokens", user=NORTH)).json()["items"] == []


@pytest.mark.slow
async def test_a_question_is_checked_before_a_token_is_made(api: ApiHarness) -> None:
    await create(api, "checked")
    assert (await ask(api, "checked")).status_code == 409
    assert (await ask(api, "checked", user=SOUTH)).status_code == 404
    wrong: tuple[dict[str, Any], ...] = (
        {"messages": []},
        {"messages": [{"role": "root", "content": ""}]},
        {"model": "another"},
        {"max_tokens": 0},
        {"temperature": 3},
        {"stream": False},
    )
    for fields in wrong:
        assert (await ask(api, "checked", **fields)).status_code == 422, fields
