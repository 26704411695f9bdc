"""Removes output by its retention, and by the limits of sessions, owners and disk."""

from __future__ import annotations

import os
import secrets
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sokovan.adapters.process.files.file_lists import FileTree
from sokovan.adapters.process.launch.output_folders import KeptOutput, OutputFolders
from sokovan.adapters.process.launch.work_files import opened_below
from sokovan.adapters.process.layout import DISCARDED, KernelLayout, opened, remove_tree
from sokovan.ports.kernel_files import FileRefused

# More than a kernel can be expected to write; beyond that the output of a kernel is not kept.
ENTRIES_MAX = 1_000_000
# Below this, output is removed before its time, the oldest first, so that kernels can start.
FREE_BYTES_MIN = 2 << 30
COLLECT_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class _Usage:
    """The files of an ended output and their size, which do not change any more."""

    output: KeptOutput
    ended_ms: int
    files: int
    size: int

    @property
    def is_empty(self) -> bool:
        """Whether it never had a file; one that lost all to a limit says so for its time."""
        return not self.files and not self.output.dropped_files


class OutputCollector:
    """Enforces retention and limits on one machine; `log` takes lines of text."""

    def __init__(
        self,
        root: Path,
        log: Callable[[str], None],
        *,
        free_bytes: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
    ) -> None:
        self._layout = KernelLayout(root.absolute())
        self._outputs, self._log, self._free_bytes = OutputFolders(self._layout), log, free_bytes
        # Files and bytes of ended outputs by name.
        self._sizes: dict[str, tuple[int, int]] = {}

    def collect_logged(self, now_ms: int) -> None:
        """Collect; an error of the disk is logged, and the next collection tries again."""
        try:
            self.collect(now_ms)
        except OSError as problem:
            self._log(f"outputs could not be collected: {problem}")

    def collect(self, now_ms: int) -> int:
        """Remove what is due; returns how many outputs were removed whole."""
        for entry in list(os.scandir(self._layout.outputs)):
            if entry.name.startswith(DISCARDED):
                remove_tree(Path(entry.path))
        ended = [self._usage(one, one.ended_ms) for one in self._outputs.all() if one.ended_ms is not None]
        self._sizes = {one.output.name: (one.files, one.size) for one in ended}
        due = {one.output.name: one for one in ended if one.is_empty or now_ms >= (one.output.kept_until_ms or 0)}
        sessions = _by(lambda one: one.output.session_id, (one for one in ended if one.output.name not in due))
        within = [one for session in sessions for one in self._within_session(session)]
        oldest_first = sorted(within, key=lambda one: one.ended_ms)
        for theirs in _by(lambda one: one.output.terms.owner, oldest_first):
            # The newest output has the limit that is in effect.
            excess = sum(one.size for one in theirs) - theirs[-1].output.terms.owner_bytes_max
            due |= {one.output.name: one for one in _until(theirs, excess)}
        left = [one for one in oldest_first if one.output.name not in due]
        due |= {one.output.name: one for one in _until(left, self._missing_on_disk(due.values()))}
        return sum(self._remove(one) for one in due.values())

    def owner_bytes(self, owner: str) -> int:
        """The size of all ended outputs of an owner, as of the last collection."""
        names = [one.name for one in self._outputs.all() if one.terms.owner == owner]
        return sum(self._sizes.get(name, (0, 0))[1] for name in names)

    def _usage(self, output: KeptOutput, ended_ms: int) -> _Usage:
        if output.name in self._sizes:
            return _Usage(output, ended_ms, *self._sizes[output.name])
        try:
            files = self._files(output)
        except FileRefused as problem:
            self._log(f"output of session {output.session_id} is not kept: {problem}")
            files = []
        except OSError as problem:
            # It is kept for its time: an error of the disk proves nothing about its size.
            self._log(f"output of session {output.session_id} cannot be read: {problem}")
            return _Usage(output, ended_ms, files=1, size=0)
        return _Usage(output, ended_ms, len(files), sum(size for _, _, size in files))

    def _files(self, output: KeptOutput) -> list[tuple[int, str, int]]:
        """The files of an output: time, path and size on disk, the newest first."""
        tree = FileTree(ENTRIES_MAX)
        with opened(self._layout.output_folder(output.name)) as folder:
            tree.read(folder)
        return sorted(((one.modified_ms, one.path, one.size) for one in tree.files), reverse=True)

    def _within_session(self, session: Sequence[_Usage]) -> list[_Usage]:
        """Drop the oldest files of a session that exceed its limit."""
        allowed = max(one.output.terms.session_bytes_max for one in session)
        if sum(one.size for one in session) <= allowed:
            return list(session)
        found = [(file, one) for one in session for file in self._files(one.output)]
        left, dropped = allowed, defaultdict[str, list[tuple[str, int]]](list)
        for (_, path, size), one in sorted(found, key=lambda each: each[0], reverse=True):
            if size > left:
                dropped[one.output.name].append((path, size))
            else:
                left -= size
        return [self._without(one, dropped[one.output.name]) for one in session]

    def _without(self, one: _Usage, files: Sequence[tuple[str, int]]) -> _Usage:
        if not files:
            return one
        folder = self._layout.output_folder(one.output.name)
        for path, _ in files:
            parts = path.split("/")
            with opened_below(folder, parts[:-1]) as parent:
                os.unlink(parts[-1], dir_fd=parent)
        dropped = sum(size for _, size in files)
        self._log(f"output of session {one.output.session_id}: {len(files)} files, {dropped} bytes exceed its limit")
        self._outputs.note_dropped(one.output, len(files), dropped)
        left = _Usage(one.output, one.ended_ms, one.files - len(files), one.size - dropped)
        self._sizes[one.output.name] = (left.files, left.size)
        return left

    def _missing_on_disk(self, due: Iterable[_Usage]) -> int:
        return FREE_BYTES_MIN - self._free_bytes(self._layout.outputs) - sum(one.size for one in due)

    def _remove(self, one: _Usage) -> bool:
        """Remove an output whole; renamed first, so that it is never seen in part."""
        gone = self._layout.outputs / f"{DISCARDED}{secrets.token_hex(8)}"
        (self._layout.outputs / one.output.name).rename(gone)
        remove_tree(gone)
        self._sizes.pop(one.output.name, None)
        if one.size:
            self._log(f"output of session {one.output.session_id}: {one.size} bytes were removed")
        return not gone.exists()


def _by(key: Callable[[_Usage], str], usages: Iterable[_Usage]) -> list[list[_Usage]]:
    found: defaultdict[str, list[_Usage]] = defaultdict(list)
    for one in usages:
        found[key(one)].append(one)
    return list(found.values())


def _until(oldest_first: Sequence[_Usage], excess: int) -> list[_Usage]:
    """The oldest ones whose size is at least the excess."""
    due = []
    for one in oldest_first:
        if excess <= 0:
            break
        due.append(one)
        excess -= one.size
    return due
