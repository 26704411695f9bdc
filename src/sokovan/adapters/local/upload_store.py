"""The UploadStore port on a folder of this machine.

Each owner has a folder: `blobs/ab/DIGEST` are complete blobs, `incoming/DIGEST` those that
are being sent, `uploads/DIGEST` an empty file for each complete upload, whose time is its
last use. A blob appears under its name only after its content was checked.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, TypeVar

from sokovan.domain.errors import InvalidSpec, ObjectNotFound
from sokovan.domain.owners.uploads import (
    UploadFile,
    UploadLimits,
    UploadManifest,
    UploadRefused,
    is_digest,
    owner_key,
    require_digest,
)
from sokovan.ports.uploads import UploadState

T = TypeVar("T")

PRIVATE_FOLDER = 0o700
PRIVATE_FILE = 0o600
_CHUNK = 1 << 20
_FOLDERS = ("blobs", "incoming", "uploads")


class LocalUploads:
    """Uploads below `root`; one process writes there, any number of its threads.

    With `shared`, several processes of one server do, each with `shared`.
    """

    def __init__(self, root: Path, limits: UploadLimits | None = None, *, shared: bool = False) -> None:
        self._root, self._limits, self._shared = root, limits or UploadLimits(), shared
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        # Bytes and blobs of each owner, counted at the first use.
        self._usage: dict[str, tuple[int, int]] = {}

    async def put(self, user: str, digest: str, *, size: int, offset: int, data: bytes) -> int:
        """Append to a blob; returns how many of its bytes the store has."""
        require_digest(digest)
        return await self._locked(
            owner_key(user), lambda owner: self._put(owner, digest, size, offset=offset, data=data)
        )

    async def keep(self, reference: str, digest: str, *, size: int, offset: int, data: bytes) -> int:
        """Append to a blob of a copied upload, as `put`."""
        key, _ = _parts_of(reference)
        require_digest(digest)
        return await self._locked(key, lambda owner: self._put(owner, digest, size, offset=offset, data=data))

    async def complete(self, reference: str) -> bool:
        """Complete a copied upload; whether all of its files are here."""
        key, digest = _parts_of(reference)
        state = await self._locked(key, lambda owner: self._check(owner, digest))
        return not state.missing

    @staticmethod
    def require_reference(reference: str) -> None:
        """Raise ObjectNotFound for what is no reference of an upload."""
        _parts_of(reference)

    async def check(self, user: str, digest: str) -> UploadState:
        """Complete the upload whose manifest is this blob, unless files are missing."""
        require_digest(digest)
        return await self._locked(owner_key(user), lambda owner: self._check(owner, digest))

    async def use(self, user: str, digest: str) -> UploadManifest:
        """Note that a session uses an upload."""
        return await self._locked(owner_key(user), lambda owner: self._complete(owner, digest, touch=True))

    async def manifest(self, reference: str) -> UploadManifest:
        """The manifest of a complete upload."""
        key, digest = _parts_of(reference)
        return await self._locked(key, lambda owner: self._complete(owner, digest, touch=False))

    async def read(self, reference: str, digest: str, *, offset: int, limit: int) -> bytes:
        """A part of a blob."""
        key, _ = _parts_of(reference)
        require_digest(digest)
        return await asyncio.to_thread(_read, _blob(self._root / key, digest), digest, offset, limit)

    async def collect(self, used: Collection[str]) -> int:
        """Remove what was not used within the retention."""
        kept = frozenset(used)
        keys = await asyncio.to_thread(lambda: sorted(each.name for each in _entries(self._root) if each.is_dir()))
        return sum([await self._locked(key, lambda owner: self._collect(owner, kept)) for key in keys])

    async def _locked(self, key: str, work: Callable[[Path], T]) -> T:
        def run() -> T:
            with self._locks[key], self._between_processes(key):
                return work(self._root / key)

        return await asyncio.to_thread(run)

    @contextlib.contextmanager
    def _between_processes(self, key: str) -> Iterator[None]:
        """Keep other processes out, and count anew what they may have stored since."""
        if not self._shared:
            yield
            return
        self._root.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        handle = os.open(self._root / f".{key}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            noted = os.pread(handle, 64, 0).split()
            self._usage.pop(key, None)
            if len(noted) == 2:
                self._usage[key] = int(noted[0]), int(noted[1])
            try:
                yield
            finally:
                used = self._usage.get(key)
                os.ftruncate(handle, 0)
                os.pwrite(handle, b"" if used is None else b"%d %d" % used, 0)
        finally:
            os.close(handle)

    def _put(self, owner: Path, digest: str, size: int, *, offset: int, data: bytes) -> int:
        blob, incoming = _blob(owner, digest), owner / "incoming" / digest
        if blob.exists():
            os.utime(blob)
            return size
        for name in _FOLDERS:
            (owner / name).mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        has = incoming.stat().st_size if incoming.exists() else 0
        if offset != has:
            return has
        if size > self._limits.bytes_max or has + len(data) > size:
            raise UploadRefused(f"{max(size, has + len(data))} bytes are more than a file may have here")
        self._charge(owner, len(data), 0 if has else 1)
        handle = os.open(incoming, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
        with open(handle, "ab") as stream:  # noqa: PTH123  # a descriptor, not a path
            stream.write(data)
            stream.flush()
            if has + len(data) == size:
                os.fsync(handle)
        if has + len(data) == size:
            self._finish(owner, incoming, blob)
        return has + len(data)

    def _finish(self, owner: Path, incoming: Path, blob: Path) -> None:
        found, size = _digest_of(incoming), incoming.stat().st_size
        if found != blob.name:
            incoming.unlink()
            self._charge(owner, -size, -1)
            raise InvalidSpec(what="upload", field="digest", value=blob.name, problem=f"the content has {found}")
        blob.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        incoming.rename(blob)

    def _charge(self, owner: Path, size: int, blobs: int) -> None:
        """Count stored bytes and blobs. Raises UploadRefused beyond the owner's limits."""
        used, count = self._usage.get(owner.name) or _usage(owner)
        self._usage[owner.name] = used, count
        if size > 0 and used + size > self._limits.owner_bytes_max:
            raise UploadRefused(f"your uploads would take more than {self._limits.owner_bytes_max} bytes")
        if blobs > 0 and count + blobs > self._limits.owner_blobs_max:
            raise UploadRefused(f"your uploads would have more than {self._limits.owner_blobs_max} files")
        self._usage[owner.name] = used + size, count + blobs

    def _check(self, owner: Path, digest: str) -> UploadState:
        manifest = self._manifest(owner, digest)
        manifest.require_within(self._limits)
        missing: dict[str, int] = {}
        for one in manifest.files:
            try:
                os.utime(_blob(owner, one.digest))  # it is not collected before the upload is complete
            except FileNotFoundError:
                missing[one.digest] = one.size
        used, count = self._usage.get(owner.name) or _usage(owner)
        if used + sum(missing.values()) > self._limits.owner_bytes_max:
            raise UploadRefused(f"with it, your uploads would take more than {self._limits.owner_bytes_max} bytes")
        if count + len(missing) > self._limits.owner_blobs_max:
            raise UploadRefused(f"with it, your uploads would have more than {self._limits.owner_blobs_max} files")
        if not missing:
            os.utime(_blob(owner, digest))
            (owner / "uploads" / digest).touch(PRIVATE_FILE)
        return UploadState(manifest, tuple(missing))

    def _complete(self, owner: Path, digest: str, *, touch: bool) -> UploadManifest:
        marker = owner / "uploads" / digest
        if not is_digest(digest) or not marker.exists():
            raise ObjectNotFound(what="upload", name=digest, hint="send it first: sokovan run --upload")
        if touch:
            marker.touch()
        return self._manifest(owner, digest)

    def _manifest(self, owner: Path, digest: str) -> UploadManifest:
        path = _blob(owner, digest)
        try:
            if path.stat().st_size > self._limits.manifest_bytes_max:
                raise UploadRefused(f"the manifest has more than {self._limits.manifest_bytes_max} bytes")
            text = path.read_bytes()
        except FileNotFoundError:
            raise ObjectNotFound(what="upload", name=digest) from None
        return read_manifest(text)

    def _collect(self, owner: Path, used: frozenset[str]) -> int:
        oldest_s, removed = time.time() - self._limits.retention_s, 0
        kept: set[str] = set()
        for marker in _entries(owner / "uploads"):
            if marker.stat().st_mtime < oldest_s and f"{owner.name}/{marker.name}" not in used:
                (owner / "uploads" / marker.name).unlink()
                continue
            with contextlib.suppress(ObjectNotFound, InvalidSpec):
                kept |= {marker.name, *(one.digest for one in self._manifest(owner, marker.name).files)}
        places = [
            *_entries(owner / "incoming"),
            *(blob for part in _entries(owner / "blobs") for blob in _entries(Path(part.path))),
        ]
        for entry in places:
            if entry.name not in kept and entry.stat().st_mtime < oldest_s:
                os.unlink(entry.path)  # noqa: PTH108  # an entry has a string
                removed += 1
        self._usage.pop(owner.name, None)
        return removed


