"""The journal of an agent: a file that only grows, until it is replaced whole.

One line is one call of `append`: a checksum, then its records as JSON. A line counts
once it is on the disk with all that came before it, and only then does `append` return.
What a crash left of a last line was never acknowledged, and is cut off.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Self
from zlib import crc32

import msgspec

from sokovan.agent.journal_records import JournalRecord, Memory, recalled, summary
from sokovan.domain.errors import SokovanError

HEADER = b"sokovan journal 1\n"
PRIVATE = 0o600
# Written anew when it is larger than this, and much larger than what it says in sum.
COMPACT_BYTES = 1 << 20
COMPACT_TIMES = 4

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(tuple[JournalRecord, ...])


class JournalDamaged(SokovanError):
    """The journal of an agent cannot be believed: lines before its end are broken."""

    code = "journal-damaged"
    hint = "restore the file, or stop every kernel of this machine, remove the file, and let the agent enrol anew"


class JournalInUse(SokovanError):
    """Another agent runs on this folder."""

    code = "journal-in-use"
    hint = "an agent runs already with this root; stop it, or give this one a root of its own"


class JournalUnwritable(SokovanError):
    """A record could not be made durable, so that what it is about was not done."""

    code = "journal-unwritable"
    hint = "see to it that the disk of the agent's root has space and takes writes; the request is repeated by itself"


class Journal:
    """Records that outlive the agent. Its calls block for the disk."""

    def __init__(self, path: Path, handle: int, lock: int, memory: Memory) -> None:
        self._path, self._handle, self._lock = path, handle, lock
        self._memory = memory
        self._size = os.fstat(handle).st_size
        self._summary_size = 0
        self._doubtful = False
        self._turn = threading.Lock()  # a write that its caller gave up on ends before the file is closed

    @classmethod
    def open(cls, path: Path) -> Self:
        """The journal at `path`, made if it is not there.

        Raises JournalDamaged, JournalInUse, OSError.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = _locked(path.with_name(f"{path.name}.lock"))
        try:
            if not path.exists():
                _replace(path, HEADER)
            handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            try:
                memory = _read(path, handle)
                return cls(path, handle, lock, memory)
            except BaseException:
                os.close(handle)
                raise
        except BaseException:
            os.close(lock)
            raise

    @property
    def memory(self) -> Memory:
        """What is durable, in sum."""
        return self._memory

    def append(self, records: Sequence[JournalRecord]) -> None:
        """Make the records durable. Raises JournalUnwritable, and then none counts."""
        if not records:
            return
        with self._turn:
            self._append(records)

    def _append(self, records: Sequence[JournalRecord]) -> None:
        after = recalled(self._memory, records)
        try:
            if self._doubtful or self._is_bloated():
                self._compact()
            line = _line(records)
            _write_all(self._handle, line)
            os.fsync(self._handle)
        except OSError as problem:
            # What reached the disk is not known now, and a second fsync may lie: the next append starts a new file.
            self._doubtful = True
            raise JournalUnwritable(f"journal {self._path}: {problem.strerror or problem}") from problem
        self._size += len(line)
        self._memory = after

    def close(self) -> None:
        """Let another agent have it."""
        with self._turn:
            os.close(self._handle)
            os.close(self._lock)
            self._handle = -1

    def _is_bloated(self) -> bool:
        return self._size > max(COMPACT_BYTES, COMPACT_TIMES * self._summary_size)

    def _compact(self) -> None:
        content = HEADER + _line(summary(self._memory))
        _replace(self._path, content)
        handle = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        os.close(self._handle)
        self._handle = handle
        self._size = self._summary_size = len(content)
        self._doubtful = False


def _line(records: Sequence[JournalRecord]) -> bytes:
    content = _encoder.encode(records)
    return b"%08x %b\n" % (crc32(content), content)


def _parsed(line: bytes) -> tuple[JournalRecord, ...] | None:
    """The records of a line, None if it is broken."""
    checksum, _, content = line.partition(b" ")
    if checksum != b"%08x" % crc32(content):
        return None
    try:
        return _decoder.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _read(path: Path, handle: int) -> Memory:
    """What the file says; an unfinished last line is cut off."""
    content = path.read_bytes()
    if not content.startswith(HEADER):
        raise JournalDamaged(f"{path} does not begin as a journal of this release does")
    everything: list[JournalRecord] = []
    good = len(HEADER)
    # A line without its end was never finished, whatever it says.
    *lines, _ = content[good:].split(b"\n")
    for number, line in enumerate(lines):
        records = _parsed(line)
        if records is None:
            if any(_parsed(later) is not None for later in lines[number + 1 :]):
                raise JournalDamaged(f"{path}: line {number + 2} is broken, and lines after it are not")
            break
        everything.extend(records)
        good += len(line) + 1
    if good < len(content):
        os.ftruncate(handle, good)
        os.fsync(handle)
    return recalled(Memory(), everything)


def _write_all(handle: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(handle, rest) :]


def _replace(path: Path, content: bytes) -> None:
    fresh = path.with_name(f".{path.name}.new")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE)
    try:
        _write_all(handle, content)
        os.fsync(handle)
    except BaseException:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise
    finally:
        os.close(handle)
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)  # without this the new name may be lost with the power
    finally:
        os.close(folder)


def _locked(path: Path) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise JournalInUse(f"another agent holds {path}") from None
    return handle
