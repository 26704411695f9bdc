"""Determines the state of kernels from their folders and the process table."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from sokovan.adapters.process.idle_times import IdleTimes
from sokovan.adapters.process.launch.environment import marks_of
from sokovan.adapters.process.layout import LAUNCH, KernelLayout, locked_if_free, opened
from sokovan.adapters.process.orphan_processes import OrphanProcesses, groups_of, traces_of
from sokovan.adapters.process.shim.main import LOG, STATE
from sokovan.adapters.process.shim.notices import read_checkpoint
from sokovan.adapters.process.shim.processes import Process, boot_id, is_alive, look_up
from sokovan.adapters.process.shim.state_files import read_record, write_record
from sokovan.domain.ids import KernelId
from sokovan.domain.lifecycle.eviction import Checkpoint
from sokovan.ports.environment import Clock
from sokovan.ports.runtime import KILLED, KernelState, Observation

NEVER_STARTED = "never started"
SHIM_LOST = "shim lost"
MACHINE_RESTARTED = "machine restarted"
# Creating or removing a folder takes less time than this.
UNFINISHED_AGE_MS = 60_000
NOT_STARTED = 127
# Ended kernels that are checked for tombstones in each observation.
RECHECKED = 32

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Observer:
    """Observes kernels; EXITED is a proof that nothing of the kernel runs."""

    layout: KernelLayout
    clock: Clock
    idle: IdleTimes | None = None
    # Ends are final, and most kept kernels have ended: they are not read again.
    over: dict[str, Observation] = field(default_factory=dict, compare=False, repr=False)
    turns: Iterator[int] = field(default_factory=itertools.count, compare=False, repr=False)

    @classmethod
    def measuring(cls, layout: KernelLayout, clock: Clock) -> Observer:
        """An observer that measures idle times, too."""
        return cls(layout, clock, IdleTimes(clock))

    def command(self, name: str) -> AbstractContextManager[None]:
        """Entered while a command runs in a kernel, which is then not idle."""
        return contextlib.nullcontext() if self.idle is None else self.idle.command(name)

    def all(self) -> list[Observation]:
        """Every kernel that was not forgotten, by id and attempt."""
        self.layout.remove_unfinished_folders(self.clock.now_ms() - UNFINISHED_AGE_MS)
        if self.idle is not None:
            self.idle.sample()
        names = list(self.layout.names())
        for gone in self.over.keys() - set(names):
            self.over.pop(gone, None)
        self._recheck(names)
        kept = self.some(names)
        return sorted(kept, key=lambda observation: (observation.kernel_id, observation.attempt))

    def some(self, names: Sequence[str]) -> list[Observation]:
        """The kernels of these folders that were not forgotten."""
        found = (self._seen(name) for name in names)
        return [observation for observation in found if observation is not None]

    def _recheck(self, names: Sequence[str]) -> None:
        """Read some of the ended kernels again that another runtime has forgotten.

        It removes what it forgets, unless it is killed. A few at a time, since an agent
        keeps a thousand of them.
        """
        begin = next(self.turns) * RECHECKED % max(1, len(names))
        for name in names[begin : begin + RECHECKED]:
            if name in self.over and self.layout.is_forgotten(name):
                self.over.pop(name, None)

    def one(self, name: str) -> Observation | None:
        """The kernel of this folder; None if it does not exist or is forgotten."""
        folder = self.layout.kernels / name
        launch, state = _read(folder)
        if not folder.is_dir():
            return None
        state = state or self._without_state(folder, launch or {})
        if state is None and not folder.is_dir():
            return None
        if state is not None and "ended_ms" not in state and "shim_pid" in state:
            state = self._checked(folder, launch or {}, state)
        if state is not None and "ended_ms" in state and self.layout.is_forgotten(name):
            self.remove(name)
            return None
        seen = _observation(name, launch or {}, state or {})
        return replace(seen, idle_s=self._idle_s(name, launch, state), checkpoint=self._checkpoint(folder))

    def _checkpoint(self, folder: Path) -> Checkpoint | None:
        """The last checkpoint that the kernel reported, not later than now."""
        try:
            with opened(folder) as handle:
                found = read_checkpoint(handle)
        except OSError:
            return None
        if found is None:
            return None
        return Checkpoint(min(found["at_ms"], self.clock.now_ms()), found["step"], found["done"])

    def _idle_s(self, name: str, launch: Record | None, state: Record | None) -> int | None:
        """How long a running kernel with an idle timeout has been idle."""
        if self.idle is None or launch is None or not launch.get("watch_idle"):
            return None
        if state is None or _state(state) is not KernelState.RUNNING:
            return None
        return self.idle.idle_s(name, state["shim_pid"])

    def sessions(self) -> set[str]:
        """The sessions that have a kernel here, running or ended."""
        records = (_read(self.layout.kernels / name)[0] or {} for name in self.layout.names())
        return {str(record.get("session_id")) for record in records}

    def _seen(self, name: str) -> Observation | None:
        known = self.over.get(name)
        if known is not None:
            return known
        seen = self.one(name)
        if seen is not None and seen.state is KernelState.EXITED:
            self.over[name] = seen
        else:
            self.over.pop(name, None)
        return seen

    def shim(self, name: str) -> Process | None:
        """The shim of this folder, if it runs."""
        state = _read(self.layout.kernels / name)[1] or {}
        if state.get("boot") != boot_id() or not is_alive(state.get("shim_pid", 0), state.get("shim_start", 0)):
            return None
        return look_up(state["shim_pid"])

    def launch(self, name: str) -> Record:
        """The launch of this folder's kernel; empty if it is not kept."""
        return _read(self.layout.kernels / name)[0] or {}

    def remove(self, name: str) -> None:
        """Remove what is kept of a kernel that has ended."""
        self.over.pop(name, None)
        folder = self.layout.kernels / name
        groups_of(_read(folder)[0] or {}).remove()
        with locked_if_free(folder):
            self.layout.discard(name)

    def _without_state(self, folder: Path, launch: Record) -> Record | None:
        """No state was recorded: the start is under way, or was abandoned.

        A start that was abandoned before its shim began leaves nothing and may be retried.
        """
        with locked_if_free(folder) as free:
            state = _read(folder)[1]
            if state is not None or not free:
                return state
            if launch.get("boot") not in {None, boot_id()}:
                # The state of a start is not synced to the disk: it may have run before.
                return self._ended(folder, {}, exit_code=KILLED, reason=MACHINE_RESTARTED)
            # The record may also have been lost; only the process table proves that nothing runs.
            left = self._end_orphans(folder, launch, {})
            if left is None and not (folder / LOG).exists():
                self.layout.discard(folder.name)
                return None
            return left or self._ended(folder, {}, exit_code=NOT_STARTED, reason=NEVER_STARTED)

    def _checked(self, folder: Path, launch: Record, state: Record) -> Record:
        """The state if its shim runs; otherwise ends the remaining processes first."""
        if state.get("boot") != boot_id():
            return self._ended(folder, state, exit_code=KILLED, reason=MACHINE_RESTARTED)
        if is_alive(state["shim_pid"], state["shim_start"]):
            return state
        # If the agent is the init process of a container, an ended shim is its child.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(state["shim_pid"], os.WNOHANG)
        state = _read(folder)[1] or state  # it may have been updated since it was read
        if "ended_ms" in state:
            return state
        left = self._end_orphans(folder, launch, state)
        return left or self._ended(folder, state, exit_code=KILLED, reason=SHIM_LOST)

    def _end_orphans(self, folder: Path, launch: Record, state: Record) -> Record | None:
        """End processes without a shim; returns a record while some are left."""
        kernel_id, attempt = _identity(folder.name, launch)
        groups = groups_of(launch)
        marks = marks_of(kernel_id, attempt, root=self.layout.root)
        left = OrphanProcesses(marks, groups=groups, state=state).end()
        if left:
            return {**state, "stopping_ms": self.clock.now_ms(), "reason": f"does not die: pid {left[0].pid}"}
        groups.remove()
        return None

    def _ended(self, folder: Path, state: Record, *, exit_code: int, reason: str) -> Record:
        ended = {**state, "ended_ms": self.clock.now_ms(), "exit_code": exit_code, "signal": None, "reason": reason}
        # A record that cannot be written is computed again at the next observation.
        with contextlib.suppress(OSError), opened(folder) as handle:
            write_record(handle, STATE, ended)
        return ended


