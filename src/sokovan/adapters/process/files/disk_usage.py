"""Measures the disk space of running kernels, and finds those beyond a limit.

A measurement takes a small part of the time, whatever kernels have written: folders are read
in slices, in turn, and what was read so far counts as soon as it is too much.
"""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sokovan.adapters.process.launch.output_folders import KeptOutput, OutputFolders
from sokovan.adapters.process.layout import TEMPORARY, WORK, KernelLayout
from sokovan.adapters.process.observer import Observer
from sokovan.adapters.process.stopper import Stopper
from sokovan.ports.environment import Clock
from sokovan.ports.runtime import DISK_LIMIT

CHECK_EVERY_S = 1.0
# Of each check for all kernels together.
BUDGET_MS = 50
_SLICE = 256
# More cannot be measured in time, and would use up the file system's own tables.
FILES_MAX = 2_000_000
FOLDERS_MAX = 200_000
DEPTH_MAX = 100
_BLOCK = 512
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Measurement:
    """One walk through the folders of a kernel, a slice at a time.

    `size` is what was found so far, `problem` why it cannot be measured.
    """

    def __init__(self, folders: list[Path]) -> None:
        self.size, self.files, self.problem = 0, 0, ""
        self._left: list[tuple[Path, tuple[str, ...]]] = [(folder, ()) for folder in folders]
        self._entries: Iterator[None] = iter(())

    def advance(self) -> bool:
        """Read a slice; whether the walk is complete."""
        for _ in range(_SLICE):
            if self.problem:
                return True
            try:
                next(self._entries)
            except StopIteration:
                if not self._left:
                    return True
                self._entries = self._read(*self._left.pop())
        return False

    def _read(self, root: Path, parts: tuple[str, ...]) -> Iterator[None]:
        """The entries of one folder; what disappears meanwhile is not there."""
        try:
            folder = _opened_below(root, parts)
        except OSError:
            return
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self._add(root, parts, entry)
                    yield
        except OSError:
            return
        finally:
            os.close(folder)

    def _add(self, root: Path, parts: tuple[str, ...], entry: os.DirEntry[str]) -> None:
        self.files += 1
        try:
            about = entry.stat(follow_symlinks=False)
        except OSError:
            return
        # A file with several names is counted once over all of them.
        self.size += about.st_blocks * _BLOCK // max(1, about.st_nlink if stat.S_ISREG(about.st_mode) else 1)
        if stat.S_ISDIR(about.st_mode):
            self._left.append((root, (*parts, entry.name)))
        if self.files > FILES_MAX or len(self._left) > FOLDERS_MAX:
            self.problem = f"more than {FILES_MAX} files or {FOLDERS_MAX} folders"
        elif len(parts) >= DEPTH_MAX:
            self.problem = f"folders nested deeper than {DEPTH_MAX}"


def _opened_below(root: Path, parts: tuple[str, ...]) -> int:
    """A folder below a root, following no link. Raises OSError."""
    folder = os.open(root, _FOLDER)
    for part in parts:
        try:
            below = os.open(part, _FOLDER, dir_fd=folder)
        finally:
            os.close(folder)
        folder = below
    return folder


@dataclass(slots=True)
class _Watched:
    """A running kernel: the walk under way, and what the last complete one found."""

    output: KeptOutput
    walk: Measurement
    size: int = 0

    @property
    def least(self) -> int:
        """The least it has: by the last complete walk, or by the one under way."""
        return max(self.size, self.walk.size)


@dataclass(slots=True)
class DiskUsage:
    """Checks the kernels of one machine; `end` ends one, by folder name and reason."""

    layout: KernelLayout
    clock: Clock
    end: Callable[[str, str], None]
    log: Callable[[str], None]
    _kernels: dict[str, _Watched] = field(default_factory=dict)
    # Kernels that have ended: they are not read again.
    _over: set[str] = field(default_factory=set)
    _turn: int = 0

    @classmethod
    def of_kernels(cls, root: Path, clock: Clock, log: Callable[[str], None]) -> DiskUsage:
        """Checks the kernels below a root, and ends those beyond a limit at once."""
        layout = KernelLayout(root.absolute())
        stopper = Stopper(layout, Observer(layout, clock))
        return cls(layout, clock, lambda name, reason: stopper.stop(name, 0.0, reason), log)

    def check_logged(self) -> None:
        """Check; an error of the disk is logged, and the next check tries again."""
        try:
            self.check()
        except OSError as problem:
            self.log(f"disk space of kernels could not be measured: {problem}")

    def check(self) -> None:
        """Measure for a while, and end what is beyond a limit."""
        self._refresh()
        began_ms = self.clock.monotonic_ms()
        names = list(self._kernels)
        names = names[self._turn % len(names) :] + names[: self._turn % len(names)] if names else []
        self._turn += 1
        pending = dict.fromkeys(names)
        while pending and self.clock.monotonic_ms() - began_ms < BUDGET_MS:
            for name in list(pending):
                if self._advance(self._kernels[name]):
                    del pending[name]
        for name, reason in self._excess().items():
            self._kernels.pop(name)
            self.log(f"kernel {name} is ended: {reason}")
            self.end(name, f"{DISK_LIMIT}: {reason}")

    def _refresh(self) -> None:
        """Follow the kernels that run now and have a limit."""
        names = self.layout.names()
        self._over &= set(names)
        outputs, followed = OutputFolders(self.layout), dict[str, _Watched]()
        for name in names:
            output = None if name in self._over else outputs.one(name)
            if output is None:
                continue
            if output.ended_ms is not None:
                self._over.add(name)
            elif output.terms.kernel_disk_max or output.terms.owner_disk_max:
                followed[name] = self._kernels.get(name) or _Watched(output, self._walk(output))
        self._kernels = followed

    def _walk(self, output: KeptOutput) -> Measurement:
        place = self.layout.kernels / output.name
        upload = self.layout.upload_folder(output.session_id)
        return Measurement([place / WORK, place / TEMPORARY, self.layout.output_folder(output.name), upload])

    def _advance(self, kernel: _Watched) -> bool:
        """Go on with a walk; whether it is complete, or has found too much."""
        limit = kernel.output.terms.kernel_disk_max
        if not kernel.walk.advance():
            return bool(limit) and kernel.walk.size > limit
        if not kernel.walk.problem:
            kernel.size = kernel.walk.size
            if not limit or kernel.size <= limit:
                kernel.walk = self._walk(kernel.output)
        return True

    def _excess(self) -> dict[str, str]:
        """The kernels to end, with the reasons: of an owner with too much, the largest."""
        due: dict[str, str] = {}
        owners: defaultdict[str, list[str]] = defaultdict(list)
        for name, one in self._kernels.items():
            limit = one.output.terms.kernel_disk_max
            if one.walk.problem:
                due[name] = f"{one.walk.problem} in its folders"
            elif limit and one.least > limit:
                due[name] = f"its folders have more than {limit} bytes"
            else:
                owners[one.output.terms.owner].append(name)
        for theirs in owners.values():
            limit = self._kernels[theirs[-1]].output.terms.owner_disk_max
            if limit and sum(self._kernels[one].least for one in theirs) > limit:
                largest = max(theirs, key=lambda one: (self._kernels[one].least, one))
                due[largest] = f"all kernels of its owner here have more than {limit} bytes, and it has most"
        return due
