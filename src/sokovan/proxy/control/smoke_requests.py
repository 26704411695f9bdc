"""Smoke requests: one token, asked of an endpoint before it serves.

A probe says that an engine listens; only a request says that it can answer one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import msgspec

from sokovan.proxy.endpoint_connections import Dialler
from sokovan.wire.serving.route_table import EndpointEntry

# The first request may have to compile kernels or load a part of the model.
LIMIT_S = 60.0
RESPONSE_MAX = 64 << 10
FOREIGN_LISTENER = "another program listens at its port"
# Statuses that say no more than that the engine has no such path, or not for this model.
_NOT_OFFERED = frozenset({400, 404, 405, 415, 422, 501})


async def smoke(
    entry: EndpointEntry,
    limit_s: float = LIMIT_S,
    *,
    owned: Callable[[], bool] = lambda: True,
    dialler: Dialler | None = None,
) -> str:
    """Ask an endpoint for one token; returns the problem, empty if there is none.

    Nothing is sent unless the port is `owned` by its kernel.
    """
    try:
        async with asyncio.timeout(limit_s):
            answer = await _asked(entry, owned, dialler or Dialler())
            return FOREIGN_LISTENER if answer is None else problem_of(answer)
    except TimeoutError:
        return f"a request for one token was not answered within {limit_s:g} s"
    except OSError as error:
        return f"a request for one token failed: {error.strerror or error}"


async def _asked(entry: EndpointEntry, owned: Callable[[], bool], dialler: Dialler) -> bytes | None:
    """The answer, as far as it is not longer than RESPONSE_MAX; None: nothing was sent. Raises OSError."""
    reader, writer = await dialler.streams(entry, limit=RESPONSE_MAX)
    try:
        if not owned():
            return None
        writer.write(request_of(entry))
        answer = b""
        while len(answer) < RESPONSE_MAX and (more := await reader.read(RESPONSE_MAX)):
            answer += more
        return answer
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def request_of(entry: EndpointEntry) -> bytes:
    """The bytes of the request."""
    question = [{"role": "user", "content": "Say yes."}]
    body = msgspec.json.encode({"model": entry.upstream_model, "messages": question, "max_tokens": 1})
    secret = f"authorization: Bearer {entry.secret}\r\n" if entry.secret else ""
    head = (
        f"POST {entry.probe.smoke_path} HTTP/1.1\r\nhost: {entry.host}:{entry.port}\r\n{secret}"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body


def problem_of(answer: bytes) -> str:
    """Why an answer does not show that the endpoint can serve; empty if it does."""
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head[:64].split()
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
        return "a request for one token got no HTTP response"
    status = int(words[1])
    if 200 <= status < 300:
        return "" if body else "a request for one token got an empty answer"
    return "" if status in _NOT_OFFERED else f"a request for one token got status {status}"
