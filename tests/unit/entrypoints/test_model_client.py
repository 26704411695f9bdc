"""Asking models by HTTP."""

from __future__ import annotations

import pytest

from sokovan.api.errors import ModelFailed
from sokovan.entrypoints import model_client
from sokovan.entrypoints.model_client import ModelClient
from tests.unit.entrypoints.chat_server import chat_server, delta

REQUEST = {"model": "toy", "messages": []}


async def answered(url: str) -> list[str]:
    return [text async for text in ModelClient(url).answer("ske_1", REQUEST) if text]


@pytest.mark.slow
async def test_an_answer_is_read_part_by_part() -> None:
    async with chat_server() as server:
        server.lines = [delta("a "), ": alive\n", delta("b"), 'data: {"choices": []}\n', "data: [DONE]\n"]
        assert await answered(server.url) == ["a ", "b"]
        assert server.asked == [("bearer ske_1", {**REQUEST, "stream": True})]


@pytest.mark.slow
async def test_a_refusal_an_error_within_and_nonsense_are_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_client, "LINE_MAX", 100)
    async with chat_server() as server:
        for status, lines, text in (
            ("404 Not Found", ['{"error": {"message": "no such model"}}'], "no such model"),
            ("502 Bad Gateway", ["<html>"], "status 502"),
            ("200 OK", [delta("a"), 'data: {"error": {"message": "the engine ended"}}\n'], "the engine ended"),
            ("200 OK", ["data: [1]\n", ""], "not that of a chat"),
            ("200 OK", ["data: {\n", ""], "not that of a chat"),
            ("200 OK", ["x" * 101], "too long"),
        ):
            server.status, server.lines = status, lines
            with pytest.raises(ModelFailed, match=text):
                await answered(server.url)
    with pytest.raises(ModelFailed, match="does not answer"):
        await answered(server.url)
