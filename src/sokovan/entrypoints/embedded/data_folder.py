"""The private data folder of an embedded server."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sokovan.adapters.local.random_source import secret_text
from sokovan.adapters.process.shim.processes import is_alive
from sokovan.domain.errors import SokovanError

PRIVATE_FOLDER = 0o700
PRIVATE_FILE = 0o600
GROUP_AND_OTHERS = 0o077
# Files that identify the folder of a server.
STORE, LOCK = "state.db", "up.lock"
SERVER_FILES = (STORE, LOCK)
FOLDERS = ("agent", "logs")


class DataFolderUnusable(SokovanError):
    """The data folder cannot be created, read or written."""

    code = "data-folder-unusable"
    hint = "choose a folder that you own with --data, on a disk with free space"


class StoreBroken(DataFolderUnusable):
    """The store in the data folder is not a database, or is corrupt."""

    code = "store-broken"
    hint = "restore the file from a backup, or move it away and start again, which loses its contents"


class AlreadyUp(SokovanError):
    """A server already uses this data folder; `about` is its address file."""

    code = "already-up"
    hint = "use the running server, stop it first, or choose another folder with --data"

    def __init__(self, about: Mapping[str, Any]) -> None:
        self.about = about
        super().__init__(f"sokovan is up already at {about.get('url', 'an unknown address')}")


def data_home(environment: Mapping[str, str]) -> Path:
    """The default data folder of an embedded server."""
    folder = Path(environment.get("XDG_DATA_HOME", ""))
    # The XDG standard requires relative paths to be ignored.
    base = folder if folder.is_absolute() else Path(environment.get("HOME", "/")) / ".local" / "share"
    return base / "sokovan"


def server_of(root: Path) -> Mapping[str, Any] | None:
    """The address file of the server that runs on a folder; None if none runs.

    Cheap enough to call before the server is imported. The lock is tried only if the
    process that wrote the file is alive, because a successful try holds the lock for a
    moment; the start time distinguishes it from a process that reused the pid.
    """
    found = _read_about(root)
    pid, start = found.get("pid"), found.get("start")
    if not isinstance(pid, int) or not isinstance(start, int) or not is_alive(pid, start):
        return None
    try:
        handle = os.open(root / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return found
    finally:
        os.close(handle)
    return None


class PrivateFolder:
    """Small files of a server, for its owner only. Raises DataFolderUnusable."""

    def __init__(self, root: Path, folders: Sequence[str] = ()) -> None:
        self.root = root
        try:
            _make_private(root)
            for name in folders:
                (root / name).mkdir(exist_ok=True, mode=PRIVATE_FOLDER)
        except OSError as error:
            raise DataFolderUnusable(f"{root}: {error.strerror or error}") from error

    def secret(self, name: str, size: int = 32) -> str:
        """A secret of this folder, created on first use."""
        path = self.root / name
        with contextlib.suppress(FileNotFoundError):
            return path.read_text(encoding="ascii").strip()
        self.write_private(name, secret_text(size))
        return path.read_text(encoding="ascii").strip()

    def read(self, name: str) -> str | None:
        """The text of a small file of this folder; None if it does not exist."""
        with contextlib.suppress(FileNotFoundError):
            return (self.root / name).read_text(encoding="utf-8").strip()
        return None

    def write_private(self, name: str, text: str) -> None:
        """Replace a small private file atomically. Raises DataFolderUnusable."""
        temporary = self.root / f".{name}.new"
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, PRIVATE_FILE)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.root / name)
        except OSError as error:
            raise DataFolderUnusable(f"{self.root / name}: {error.strerror or error}") from error


class DataFolder(PrivateFolder):
    """One server's files: `state.db`, `agent/`, `logs/`, secrets, and the lock."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, FOLDERS)

    @property
    def store_url(self) -> str:
        """The address of the store in this folder."""
        return f"sqlite:///{self.root / STORE}"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder's lock. Raises AlreadyUp, DataFolderUnusable.

        The kernel releases the lock with the process, so that a killed server leaves none.
        """
        self._require_writable()
        try:
            handle = os.open(self.root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        except OSError as error:
            raise DataFolderUnusable(f"{self.root / LOCK}: {error.strerror or error}") from error
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise AlreadyUp(self.about()) from None
            yield
        finally:
            os.close(handle)

    def about(self) -> Mapping[str, Any]:
        """The address file of the last server of this folder."""
        return _read_about(self.root)

    def check_store(self) -> None:
        """Check that the store can be opened. Raises StoreBroken.

        Does not detect damage inside the file, because reading all of it takes too long.
        """
        import sqlite3  # noqa: PLC0415  # not needed by `server_of`

        path = self.root / STORE
        if not path.exists():
            return
        try:
            with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as store:
                store.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except sqlite3.DatabaseError as error:
            raise StoreBroken(f"{path} is corrupt: {error}") from error

    def _require_writable(self) -> None:
        for path in (self.root, *(self.root / name for name in (*FOLDERS, STORE, LOCK))):
            if path.exists() and not os.access(path, os.W_OK):
                raise DataFolderUnusable(
                    f"{path} is not writable",
                    hint=f"make it writable (chmod u+w {path}), or choose another folder with --data",
                )


def _read_about(root: Path) -> Mapping[str, Any]:
    try:
        found = json.loads((root / "up.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _make_private(root: Path) -> None:
    """Create a folder for its owner only. Raises DataFolderUnusable, OSError.

    An existing folder that others can access may contain other files: its mode is
    changed only if a server has used it before.
    """
    if not root.is_dir():
        root.mkdir(parents=True, mode=PRIVATE_FOLDER)
        return
    mode = stat.S_IMODE(root.stat().st_mode)
    if not mode & GROUP_AND_OTHERS:
        return
    if not any((root / name).exists() for name in SERVER_FILES):
        raise DataFolderUnusable(
            f"{root} is accessible to other users (mode {mode:04o}), and no server has used it yet",
            hint=f"choose a folder that does not exist yet, or restrict this one first: chmod 700 {root}",
        )
    root.chmod(PRIVATE_FOLDER)
