"""The journal of an agent: an append-only file that is compacted when it grows.

One line is one call of `append`: a checksum, then the records as JSON. `append` returns
once the line is durable. A partial last line left by a crash was never acknowledged and
is cut off. That a kernel was started matters only until the machine restarts: such a line
outlives the process, and is synced to the disk with the next one.
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

from sokovan.agent.journal_records import JournalRecord, JournalState, KernelStarted, replayed, summary
from sokovan.domain.errors import SokovanError

HEADER = b"sokovan journal 1\n"
PRIVATE = 0o600
# Compacted when larger than this, and several times larger than its compacted form.
COMPACT_BYTES = 1 << 20
COMPACT_TIMES = 4

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(tuple[JournalRecord, ...])


class JournalDamaged(SokovanError):
    """The journal of an agent is corrupt: lines before its end are broken."""

    code = "journal-damaged"
    hint = "restore the file, or stop every kernel of this machine, remove the file, and enrol the agent again"


class JournalInUse(SokovanError):
    """Another agent uses the same folder."""

    code = "journal-in-use"
    hint = "stop the agent that runs with this root, or use another root"


class JournalUnwritable(SokovanError):
    """A record could not be made durable, so its request was not executed."""

    code = "journal-unwritable"
    hint = "check that the disk of the agent's root has free space and is writable; the request is retried"


class Journal:
    """Durable records of an agent. Calls block on disk I/O."""

    def __init__(self, path: Path, handle: int, lock: int, state: JournalState) -> None:
        self._path, self._handle, self._lock = path, handle, lock
        self._state = state
        self._size = os.fstat(handle).st_size
        self._summary_size = 0
        self._needs_rewrite = False
        self._write_lock = threading.Lock()  # a write abandoned by its caller ends before the file is closed

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the journal at `path`, creating it if missing.

        Raises JournalDamaged, JournalInUse, OSError.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = _locked(path.with_name(f"{path.name}.lock"))
        try:
            if not path.exists():
                _replace(path, HEADER)
            handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            try:
                state = _read(path, handle)
                return cls(path, handle, lock, state)
            except BaseException:
                os.close(handle)
                raise
        except BaseException:
            os.close(lock)
            raise

    @property
    def state(self) -> JournalState:
        """The state that the durable records add up to."""
        return self._state

    def append(self, records: Sequence[JournalRecord]) -> None:
        """Make the records durable, all or none. Raises JournalUnwritable."""
        if not records:
            return
        with self._write_lock:
            self._append(records)

    def _append(self, records: Sequence[JournalRecord]) -> None:
        after = replayed(self._state, records)
        try:
            if self._needs_rewrite or self._is_oversized():
                self._compact()
            line = _line(records)
            _write_all(self._handle, line)
            if not all(isinstance(record, KernelStarted) for record in records):
                os.fsync(self._handle)
        except OSError as problem:
            # A second fsync may wrongly succeed after a failed one: the next append rewrites the file.
            self._needs_rewrite = True
            raise JournalUnwritable(f"journal {self._path}: {problem.strerror or problem}") from problem
        self._size += len(line)
        self._state = after

    def close(self) -> None:
        """Close the file and release its lock."""
        with self._write_lock:
            os.close(self._handle)
            os.close(self._lock)
            self._handle = -1

    def _is_oversized(self) -> bool:
        return self._size > max(COMPACT_BYTES, COMPACT_TIMES * self._summary_size)

    def _compact(self) -> None:
        content = HEADER + _line(summary(self._state))
        _replace(self._path, content)
        handle = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        os.close(self._handle)
        self._handle = handle
        self._size = self._summary_size = len(content)
        self._needs_rewrite = False


def _line(records: Sequence[JournalRecord]) -> bytes:
    content = _encoder.encode(records)
    return b"%08x %b\n" % (crc32(content), content)


def _parsed(line: bytes) -> tuple[JournalRecord, ...] | None:
    """The records of a line; None if it is broken."""
    checksum, _, content = line.partition(b" ")
    if checksum != b"%08x" % crc32(content):
        return None
    try:
        return _decoder.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _read(path: Path, handle: int) -> JournalState:
    """Read the file; cuts off a partial last line."""
    content = path.read_bytes()
    if not content.startswith(HEADER):
        raise JournalDamaged(f"{path} does not have the header of a journal of this release")
    everything: list[JournalRecord] = []
    good = len(HEADER)
    # A line without a newline is partial, even if it parses.
    *lines, _ = content[good:].split(b"\n")
    for number, line in enumerate(lines):
        records = _parsed(line)
        if records is None:
            if any(_parsed(later) is not None for later in lines[number + 1 :]):
                raise JournalDamaged(f"{path}: line {number + 2} is broken, but later lines are intact")
            break
        everything.extend(records)
        good += len(line) + 1
    if good < len(content):
        os.ftruncate(handle, good)
        os.fsync(handle)
    return replayed(JournalState(), everything)


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
        os.fsync(folder)  # otherwise a power failure may lose the new name
    finally:
        os.close(folder)


def _locked(path: Path) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise JournalInUse(f"another agent has locked {path}") from None
    return handle
