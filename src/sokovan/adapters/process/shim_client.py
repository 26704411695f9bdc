"""Sends requests to a shim over its socket."""

from __future__ import annotations

import array
import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sokovan.adapters.process.layout import opened
from sokovan.adapters.process.shim.request_listener import MESSAGE_MAX, address
from sokovan.ports.runtime import ProgramNotFound, RuntimeFailure

ANSWER_LIMIT_S = 10.0
# Part of a shim's message for a missing program.
NO_PROGRAM = "is not on PATH"


class ShimSilent(RuntimeFailure):
    """A shim does not answer: it has ended, or is ending."""

    code = "shim-silent"
    hint = "observe the kernel again: it has ended, or is about to end"


def connected(folder: Path, *, limit_s: float = ANSWER_LIMIT_S) -> socket.socket:
    """A connection to the shim of this folder; raises ShimSilent."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.settimeout(limit_s)
        with opened(folder) as handle:
            connection.connect(address(handle))
    except OSError as error:
        connection.close()
        raise ShimSilent(f"the shim in {folder.name} does not answer: {error}") from error
    return connection


def send_request(connection: socket.socket, message: dict[str, Any], files: Sequence[int] = ()) -> dict[str, Any]:
    """Send a message, with open files if any, and wait for the answer.

    Raises RuntimeFailure if the shim refuses, ShimSilent if it does not answer.
    """
    text = json.dumps(message).encode()
    if len(text) > MESSAGE_MAX:
        raise RuntimeFailure(f"a message has {len(text)} bytes", hint=f"the limit is {MESSAGE_MAX} bytes")
    attached = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))] if files else []
    try:
        connection.sendmsg([text], attached)
        answer = json.loads(connection.recv(MESSAGE_MAX) or b"null")
    except (OSError, ValueError) as error:
        raise ShimSilent(f"the shim does not answer: {error}") from error
    if not isinstance(answer, dict):
        raise ShimSilent("the shim ended before it answered")
    if "error" in answer:
        kind = ProgramNotFound if NO_PROGRAM in str(answer["error"]) else RuntimeFailure
        raise kind(f"the shim refused: {answer['error']}")
    return answer


def request_stop(
    folder: Path, grace_s: float, *, limit_s: float = ANSWER_LIMIT_S, reason: str = "", notice: str = ""
) -> None:
    """Request a shim to stop its kernel; raises ShimSilent if there is none."""
    with connected(folder, limit_s=limit_s) as connection:
        send_request(connection, {"do": "stop", "grace_s": grace_s, "reason": reason, "notice": notice})