def read_manifest(text: bytes) -> UploadManifest:
    """A manifest from its JSON text. Raises InvalidSpec."""
    try:
        document = json.loads(text)
        return UploadManifest(tuple(_file(entry) for entry in document["files"]))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        problem = f"is not a manifest: {type(error).__name__}"
        raise InvalidSpec(what="upload", field="files", value="", problem=problem) from error


def _file(entry: Any) -> UploadFile:
    if not isinstance(entry, dict) or not entry.keys() <= {"path", "digest", "size", "executable"}:
        raise TypeError("not a file")
    executable = entry.get("executable", False)
    return UploadFile(entry["path"], entry["digest"], entry["size"], executable=executable is True)


def _parts_of(reference: str) -> tuple[str, str]:
    key, _, digest = reference.partition("/")
    if len(key) != 32 or not key.isalnum() or not is_digest(digest):
        raise ObjectNotFound(what="upload", name=reference[:100])
    return key, digest


def _blob(owner: Path, digest: str) -> Path:
    return owner / "blobs" / digest[:2] / digest


def _read(path: Path, digest: str, offset: int, limit: int) -> bytes:
    try:
        with path.open("rb") as stream:
            stream.seek(offset)
            return stream.read(limit)
    except FileNotFoundError:
        raise ObjectNotFound(what="blob", name=digest) from None


def _digest_of(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest()


def _usage(owner: Path) -> tuple[int, int]:
    sizes = [entry.stat().st_size for entry in _entries(owner / "incoming")]
    sizes += [blob.stat().st_size for part in _entries(owner / "blobs") for blob in _entries(Path(part.path))]
    return sum(sizes), len(sizes)


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        yield from entries
