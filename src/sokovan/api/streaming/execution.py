"""Parses and validates the messages of a command that runs inside a kernel."""

from __future__ import annotations

from sokovan.api.request_bodies import parsed
from sokovan.domain.checks import require_int
from sokovan.domain.commands import require_command
from sokovan.domain.errors import InvalidSpec
from sokovan.wire.api.execution import ExecRequest, Resize

SIDE_MAX = 10_000


def read_request(message: bytes | str) -> ExecRequest:
    """The first message. Raises InvalidRequest, InvalidSpec."""
    request = parsed(message if isinstance(message, bytes) else message.encode(), ExecRequest)
    require_command(tuple(request.command), what="exec")
    if not request.command:
        raise InvalidSpec(what="exec", field="command", value=[], problem="is empty")
    _require_sides(request.rows, request.columns)
    return request


def read_size(message: str) -> tuple[int, int]:
    """Rows and columns of a later message. Raises InvalidRequest, InvalidSpec."""
    rows, columns = parsed(message.encode(), Resize).resize
    _require_sides(rows, columns)
    return rows, columns


def _require_sides(rows: int, columns: int) -> None:
    for name, side in (("rows", rows), ("columns", columns)):
        require_int(side, what="terminal", field=name, least=1, most=SIDE_MAX)
