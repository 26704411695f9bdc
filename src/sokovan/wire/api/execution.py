"""Messages on the WebSocket of a command that runs inside a kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sokovan.wire.api.bodies import StrictBody

FRAME_MAX = 1 << 20
# The protocol that a client may offer for the WebSocket.
EXEC_PROTOCOL = "sokovan-exec"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecRequest(StrictBody):
    """The command to run; rows and columns are those of the caller's terminal."""

    command: list[str]
    terminal: bool = False
    rows: int = 24
    columns: int = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize(StrictBody):
    """The new size of the terminal: rows, columns."""

    resize: tuple[int, int]


def frames_of(content: bytes) -> Iterator[bytes]:
    """Input or output, split into frames of at most FRAME_MAX bytes."""
    for start in range(0, len(content), FRAME_MAX):
        yield content[start : start + FRAME_MAX]
