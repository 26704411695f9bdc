"""Encodes and decodes the frames of a command that runs in a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sokovan.sdk.core.calls import sparse
from sokovan.sdk.core.responses import decoded
from sokovan.sdk.errors import UnexpectedAnswer, api_problem
from sokovan.wire.api.execution import ExecRequest, Resize
from sokovan.wire.api.system import ProblemView
from sokovan.wire.plain_codec import encoded

# An empty frame ends the input: a chunk of input is never empty.
END_OF_INPUT = b""


@dataclass(frozen=True, slots=True)
class Terminal:
    """The size of the caller's terminal."""

    rows: int
    columns: int


@dataclass(frozen=True, slots=True)
class Finished:
    """The command ended."""

    exit_code: int


def opening(command: Sequence[str], terminal: Terminal | None) -> str:
    """The first frame: the command and the size of the terminal."""
    request = ExecRequest(command=list(command))
    if terminal is not None:
        request = replace(request, terminal=True, rows=terminal.rows, columns=terminal.columns)
    return encoded(sparse(request)).decode()


def resized(terminal: Terminal) -> str:
    """The frame for a new size."""
    return encoded(Resize(resize=(terminal.rows, terminal.columns))).decode()


def read(frame: bytes | str) -> bytes | Finished:
    """Decode output or the exit code. Raises the problem that a frame describes."""
    if isinstance(frame, bytes):
        return frame
    message = decoded(frame, dict[str, object])
    code = message.get("exit_code")
    if isinstance(code, int):
        return Finished(code)
    if "code" in message and "status" in message:
        raise api_problem(decoded(frame, ProblemView))
    raise UnexpectedAnswer(f"the server sent neither output nor an exit code: {frame[:200]}")
