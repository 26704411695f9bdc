"""The frames of a command that runs inside a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from sokovan.sdk.core.calls import sparse
from sokovan.sdk.core.responses import decoded
from sokovan.sdk.errors import UnexpectedAnswer, api_problem
from sokovan.wire.api.execution import ExecRequest, Resize
from sokovan.wire.api.system import ProblemView

# An empty frame is the end of input: no piece of input is empty.
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
    """The first frame: what is to run, and on which terminal."""
    request = ExecRequest(command=list(command))
    if terminal is not None:
        request = replace(request, terminal=True, rows=terminal.rows, columns=terminal.columns)
    return msgspec.json.encode(sparse(request)).decode()


def resized(terminal: Terminal) -> str:
    """The frame that tells a new size."""
    return msgspec.json.encode(Resize(resize=(terminal.rows, terminal.columns))).decode()


def read(frame: bytes | str) -> bytes | Finished:
    """Output, or the end. Raises the problem that a frame tells of."""
    if isinstance(frame, bytes):
        return frame
    told = decoded(frame, dict[str, object])
    code = told.get("exit_code")
    if isinstance(code, int):
        return Finished(code)
    if "code" in told and "status" in told:
        raise api_problem(decoded(frame, ProblemView))
    raise UnexpectedAnswer(f"the server told neither output nor an end: {frame[:200]}")
