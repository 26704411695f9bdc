"""A log of bounded size: segment files, of which the oldest are removed."""

from __future__ import annotations

import contextlib
import os
import stat

PRIVATE = 0o600
SEGMENTS = 8
SEGMENT_BYTES_MIN = 4096
NAME_DIGITS = 20


def segment_name(offset: int) -> str:
    """The file name of the segment at `offset`; names sort like offsets."""
    return f"{offset:0{NAME_DIGITS}}"


def segments(folder: int) -> list[int]:
    """The offsets of the segments in the open folder, oldest first."""
    return sorted(int(name) for name in os.listdir(folder) if name.isdigit() and len(name) == NAME_DIGITS)


class Ring:
    """Writes the log. Offsets count every byte, dropped ones included."""

    def __init__(self, folder: int, bytes_max: int) -> None:
        self.offset = 0
        self.dropped = 0
        self._folder = folder
        self._segment_bytes = max(SEGMENT_BYTES_MIN, bytes_max // SEGMENTS)
        self._segments_max = max(1, bytes_max // self._segment_bytes)
        self._segments: list[int] = []
        self._handle = -1
        self._room = 0

    @classmethod
    def resumed(cls, folder: int, bytes_max: int) -> Ring:
        """A log that goes on after what the folder has."""
        ring = cls(folder, bytes_max)
        ring._segments = segments(folder)
        if ring._segments:
            last = ring._segments[-1]
            ring.offset = last + (_size(folder, last) or 0)
            if ring.offset == last:  # its name would be that of the next one
                ring._remove(ring._segments.pop())
        return ring

    def write(self, output: bytes) -> None:
        """Append output; what cannot be written is dropped."""
        view = memoryview(output)
        while view:
            written = self._write_some(view)
            if written == 0:
                self.dropped += len(view)
                self.offset += len(view)
                return
            view = view[written:]
            self.offset += written

    def _write_some(self, view: memoryview) -> int:
        """Write a part; returns 0 if the disk is full."""
        try:
            if self._room == 0:
                self._begin_segment()
            written = os.write(self._handle, view[: self._room])
        except OSError:
            self._abandon_segment()
            return 0
        self._room -= written
        return written

    def _begin_segment(self) -> None:
        self.close()
        while len(self._segments) >= self._segments_max:
            self._remove(self._segments.pop(0))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW
        self._handle = os.open(segment_name(self.offset), flags, PRIVATE, dir_fd=self._folder)
        self._segments.append(self.offset)
        self._room = self._segment_bytes

    def _abandon_segment(self) -> None:
        """After a failed write the next output starts a new segment at its own offset."""
        self._room = 0
        # The name of an empty segment could collide with that of a later one.
        if self._handle >= 0 and os.fstat(self._handle).st_size == 0:
            self._remove(self._segments.pop())
        self.close()

    def _remove(self, offset: int) -> None:
        with contextlib.suppress(OSError):
            os.unlink(segment_name(offset), dir_fd=self._folder)

    def close(self) -> None:
        """Close the current segment; a later write starts another."""
        self._room = 0
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def read_from(folder: int, offset: int, limit: int) -> tuple[int, bytes, int]:
    """Read from the open folder; returns the offset of the data, the data and the end.

    An offset of dropped output moves forward to the oldest kept byte.
    """
    begins = segments(folder)
    total = 0
    for begin in reversed(begins):
        size = _size(folder, begin)
        if size is not None:
            total = begin + size
            break
    for begin in begins:
        size = _size(folder, begin)
        if size is not None and offset < begin + size:
            at = max(offset, begin)
            return at, _read_at(folder, begin, at - begin, limit), total
    return offset, b"", total


def _size(folder: int, begin: int) -> int | None:
    handle = _open_segment(folder, begin)
    if handle is None:
        return None
    try:
        return os.fstat(handle).st_size
    finally:
        os.close(handle)


def _read_at(folder: int, begin: int, at: int, limit: int) -> bytes:
    handle = _open_segment(folder, begin)
    if handle is None:
        return b""
    try:
        return os.pread(handle, limit, at)
    finally:
        os.close(handle)


def _open_segment(folder: int, begin: int) -> int | None:
    """Open a regular file only: a kernel may have replaced it by a link or pipe."""
    try:
        handle = os.open(segment_name(begin), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return None
    return handle
