"""Reads a request body line by line; a line is bounded, whatever the body is."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.requests import Request

from sokovan.api.access.request_limits import Buckets
from sokovan.api.errors import UnsupportedMedia
from sokovan.domain.errors import quoted
from sokovan.ports.environment import Clock
from sokovan.wire.api.batches import LINES_MEDIA

# Lines of a user: so many at once, then so many each second.
LINES_BURST = 20_000
LINES_PER_S = 1_000


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
