"""Limits per client: request rate, failures, body size, JSON depth."""

from __future__ import annotations

import re
from collections import OrderedDict

from starlette.types import Message, Receive

from sokovan.api.errors import BodyTooLarge, TooManyRequests
from sokovan.domain.problems import InvalidRequest, Problem
from sokovan.ports.environment import Clock

JSON_DEPTH_MAX = 32
LIST_MAX = 1_000
NAMES_MAX = 10_000
# The body of a batch is read line by line, so that this much is never held at once.
BATCH_BYTES_MAX = 64 << 20
_QUOTE = ord('"')
# A text, also one without an end, or a bracket outside of texts. Possessive: every byte is looked at once, whatever
# the body is.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?+|[\[{\]}]', re.DOTALL)


class Buckets:
    """A token bucket per name: `burst` at once, then `per_s` more each second."""

    def __init__(self, clock: Clock, *, per_s: float, burst: float) -> None:
        self._clock, self._per_s, self._burst = clock, per_s, burst
        # Tokens left by name, and when. A name that is dropped starts with a full bucket.
        self._left: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def is_empty(self, name: str) -> bool:
        """Whether the bucket is empty now."""
        return self._left_at(name, self._clock.monotonic_ms()) < 1

    def take(self, name: str, count: int = 1) -> float:
        """Take tokens; 0 on success, else the seconds until there are so many."""
        now_ms = self._clock.monotonic_ms()
        left = self._left_at(name, now_ms)
        wait_s = 0.0 if left >= count else (count - left) / self._per_s
        self._left[name] = (left if wait_s else left - count, now_ms)
        self._left.move_to_end(name)
        while len(self._left) > NAMES_MAX:
            self._left.popitem(last=False)
        return wait_s

    def require(self, name: str, *, what: str) -> None:
        """Take a token. Raises TooManyRequests."""
        wait_s = self.take(name)
        if wait_s:
            raise TooManyRequests(f"too many {what}", wait_s=wait_s)

    def _left_at(self, name: str, now_ms: int) -> float:
        left, at_ms = self._left.get(name, (self._burst, now_ms))
        return min(self._burst, left + (now_ms - at_ms) / 1000 * self._per_s)


class LimitedBody:
    """Reads a request body up to the limit."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive, self._limit = receive, limit
        self._read = 0

    async def __call__(self) -> Message:
        """The next chunk. Raises BodyTooLarge."""
        message = await self._receive()
        if message["type"] == "http.request":
            self._read += len(message.get("body", b""))
            if self._read > self._limit:
                raise BodyTooLarge(limit=self._limit)
        return message


def require_length(content_length: bytes | None, *, limit: int) -> None:
    """Reject a body by its Content-Length. Raises BodyTooLarge."""
    if content_length is not None and content_length.isdigit() and int(content_length) > limit:
        raise BodyTooLarge(limit=limit)


def require_shallow(body: bytes, *, depth_max: int = JSON_DEPTH_MAX) -> None:
    """Reject JSON that is nested too deep, before parsing. Raises InvalidRequest."""
    # Fast path for nearly every body: fewer brackets than levels.
    if body.count(b"{") + body.count(b"[") <= depth_max:
        return
    depth = 0
    for token in _TOKEN.finditer(body):
        first = body[token.start()]
        if first == _QUOTE:
            continue
        depth += 1 if first in b"[{" else -1
        if depth > depth_max:
            raise InvalidRequest([Problem("body", f"is nested deeper than {depth_max} levels")])
