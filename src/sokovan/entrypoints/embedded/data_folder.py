"""The folder that an embedded server keeps everything in, private to its user."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sokovan.adapters.local.random_source import secret_text
from sokovan.domain.errors import SokovanError

PRIVATE_FOLDER = 0o700
PRIVATE_FILE = 0o600
OF_OTHERS = 0o077
# What only a server leaves in a folder.
STORE, LOCK = "state.db", "up.lock"
SIGNS = (STORE, LOCK)
FOLDERS = ("agent", "logs")


class DataFolderUnusable(SokovanError):
    """The data folder cannot be made, read or written."""

    code = "data-folder-unusable"
    hint = "name a folder of your own with --data, on a disk that has space"


class StoreBroken(DataFolderUnusable):
    """The store in the data folder is no store, or can no longer be read."""

    code = "store-broken"
    hint = "put back a copy of the file; or move it away and begin anew: what it held is lost then"


class AlreadyUp(SokovanError):
    """A server runs on this data folder already; `about` is what it says of itself."""

    code = "already-up"
    hint = "use the server that runs, stop it first, or name another folder with --data"

    def __init__(self, about: Mapping[str, Any]) -> None:
        self.about = about
        super().__init__(f"sokovan is up already at {about.get('url', 'an address that it did not leave')}")


def data_home(environment: Mapping[str, str]) -> Path:
    """Where the data of an embedded server lies, if nobody says otherwise."""
    folder = Path(environment.get("XDG_DATA_HOME", ""))
    # A relative path there is to be ignored, says the standard.
    base = folder if folder.is_absolute() else Path(environment.get("HOME", "/")) / ".local" / "share"
    return base / "sokovan"


def server_of(root: Path) -> Mapping[str, Any] | None:
    """What the server that is up on a folder says of itself; None if none is.

    For who asks before loading a server. The lock is tried only where somebody seems to
    hold it, since whoever tries a lock holds it for a moment.
    """
    found = _read_about(root)
    if not _is_alive(found.get("pid")):
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


class DataFolder:
    """One server's files: `state.db`, `agent/`, `logs/`, secrets, and the lock."""

    def __init__(self, root: Path) -> None:
        self.root = root
        try:
            _make_private(root)
            for name in FOLDERS:
                (root / name).mkdir(exist_ok=True, mode=PRIVATE_FOLDER)
        except OSError as error:
            raise DataFolderUnusable(f"{root}: {error.strerror or error}") from error

    @property
    def store_url(self) -> str:
        """The address of the store in this folder."""
        return f"sqlite:///{self.root / STORE}"

    def secret(self, name: str, size: int = 32) -> str:
        """A secret of this folder, made when it is first asked for."""
        path = self.root / name
        with contextlib.suppress(FileNotFoundError):
            return path.read_text(encoding="ascii").strip()
        self.write_private(name, secret_text(size))
        return path.read_text(encoding="ascii").strip()

    def read(self, name: str) -> str | None:
        """What a small file of this folder says; None if it is not there."""
        with contextlib.suppress(FileNotFoundError):
            return (self.root / name).read_text(encoding="utf-8").strip()
        return None

    def write_private(self, name: str, text: str) -> None:
        """Replace a small file whole; nobody else may read it. Raises DataFolderUnusable."""
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

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Be the one server of this folder. Raises AlreadyUp, DataFolderUnusable.

        The lock goes with the process, so that a killed server leaves none behind.
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
        """What the server of this folder last said of itself."""
        return _read_about(self.root)

    def check_store(self) -> None:
        """Look whether the store can be read at all. Raises StoreBroken.

        Damage deep inside is not seen here: reading everything takes too long.
        """
        import sqlite3  # noqa: PLC0415  # who only asks for a server has no need of it

        path = self.root / STORE
        if not path.exists():
            return
        try:
            with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as store:
                store.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except sqlite3.DatabaseError as error:
            raise StoreBroken(f"{path} is broken: {error}") from error

    def _require_writable(self) -> None:
        for path in (self.root, *(self.root / name for name in (*FOLDERS, STORE, LOCK))):
            if path.exists() and not os.access(path, os.W_OK):
                raise DataFolderUnusable(
                    f"{path} cannot be written",
                    hint=f"give it back to your user (chmod u+w {path}), or name another folder with --data",
                )


def _read_about(root: Path) -> Mapping[str, Any]:
    try:
        found = json.loads((root / "up.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_alive(pid: object) -> bool:
    if not isinstance(pid, int) or pid < 1:
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def _make_private(root: Path) -> None:
    """Make a folder for its owner alone. Raises DataFolderUnusable, OSError.

    One that is there already and open to others may hold more than our files: it is
    closed only if a server has had it before.
    """
    if not root.is_dir():
        root.mkdir(parents=True, mode=PRIVATE_FOLDER)
        return
    mode = stat.S_IMODE(root.stat().st_mode)
    if not mode & OF_OTHERS:
        return
    if not any((root / name).exists() for name in SIGNS):
        raise DataFolderUnusable(
            f"{root} is open to others (mode {mode:04o}), and no server has used it yet",
            hint=f"name a folder that is not there yet, or close this one first: chmod 700 {root}",
        )
    root.chmod(PRIVATE_FOLDER)
