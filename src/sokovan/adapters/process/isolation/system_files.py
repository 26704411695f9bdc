"""Copies of the files of /etc that kernels see, bound as one folder.

Binding every file by itself took more than half of the time of a sandbox's setup, since
bubblewrap reads the table of mounts for each.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

ETC = Path("/etc")
# How long a look at the files counts; a change reaches kernels with the first start after that.
LOOK_S = 1.0
COPY_BYTES_MAX = 4 << 20
_FOLDER_MODE, _FILE_MODE = 0o755, 0o644


def look() -> int:
    """A number that changes when the machine is to be looked at again."""
    return int(time.monotonic() / LOOK_S)


class SystemFiles:
    """Copies below `folder`; what not everyone may read is bound by itself.

    Folders and large files are bound by themselves, too. Kernels that run already see
    changes, because a file is replaced in the folder. The folder is never removed: kernels
    of an earlier agent may have it bound.
    """

    def __init__(self, folder: Path, names: Sequence[str], *, source: Path = ETC) -> None:
        self._folder, self._names, self._source = folder, names, source
        self._lock = threading.Lock()
        self._copied: dict[str, tuple[int, int, int]] = {}
        self._looked_s = 0.0
        self._options: list[str] = []

    def options(self) -> list[str]:
        """The bubblewrap options that show the files at /etc."""
        with self._lock:
            now_s = time.monotonic()
            if not self._options or now_s - self._looked_s >= LOOK_S:
                try:
                    self._options = self._looked()
                except OSError:  # a full disk: nothing may depend on a copy
                    self._copied.clear()
                    self._options = bound_files(self._names, source=self._source)
                self._looked_s = now_s
            return self._options

    def _looked(self) -> list[str]:
        self._folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)
        self._folder.chmod(_FOLDER_MODE)
        bound: list[str] = []
        for name in self._names:
            # Links are resolved: resolv.conf and localtime are often links out of /etc.
            source = os.path.realpath(self._source / name)
            if not self._shows_copy(name, source):
                bound += ["--ro-bind", source, f"{ETC}/{name}"]
        return ["--ro-bind", str(self._folder), str(ETC), *bound]

    def _shows_copy(self, name: str, source: str) -> bool:
        """Whether the folder is right for this name; if not, it has a place to bind to."""
        target = self._folder / name
        try:
            found = os.stat(source)  # noqa: PTH116  # a resolved path
        except OSError:
            self._copied.pop(name, None)
            if target.is_file():
                target.unlink()
            return True
        _make_folders(target.parent, self._folder)
        if stat.S_ISDIR(found.st_mode):
            _make_folders(target, self._folder)
            return False
        if not stat.S_ISREG(found.st_mode) or not found.st_mode & stat.S_IROTH or found.st_size > COPY_BYTES_MAX:
            target.touch(_FILE_MODE)
            return False
        version = found.st_ino, found.st_mtime_ns, found.st_size
        if self._copied.get(name) != version or not target.is_file():
            _replace(target, Path(source).read_bytes())
            self._copied[name] = version
        return True


def bound_files(names: Sequence[str], *, source: Path = ETC) -> list[str]:
    """The options that bind each of these files and folders by itself."""
    options: list[str] = []
    for name in names:
        place = source / name
        options += ["--ro-bind", os.path.realpath(place), f"{ETC}/{name}"] if place.exists() else []
    return options


def _make_folders(folder: Path, root: Path) -> None:
    if folder.is_dir():
        return
    missing = [one for one in (folder, *folder.parents) if root in one.parents and not one.is_dir()]
    for one in reversed(missing):
        one.mkdir(mode=_FOLDER_MODE, exist_ok=True)
        one.chmod(_FOLDER_MODE)


def _replace(target: Path, content: bytes) -> None:
    handle, fresh = tempfile.mkstemp(dir=target.parent, prefix=".")
    try:
        with open(handle, "wb") as file:  # noqa: PTH123  # a descriptor, not a path
            file.write(content)
            os.fchmod(handle, _FILE_MODE)
        Path(fresh).replace(target)
    except OSError:
        with contextlib.suppress(OSError):
            Path(fresh).unlink()
        raise
