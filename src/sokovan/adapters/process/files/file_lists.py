"""Lists the regular files below an open folder, following no link."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from sokovan.adapters.process.files.file_access import Identity, identity_of
from sokovan.domain.errors import quoted
from sokovan.domain.owners.uploads import DEPTH_MAX, is_upload_path
from sokovan.ports.kernel_files import FileInfo, FileRefused

NAMED_MAX = 5
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(slots=True)
class FileTree:
    """The files of a folder, and how many entries cannot be copied.

    Of `entries_max` entries at most; more raise FileRefused.
    """

    entries_max: int
    hidden: Collection[Identity] = ()
    files: list[FileInfo] = field(default_factory=list)
    left_out: int = 0
    left_out_names: list[str] = field(default_factory=list)
    _seen: int = 0

    def read(self, folder: int) -> None:
        """Read everything below a folder; the files are then in the order of paths."""
        self._read(folder, "", 0)
        self.files.sort(key=lambda one: one.path)

    def _read(self, folder: int, above: str, depth: int) -> None:
        for name in sorted(self._names(folder)):
            path = f"{above}{name}"
            with suppress(FileNotFoundError):
                about = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if not is_upload_path(path):
                    self._leave_out(path, "unprintable or too long")
                elif stat.S_ISREG(about.st_mode):
                    self.files.append(file_info(path, about))
                elif not stat.S_ISDIR(about.st_mode):
                    self._leave_out(path, "a link" if stat.S_ISLNK(about.st_mode) else "no regular file")
                elif depth >= DEPTH_MAX or identity_of(about) in self.hidden:
                    self._leave_out(path, "hidden from kernels")
                else:
                    self._enter(folder, name, path, depth)

    def _names(self, folder: int) -> Iterator[str]:
        with os.scandir(folder) as entries:
            for entry in entries:
                self._seen += 1
                if self._seen > self.entries_max:
                    raise FileRefused(
                        f"the folder has more than {self.entries_max} files, the limit of a copy",
                        hint="copy smaller folders, or pack the files into one",
                    )
                yield entry.name

    def _enter(self, folder: int, name: str, path: str, depth: int) -> None:
        try:
            below = os.open(name, _FOLDER, dir_fd=folder)
        except FileNotFoundError:
            return
        except OSError as error:
            self._leave_out(path, str(error.strerror))
            return
        try:
            self._read(below, f"{path}/", depth + 1)
        finally:
            os.close(below)

    def _leave_out(self, path: str, reason: str) -> None:
        self.left_out += 1
        if len(self.left_out_names) < NAMED_MAX:
            self.left_out_names.append(f"{quoted(path)} ({reason})")


def file_info(path: str, about: os.stat_result) -> FileInfo:
    """A regular file by its attributes."""
    return FileInfo(path, about.st_size, about.st_mtime_ns // 1_000_000, bool(about.st_mode & stat.S_IXUSR))
