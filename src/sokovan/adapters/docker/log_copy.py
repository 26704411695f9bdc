"""Copies the output of a container into the kernel's log of bounded size.

The engine keeps output in files of its own and gives each piece a time. The copy notes the
time of its last piece, so that after a restart of the agent it goes on there, and neither
repeats nor misses anything that the engine still has.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sokovan.adapters.docker.engine.client import EngineClient, path_of
from sokovan.adapters.process.layout import PRIVATE, opened
from sokovan.adapters.process.shim.log_ring import Ring
from sokovan.adapters.process.shim.main import LOG
from sokovan.adapters.process.shim.state_files import read_record, write_record

CURSOR = "log.json"
LOCK = "log.lock"
NOTE_EVERY_S = 0.5
_HEADER = 8
_PIECE_MAX = 1 << 24
_TIME = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")


@dataclass(slots=True)
class Cursor:
    """How far the output of a container was copied.

    `at` is the time of the last piece, `pieces` how many had this time; `offset` is the
    number of bytes before that were copied.
    """

    at: str = ""
    pieces: int = 0
    offset: int = 0


@dataclass(slots=True)
class FrameReader:
    """Divides the stream of an engine into pieces of output."""

    _rest: bytearray = field(default_factory=bytearray)

    def frames(self, data: bytes) -> Iterator[bytes]:
        """The pieces that are complete with this data. Raises ValueError."""
        self._rest += data
        begin = 0
        while len(self._rest) - begin >= _HEADER:
            size = int.from_bytes(self._rest[begin + 4 : begin + _HEADER])
            if size > _PIECE_MAX:
                raise ValueError(f"a piece of output has {size} bytes")
            end = begin + _HEADER + size
            if len(self._rest) < end:
                break
            yield bytes(self._rest[begin + _HEADER : end])
            begin = end
        del self._rest[:begin]


def timed(piece: bytes) -> tuple[str, bytes]:
    """The time of a piece of output, in seconds with nine digits, and its text."""
    stamp, _, output = piece.partition(b" ")
    found = _TIME.fullmatch(stamp)
    if found is None:
        return "", piece
    zone = found[3].decode().replace("Z", "+00:00")
    seconds = int(datetime.fromisoformat(found[1].decode() + zone).astimezone(UTC).timestamp())
    return f"{seconds}.{(found[2] or b'').decode().ljust(9, '0')}", output


class LogCopy:
    """Copies the output of one container; one copier at a time, over all processes."""

    def __init__(self, engine: EngineClient, container: str, folder: Path, bytes_max: int) -> None:
        self._engine, self._container, self._folder, self._bytes_max = engine, container, folder, bytes_max

    async def run(self) -> None:
        """Copy until the container has ended and nothing is left.

        Raises EngineUnavailable, EngineRefusal, OSError; BlockingIOError if another copies it.
        """
        with contextlib.ExitStack() as closing:
            inside = closing.enter_context(opened(self._folder))
            lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=inside)
            closing.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(FileExistsError):
                os.mkdir(LOG, PRIVATE, dir_fd=inside)
            log = closing.enter_context(opened(self._folder / LOG))
            ring = Ring.resumed(log, self._bytes_max)
            closing.callback(ring.close)
            while await self._is_running():
                await self._copy(inside, ring, follow=True)
            # An engine may end what it follows before it has sent all.
            await self._copy(inside, ring, follow=False)

    async def _is_running(self) -> bool:
        about = await self._engine.call("GET", path_of("containers", self._container, "json"))
        return bool(about["State"].get("Running"))

    async def _copy(self, inside: int, ring: Ring, *, follow: bool) -> None:
        cursor = _cursor(read_record(inside, CURSOR))
        # The log has more than the cursor says if the copier was killed in between.
        copying = _Copying(cursor, ring, skip_bytes=max(0, ring.offset - cursor.offset))
        query = {"follow": str(int(follow)), "stdout": "1", "stderr": "1", "timestamps": "1", "since": cursor.at or "0"}
        async with self._engine.stream("GET", path_of("containers", self._container, "logs"), query=query) as data:
            try:
                await copying.run(data, note=lambda record: write_record(inside, CURSOR, record, lasting=False))
            finally:
                write_record(inside, CURSOR, copying.record(), lasting=False)


@dataclass(slots=True)
class _Copying:
    """Takes pieces from where the last copier stopped."""

    cursor: Cursor
    ring: Ring
    skip_bytes: int = 0
    _skip_pieces: int = 0
    _known: str = ""

    def __post_init__(self) -> None:
        self._skip_pieces, self._known = self.cursor.pieces, self.cursor.at

    async def run(self, data: AsyncIterator[bytes], *, note: Callable[[dict[str, Any]], None]) -> None:
        """Copy a stream; `note` keeps how far it is, from time to time.

        An engine sends each line by itself. What is copied after a note is known by the size of the log.
        """
        loop = asyncio.get_running_loop()
        noted_s = loop.time()
        async for pieces in _batches(data):
            self.add(pieces)
            if loop.time() - noted_s >= NOTE_EVERY_S:
                note(self.record())
                noted_s = loop.time()

    def add(self, pieces: list[bytes]) -> None:
        """Append pieces to the log, without those that it has."""
        new = []
        for piece in pieces:
            at, output = timed(piece)
            if self._skip_pieces and at == self._known:
                self._skip_pieces -= 1
                continue
            self.cursor.pieces = self.cursor.pieces + 1 if at == self.cursor.at else 1
            self.cursor.at = at
            self.cursor.offset += len(output)
            skipped = min(self.skip_bytes, len(output))
            self.skip_bytes -= skipped
            new.append(output[skipped:])
        self.ring.write(b"".join(new))

    def record(self) -> dict[str, Any]:
        """The cursor for the next copier."""
        return {"at": self.cursor.at, "pieces": self.cursor.pieces, "offset": self.cursor.offset}


def _cursor(record: dict[str, Any] | None) -> Cursor:
    known = record or {}
    return Cursor(str(known.get("at") or ""), int(known.get("pieces") or 0), int(known.get("offset") or 0))


async def _batches(data: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    reader = FrameReader()
    async for part in data:
        pieces = list(reader.frames(part))
        if pieces:
            yield pieces
