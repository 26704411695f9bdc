"""The store of uploaded folders: blobs by owner and content, and their manifests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from dataclasses import dataclass
from typing import Protocol

from sokovan.domain.owners.uploads import UploadFile, UploadManifest


@dataclass(frozen=True, slots=True)
class UploadState:
    """A manifest, and the digests of its files that the store lacks."""

    manifest: UploadManifest
    missing: tuple[str, ...]


class UploadStore(Protocol):
    """Blobs and manifests in a namespace per owner.

    No method reads a whole blob into memory, except a manifest.
    """

    async def put(self, user: str, digest: str, *, size: int, offset: int, data: bytes) -> int:
        """Append to a blob; returns how many of its bytes the store has.

        A part that does not begin there is ignored, so that a request may be repeated.
        Raises InvalidSpec if the whole content has another digest, which removes it, and
        UploadRefused beyond a limit.
        """

    async def check(self, user: str, digest: str) -> UploadState:
        """Complete the upload whose manifest is this blob, unless files are missing.

        Raises ObjectNotFound without such a blob, InvalidSpec for one that is no manifest,
        and UploadRefused beyond a limit.
        """

    async def use(self, user: str, digest: str) -> UploadManifest:
        """Note that a session uses an upload. Raises ObjectNotFound if it is not complete."""

    async def manifest(self, reference: str) -> UploadManifest:
        """The manifest of a complete upload. Raises ObjectNotFound."""

    async def read(self, reference: str, digest: str, *, offset: int, limit: int) -> bytes:
        """A part of a blob in the namespace of a reference. Raises ObjectNotFound."""

    async def collect(self, used: Collection[str]) -> int:
        """Remove what was not used within the retention, except these references.

        Returns the number of removed files.
        """


class UploadSource(Protocol):
    """Brings an upload to the machine of an agent."""

    def parts(self, reference: str) -> AsyncGenerator[UploadFile | bytes, None]:
        """Each file, followed by its content in parts. Raises RuntimeFailure."""
