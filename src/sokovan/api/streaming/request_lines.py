"""Reads a request body line by line; a line is bounded, whatever the body is."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.requests import Request

from sokovan.api.access.request_limits import Buckets
from sokovan.api.errors import UnsupportedMedia
from sokovan.domain.errors import quoted
from sokovan.domain.problems import InvalidRequest, Problem
from sokovan.ports.environment import Clock
from sokovan.wire.api.batches import LINES_MEDIA, SESSIONS_MAX

# Lines of a user: so many at once, then so many each second.
LINES_BURST = 20_000
LINES_PER_S = 1_000
# Sessions changed in one transaction: its cost is shared, and other requests do not wait long.
TOGETHER = 200
# Of large sessions fewer: they are parsed without a break.
TOGETHER_BYTES = 256 << 10


async def request_lines(request: Request, *, line_max: int) -> AsyncIterator[bytes | None]:
    """The lines of the body as they arrive; None for one that is too long.

    Empty lines are left out. The next part of the body is read when its lines are wanted: a client that sends faster
    than sessions are stored has to wait. Raises UnsupportedMedia, BodyTooLarge.
    """
    media = request.headers.get("content-type", "")
    if media.partition(";")[0].strip().lower() != LINES_MEDIA:
        raise UnsupportedMedia(f"the body is {quoted(media)}, not {LINES_MEDIA}", hint=f"send {LINES_MEDIA}")
    rest, skipped = bytearray(), False
    async for part in request.stream():
        *ends, begun = part.split(b"\n")
        for end in ends:
            line, rest = bytes(rest + end), bytearray()
            if skipped or len(line) > line_max:
                skipped = False
                yield None
            elif line.strip():
                yield line
        rest += begun  # in place: a line may come byte by byte
        if skipped or len(rest) > line_max:
            rest, skipped = bytearray(), True
    if skipped:
        yield None
    elif rest.strip():
        yield bytes(rest)


class LinePace:
    """Limits the rate of lines of a user: beyond it they are read more slowly."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines = Buckets(clock, per_s=LINES_PER_S, burst=LINES_BURST)

    async def wait(self, user: str, lines: int) -> None:
        """Return when so many lines of a user may be taken."""
        while wait_s := self._lines.take(user, lines):
            await self._clock.sleep(wait_s)


class LineParts:
    """The lines of a body in parts that are stored together; `unread` are too many."""

    def __init__(self, request: Request, line_max: int) -> None:
        self._lines = request_lines(request, line_max=line_max)
        self.unread = 0

    async def __aiter__(self) -> AsyncIterator[list[bytes | None]]:
        """The parts as they arrive."""
        part: list[bytes | None] = []
        read = size = 0
        async for line in self._lines:
            if read == SESSIONS_MAX:
                self.unread += 1
                continue
            part.append(line)
            read += 1
            size += len(line or b"")
            if len(part) == TOGETHER or size >= TOGETHER_BYTES:
                yield part
                part, size = [], 0
        if part:
            yield part


def too_many(unread: int) -> InvalidRequest:
    """The problem of lines beyond the most that are read."""
    problem = f"has {SESSIONS_MAX + unread} lines; the first {SESSIONS_MAX} were read"
    return InvalidRequest([Problem("body", problem)])
