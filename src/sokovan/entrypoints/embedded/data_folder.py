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

from sokovan.adapters.local.chance import secret_text
from sokovan.domain.errors import SokovanError

PRIVATE_FOLDER = 0o700
PRIVATE_FILE = 0o600
OF_OTHERS = 0o077
# What only a server leaves in a folder.
SIGNS = ("state.db", "up.lock")


class DataFolderUnusable(SokovanError):
    """The data folder cannot be made, read or written."""

    code = "data-folder-unusable"
    hint = "name a folder of your own with --data, on a disk that has space"


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


class DataFolder:
    """One server's files: `state.db`, `agent/`, `logs/`, secrets, and the lock."""

    def __init__(self, root: Path) -> None:
        self.root = root
        try:
            _make_private(root)
            for name in ("agent", "logs"):
                (root / name).mkdir(exist_ok=True, mode=PRIVATE_FOLDER)
        except OSError as error:
            raise DataFolderUnusable(f"{root}: {error.strerror or error}") from error

    @property
    def store_url(self) -> str:
        """The address of the store in this folder."""
        return f"sqlite:///{self.root / 'state.db'}"

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
        """Be the one server of this folder. Raises AlreadyUp.

        The lock goes with the process, so that a killed server leaves none behind.
        """
        handle = os.open(self.root / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
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
        try:
            found = json.loads(self.read("up.json") or "{}")
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


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