def _read(folder: Path) -> tuple[Record | None, Record | None]:
    try:
        with opened(folder) as handle:
            return read_record(handle, LAUNCH), read_record(handle, STATE)
    except OSError:
        return None, None


def _identity(name: str, launch: Record) -> tuple[KernelId, int]:
    """The kernel of a folder; the name is sufficient if its record is lost."""
    kernel_id, _, attempt = name.rpartition("-")
    return KernelId(launch.get("kernel_id") or unquote(kernel_id)), int(attempt) if attempt.isdigit() else 0


def _observation(name: str, launch: Record, state: Record) -> Observation:
    kernel_id, attempt = _identity(name, launch)
    return Observation(
        kernel_id=kernel_id,
        attempt=attempt,
        state=_state(state),
        started_ms=state.get("started_ms"),
        ended_ms=state.get("ended_ms"),
        exit_code=state.get("exit_code"),
        reason=state.get("reason") or "",
        confinement=launch.get("confinement") or "",
        traces="" if "ended_ms" in state else traces_of(launch, state),
    )


def _state(state: Record) -> KernelState:
    if "ended_ms" in state:
        return KernelState.EXITED
    if "stopping_ms" in state:
        return KernelState.STOPPING
    return KernelState.RUNNING if "started_ms" in state else KernelState.STARTING
