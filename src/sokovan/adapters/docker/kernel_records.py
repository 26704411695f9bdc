"""Records of containers in the folders of kernels: the launch, and the state."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sokovan.adapters.process.layout import LAUNCH, KernelLayout, opened
from sokovan.adapters.process.shim.log_ring import read_from
from sokovan.adapters.process.shim.main import LOG, STATE
from sokovan.adapters.process.shim.notices import read_checkpoint
from sokovan.adapters.process.shim.state_files import read_record, write_record
from sokovan.domain.ids import KernelId
from sokovan.domain.lifecycle.eviction import Checkpoint
from sokovan.ports.runtime import KernelState, Observation

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class KernelRecords:
    """The records of the kernels below one root."""

    layout: KernelLayout

    def launch(self, name: str) -> Record | None:
        """The launch of a kernel by the name of its folder; None without a folder."""
        return self._read(name, LAUNCH)

    def state(self, name: str) -> Record | None:
        """The state of a kernel; None until it was started."""
        return self._read(name, STATE)

    def write_state(self, name: str, state: Record) -> None:
        """Replace the state of a kernel. Raises OSError."""
        with opened(self.layout.kernels / name) as folder:
            write_record(folder, STATE, dict(state))

    def checkpoint(self, name: str, now_ms: int) -> Checkpoint | None:
        """The last checkpoint that a kernel reported, not later than now."""
        found = None
        with contextlib.suppress(OSError), opened(self.layout.kernels / name) as folder:
            found = read_checkpoint(folder)
        return None if found is None else Checkpoint(min(found["at_ms"], now_ms), found["step"], found["done"])

    def log(self, name: str, offset: int, limit: int) -> tuple[int, bytes, int]:
        """Output from `offset` on: where it begins, the bytes, and the end of all output."""
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            opened(self.layout.kernels / name / LOG) as log,
        ):
            return read_from(log, offset, limit)
        return offset, b"", 0

    def sessions(self) -> set[str]:
        """The sessions that have a kernel here."""
        return {str((self.launch(name) or {}).get("session_id")) for name in self.layout.names()}

    def _read(self, name: str, record: str) -> Record | None:
        path: Path = self.layout.kernels / name
        try:
            with opened(path) as folder:
                return read_record(folder, record)
        except OSError:
            return None


def observation_of(launch: Record, state: Record | None, checkpoint: Checkpoint | None, traces: str) -> Observation:
    """A kernel as its records describe it."""
    known = state or {}
    return Observation(
        kernel_id=KernelId(str(launch.get("kernel_id"))),
        attempt=int(launch.get("attempt") or 0),
        state=_state(known),
        started_ms=known.get("started_ms"),
        ended_ms=known.get("ended_ms"),
        exit_code=known.get("exit_code"),
        reason=str(known.get("reason") or ""),
        confinement=str(launch.get("confinement") or ""),
        traces="" if "ended_ms" in known else traces,
        checkpoint=checkpoint,
    )


def _state(state: Record) -> KernelState:
    if "ended_ms" in state:
        return KernelState.EXITED
    if "stopping_ms" in state:
        return KernelState.STOPPING
    return KernelState.RUNNING if "started_ms" in state else KernelState.STARTING
