"""Output folders of kernels: `outputs/NAME/files`, with a record beside the files.

The time of `outputs/NAME` is the end of its kernel once that was forgotten: setting it
needs no space, so that a full disk does not prolong what is kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sokovan.adapters.process.layout import FILES, PRIVATE, KernelLayout, opened
from sokovan.adapters.process.shim.main import STATE
from sokovan.adapters.process.shim.state_files import read_record, write_record
from sokovan.wire.frames import CreateKernel, OutputTerms

RECORD = "record"
_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class KeptOutput:
    """The output of one kernel; `ended_ms` is None while it runs."""

    name: str
    session_id: str
    terms: OutputTerms
    ended_ms: int | None
    dropped_files: int = 0
    dropped_bytes: int = 0

    @property
    def kept_until_ms(self) -> int | None:
        """When it is removed; None while the kernel runs."""
        return None if self.ended_ms is None else self.ended_ms + self.terms.retention_s * 1000


@dataclass(frozen=True, slots=True)
class OutputFolders:
    """Output folders below a runtime's root."""

    layout: KernelLayout

    def prepare(self, launch: CreateKernel, name: str) -> None:
        """Create the output folder of a kernel that has one. Raises OSError."""
        terms = launch.output
        if terms is None:
            return
        folder = self.layout.outputs / name
        (folder / FILES).mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        self._write(name, {"session_id": launch.session_id, "terms": _terms_record(terms)})

    def note_dropped(self, output: KeptOutput, files: int, size: int) -> None:
        """Add what was removed because of a limit to the record. Raises OSError."""
        about = (self.layout.outputs / output.name).stat()
        record = {
            "session_id": output.session_id,
            "terms": _terms_record(output.terms),
            "dropped": [output.dropped_files + files, output.dropped_bytes + size],
        }
        try:
            self._write(output.name, record)
        finally:
            self.layout.note_end(output.name, about.st_mtime_ns // _MS)

    def all(self) -> Iterator[KeptOutput]:
        """Every output on this machine."""
        for entry in sorted(entry.name for entry in os.scandir(self.layout.outputs)):
            output = None if entry.startswith(".") else self.one(entry)
            if output is not None:
                yield output

    def one(self, name: str) -> KeptOutput | None:
        """The output of the kernel of this folder name; None if there is none."""
        try:
            with opened(self.layout.outputs / name) as folder:
                record, about = read_record(folder, RECORD) or {}, os.fstat(folder)
        except OSError:
            return None
        dropped = record.get("dropped") or [0, 0]
        return KeptOutput(
            name,
            str(record.get("session_id") or ""),
            _terms_of(record.get("terms") or {}),
            self._ended_ms(name, about.st_mtime_ns // _MS),
            dropped_files=int(dropped[0]),
            dropped_bytes=int(dropped[1]),
        )

    def _ended_ms(self, name: str, noted_ms: int) -> int | None:
        """The end of a kernel by its own record; by the noted time once that is gone."""
        try:
            with opened(self.layout.kernels / name) as folder:
                state = read_record(folder, STATE)
        except OSError:
            return noted_ms
        ended_ms = (state or {}).get("ended_ms")
        return None if ended_ms is None else int(ended_ms)

    def _write(self, name: str, record: dict[str, Any]) -> None:
        with opened(self.layout.outputs / name) as handle:
            write_record(handle, RECORD, record, lasting=False)


def _terms_record(terms: OutputTerms) -> dict[str, Any]:
    return {name: getattr(terms, name) for name in terms.__struct_fields__}


def _terms_of(record: dict[str, Any]) -> OutputTerms:
    """The terms of a record; a lost one keeps nothing."""
    numbers = {name: int(record.get(name) or 0) for name in OutputTerms.__struct_fields__ if name != "owner"}
    return OutputTerms(owner=str(record.get("owner") or ""), **numbers)
