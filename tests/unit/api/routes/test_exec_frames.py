"""The messages of a command that runs inside a kernel."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.websockets import WebSocket, WebSocketDisconnect

from sokovan.api.errors import BodyTooLarge
from sokovan.api.routes.exec_frames import next_message, read_request, read_size, say_last
from sokovan.domain.errors import InvalidInput
from sokovan.wire.api.execution import FRAME_MAX, ExecRequest


class Line:
    """A socket that has received these messages, and keeps what is sent."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self._messages = iter([{"type": "websocket.connect"}, *messages])
        self.sent: list[dict[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        return next(self._messages)

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def accepted(self) -> WebSocket:
        websocket = WebSocket({"type": "websocket", "headers": []}, self.receive, self.send)
        await websocket.accept()
        return websocket


def test_a_request_says_what_to_run() -> None:
    assert read_request('{"command": ["sh", "-c", "x"]}') == ExecRequest(command=["sh", "-c", "x"])
    wanted = read_request(b'{"command": ["sh"], "terminal": true, "rows": 5, "columns": 6}')
    assert (wanted.terminal, wanted.rows, wanted.columns) == (True, 5, 6)


@pytest.mark.parametrize("message", ["{}", '{"command": []}', '{"command": ["a\\u0000"]}', b"\xff", "[]"])
def test_a_request_that_says_nothing_is_refused(message: str | bytes) -> None:
    with pytest.raises(InvalidInput):
        read_request(message)


def test_a_size_is_two_sides() -> None:
    assert read_size('{"resize": [10, 20]}') == (10, 20)
    for message in ('{"resize": [10]}', '{"resize": [0, 1]}', '{"resize": [1, 10001]}', '{"resize": "10x20"}', "{}"):
        with pytest.raises(InvalidInput):
            read_size(message)


async def test_messages_are_bytes_or_text_and_not_too_large() -> None:
    line = Line(
        {"type": "websocket.receive", "bytes": b""},
        {"type": "websocket.receive", "text": "hello"},
        {"type": "websocket.receive", "bytes": b"x" * (FRAME_MAX + 1)},
        {"type": "websocket.disconnect", "code": 1001},
    )
    websocket = await line.accepted()
    assert await next_message(websocket) == b""
    assert await next_message(websocket) == "hello"
    with pytest.raises(BodyTooLarge):
        await next_message(websocket)
    with pytest.raises(WebSocketDisconnect):
        await next_message(websocket)


async def test_the_last_message_comes_before_the_end_and_a_client_who_left_is_no_trouble() -> None:
    line = Line()
    websocket = await line.accepted()
    await say_last(websocket, {"exit_code": 3}, 1000)
    assert [message["type"] for message in line.sent] == ["websocket.accept", "websocket.send", "websocket.close"]
    assert line.sent[1]["text"] == '{"exit_code":3}'
    await say_last(websocket, {"exit_code": 3}, 1000)
