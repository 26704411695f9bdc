"""Uploaded folders: manifests of files that are addressed by their content.

The files of an upload are blobs in the namespace of their owner. A manifest lists them
with their paths; its own digest is the id of the upload.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from sokovan.domain.checks import require_int
from sokovan.domain.errors import Conflict, InvalidSpec

PATH_BYTES_MAX = 1_024
DEPTH_MAX = 64
NAME_BYTES_MAX = 255
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


class UploadRefused(Conflict):
    """An upload exceeds a limit of the server."""

    code = "upload-refused"
    hint = "exclude files with .sokovanignore, or ask an administrator to raise the limit"


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """Limits of uploads; the last three hold for all uploads of an owner.

    An upload that no session has used for `retention_s` is removed.
    """

    files_max: int = 20_000
    bytes_max: int = 4 << 30
    manifest_bytes_max: int = 8 << 20
    owner_bytes_max: int = 20 << 30
    owner_blobs_max: int = 200_000
    retention_s: int = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class UploadFile:
    """One regular file: its path below the folder, its content and its mode."""

    path: str
    digest: str
    size: int
    executable: bool = False

    def __post_init__(self) -> None:
        if not is_upload_path(self.path):
            problem = "must be a relative path without empty parts, . or .. in it"
            raise InvalidSpec(what="upload", field="path", value=self.path, problem=problem)
        require_digest(self.digest)
        require_int(self.size, what=f"upload {self.path}", field="size", least=0, most=1 << 50)


@dataclass(frozen=True, slots=True)
class UploadManifest:
    """The files of an upload; no path occurs twice, and none is a folder of another."""

    files: tuple[UploadFile, ...]

    def __post_init__(self) -> None:
        paths = {one.path for one in self.files}
        if len(paths) < len(self.files):
            raise self._wrong("two files have the same path")
        folders = {folder for path in paths for folder in _folders_of(path)}
        clash = sorted(paths & folders)
        if clash:
            raise self._wrong(f"{clash[0]} is a file and a folder")

    @property
    def total_bytes(self) -> int:
        """The size of all files."""
        return sum(one.size for one in self.files)

    def require_within(self, limits: UploadLimits) -> None:
        """Raise UploadRefused for too many files or bytes."""
        if len(self.files) > limits.files_max:
            raise UploadRefused(f"{len(self.files)} files are more than {limits.files_max}, the limit of an upload")
        if self.total_bytes > limits.bytes_max:
            raise UploadRefused(f"{self.total_bytes} bytes are more than {limits.bytes_max}, the limit of an upload")

    @staticmethod
    def _wrong(problem: str) -> InvalidSpec:
        return InvalidSpec(what="upload", field="files", value="", problem=problem)


def is_upload_path(path: object) -> bool:
    """Whether it is a path below a folder, which no system reads as another one.

    >>> is_upload_path("a/b.py"), is_upload_path("../b"), is_upload_path("/b"), is_upload_path("a//b")
    (True, False, False, False)
    """
    if not isinstance(path, str) or not path.isprintable() or len(path.encode()) > PATH_BYTES_MAX:
        return False
    parts = path.split("/")
    return len(parts) <= DEPTH_MAX and all(
        part not in {"", ".", ".."} and len(part.encode()) <= NAME_BYTES_MAX for part in parts
    )


def is_digest(text: object) -> bool:
    """Whether it is a SHA-256 digest in lower-case hexadecimal digits."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None


def require_digest(text: object) -> None:
    """Raise InvalidSpec for a text that is not a digest."""
    if not is_digest(text):
        raise InvalidSpec(what="upload", field="digest", value=text, problem="must be a SHA-256 digest in hexadecimal")


def owner_key(user: str) -> str:
    """The namespace of an owner's blobs: another owner's digest does not open them."""
    return hashlib.sha256(f"upload-owner:{user}".encode()).hexdigest()[:32]


def upload_reference(user: str, digest: str) -> str:
    """The reference of an upload between manager and agent: namespace and id."""
    return f"{owner_key(user)}/{digest}"


def _folders_of(path: str) -> Sequence[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
