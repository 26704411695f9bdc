"""The folder of a proxy process: its lock, its table, its usage with its identity."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from sokovan.adapters.local.atomic_file import remove_unfinished, write_whole
from sokovan.adapters.local.random_source import secret_text
from sokovan.domain.errors import SokovanError
from sokovan.entrypoints.proxies.folder_lock import LOCK_FILE
from sokovan.proxy.accounts.usage_ledger import UsageLedger
from sokovan.proxy.control.control_link import ProxyIdentity
from sokovan.proxy.proxy_server import ProxyServer
from sokovan.wire.serving.proxy_reports import UsageEntry
from sokovan.wire.serving.serving_codec import MalformedMessage, decode_update

TABLE_FILE, USAGE_FILE = "table.json", "usage.json"
# The most processes that drain while the next one serves.
FOLDERS_MAX = 8
T = TypeVar("T")


class ProxyFolderInUse(SokovanError):
    """Another process uses the folder; two would give numbers of usage twice."""

    code = "proxy-folder-in-use"
    hint = "stop the other proxy, or choose another folder with --root"


class _Spool(msgspec.Struct, frozen=True):
    """The usage file: identity, last number, entries not stored by the manager."""

    proxy_id: str
    incarnation: int
    sequence: int = 0
    entries: tuple[UsageEntry, ...] = ()


class ProxyFolder:
    """The files of one proxy process, which holds their lock.

    Identity and numbers are in one file, so that they are lost together or not at all.
    Raises ProxyFolderInUse.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = lock_folder(root)
        self._path = root / LOCK_FILE
        self._table, self._usage = root / TABLE_FILE, root / USAGE_FILE
        for path in (self._table, self._usage):
            remove_unfinished(path)
        spool = self._read_spool()
        self.identity = ProxyIdentity(spool.proxy_id, spool.incarnation + 1)
        self.ledger = UsageLedger(sequence=spool.sequence, entries=spool.entries)
        self.save_usage()

    @property
    def exists(self) -> bool:
        """Whether the folder is still there."""
        return self._path.exists()

    def close(self) -> None:
        """Release the lock."""
        os.close(self._lock)

    def _read_spool(self) -> _Spool:
        return _spool(self._usage) or _Spool(proxy_id=f"proxy-{secret_text(12)}", incarnation=0)

    def save_usage(self) -> None:
        """Write identity and usage durably. Raises OSError."""
        spool = _Spool(
            self.identity.proxy_id, self.identity.incarnation, self.ledger.sequence, tuple(self.ledger.entries)
        )
        write_whole(self._usage, msgspec.json.encode(spool))

    def save_table(self, content: bytes) -> None:
        """Write the table durably. Raises OSError."""
        write_whole(self._table, content)


def load_table(root: Path, server: ProxyServer, log: Callable[[str], None]) -> None:
    """Put the table in force that was saved last and is valid, if there is one.

    It may be of another process of the proxy, in a folder in this one.
    """
    for path in sorted(root.rglob(TABLE_FILE), key=_saved_ns, reverse=True):
        try:
            server.apply(decode_update(path.read_bytes()))
        except FileNotFoundError:
            continue
        except MalformedMessage as problem:
            log(f"the table on disk is not used: {problem}")
        else:
            return


def _saved_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def has_usage(root: Path) -> bool:
    """Whether a folder has usage that the manager has not stored."""
    spool = _spool(root / USAGE_FILE)
    return spool is not None and bool(spool.entries)


def _spool(path: Path) -> _Spool | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Spool)
    except (FileNotFoundError, msgspec.DecodeError, UnicodeError):
        return None


def in_free_folder(root: Path, use: Callable[[Path], T]) -> T:
    """Use a folder, or one in it while a process that drains uses that.

    Raises ProxyFolderInUse.
    """
    for path in (root, *(root / f"next-{number}" for number in range(1, FOLDERS_MAX))):
        with contextlib.suppress(ProxyFolderInUse):
            return use(path)
    raise ProxyFolderInUse(f"other proxies use {root} and the folders in it")


def lock_folder(root: Path) -> int:
    """Lock a folder; returns the open lock file. Raises ProxyFolderInUse."""
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = root / LOCK_FILE
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise ProxyFolderInUse(f"another proxy uses {path.parent}") from None
    os.ftruncate(handle, 0)
    os.pwrite(handle, str(os.getpid()).encode(), 0)
    return handle
