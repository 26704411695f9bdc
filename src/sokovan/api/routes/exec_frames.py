"""The messages of a command that runs inside a kernel."""

from __future__ import annotations

from contextlib import suppress

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from sokovan.api.errors import BodyTooLarge
from sokovan.api.request_bodies import parsed
from sokovan.domain.checks import require_int
from sokovan.domain.commands import require_command
from sokovan.domain.errors import InvalidSpec
from sokovan.wire.api.execution import FRAME_MAX, ExecRequest, Resize

SIDE_MAX = 10_000
NORMAL = 1000


async def next_message(websocket: WebSocket) -> bytes | str:
    """The next message. Raises WebSocketDisconnect, BodyTooLarge."""
    message = await websocket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", NORMAL))
    content: bytes | str | None = message.get("bytes")
    content = message.get("text", "") if content is None else content
    if len(content) > FRAME_MAX:
        raise BodyTooLarge(limit=FRAME_MAX)
    return content


def read_request(message: bytes | str) -> ExecRequest:
    """The first message. Raises InvalidRequest, InvalidSpec."""
    wanted = parsed(message if isinstance(message, bytes) else message.encode(), ExecRequest)
    require_command(tuple(wanted.command), what="exec")
    if not wanted.command:
        raise InvalidSpec(what="exec", field="command", value=[], problem="is empty")
    _require_sides(wanted.rows, wanted.columns)
    return wanted


def read_size(message: str) -> tuple[int, int]:
    """Rows and columns of a later message. Raises InvalidRequest, InvalidSpec."""
    rows, columns = parsed(message.encode(), Resize).resize
    _require_sides(rows, columns)
    return rows, columns


def _require_sides(rows: int, columns: int) -> None:
    for name, side in (("rows", rows), ("columns", columns)):
        require_int(side, what="terminal", field=name, least=1, most=SIDE_MAX)


async def say_last(websocket: WebSocket, last: object, code: int) -> None:
    """The last message, and the end."""
    with suppress(WebSocketDisconnect, RuntimeError):  # the client has gone meanwhile
        await websocket.send_text(msgspec.json.encode(last).decode())
        await websocket.close(code)
