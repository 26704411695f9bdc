"""Uploads that other managers of the cluster have received.

A manager that lacks an upload copies all of it from the first one that has it, and uses
its own copy from then on: the upload is there even if the other manager is gone later.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import WebSocketException

from sokovan.adapters.local.atomic_file import write_whole
from sokovan.adapters.local.certificates import CertificateAuthority, dialling, new_key, signing_request
from sokovan.adapters.local.upload_store import LocalUploads
from sokovan.agent.link.manager_link import ManagerAddress, dialled
from sokovan.domain.errors import InvalidSpec, ObjectNotFound, SokovanError
from sokovan.domain.owners.uploads import UploadManifest, upload_reference
from sokovan.ports.environment import Clock
from sokovan.ports.uploads import UploadState
from sokovan.wire.frames import COPY_PATH
from sokovan.wire.join_messages import MANAGER_NAME, PEER_NAME
from sokovan.wire.link_codec import MalformedFrame
from sokovan.wire.upload_messages import FileHeader, UploadEnd, decode_upload_message

OPEN_S, STALLED_S = 3.0, 30.0
IDENTITY_FILE = "peer.pem"


@dataclass(frozen=True, slots=True)
class PeerLinks:
    """The URLs of all managers, this one included, and how to connect to them.

    `context` makes a new certificate each time; it reads and writes files.
    """

    urls: Sequence[str]
    context: Callable[[], ssl.SSLContext]


def peer_links(urls: Sequence[str], *, folder: Path, own: Path, clock: Clock) -> PeerLinks:
    """Links to managers by certificates of the cluster's authority.

    `folder` is that of the authority, `own` that of this manager's certificates.
    """

    def context() -> ssl.SSLContext:
        authority, key = CertificateAuthority(folder, clock, own=own), new_key()
        certificate, _ = authority.issue(signing_request(key, PEER_NAME), PEER_NAME)
        own.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(own / IDENTITY_FILE, certificate.encode() + key)
        return dialling(authority.certificate, own / IDENTITY_FILE)

    return PeerLinks(urls, context)


class PeerUploads:
    """The UploadStore port over own uploads, and those of other managers."""

    def __init__(self, own: LocalUploads, links: PeerLinks, log: Callable[[str], None]) -> None:
        self._own, self._links, self._log = own, links, log
        # Uploads that are being copied; used by several event loops.
        self._copied: dict[str, Future[None]] = {}

    async def put(self, user: str, digest: str, *, size: int, offset: int, data: bytes) -> int:
        """See the port."""
        return await self._own.put(user, digest, size=size, offset=offset, data=data)

    async def check(self, user: str, digest: str) -> UploadState:
        """See the port."""
        return await self._own.check(user, digest)

    async def use(self, user: str, digest: str) -> UploadManifest:
        """See the port."""
        try:
            return await self._own.use(user, digest)
        except ObjectNotFound:
            await self._bring(upload_reference(user, digest))
            return await self._own.use(user, digest)

    async def manifest(self, reference: str) -> UploadManifest:
        """See the port."""
        try:
            return await self._own.manifest(reference)
        except ObjectNotFound:
            await self._bring(reference)
            return await self._own.manifest(reference)

    async def read(self, reference: str, digest: str, *, offset: int, limit: int) -> bytes:
        """See the port."""
        return await self._own.read(reference, digest, offset=offset, limit=limit)

    async def collect(self, used: Collection[str]) -> int:
        """See the port."""
        return await self._own.collect(used)

    async def _bring(self, reference: str) -> None:
        """Copy an upload from a manager that has it; others that need it too wait for that copy.

        Raises ObjectNotFound for what is no reference, UploadRefused beyond a limit.
        """
        self._own.require_reference(reference)
        mine = Future[None]()
        mine.set_running_or_notify_cancel()  # one that waits and goes away does not end it for others
        running = self._copied.setdefault(reference, mine)
        if running is not mine:
            await asyncio.shield(asyncio.wrap_future(running))
            return
        try:
            await self._copy(reference)
        finally:
            self._copied.pop(reference, None)
            mine.set_result(None)

    async def _copy(self, reference: str) -> None:
        context = await asyncio.to_thread(self._links.context)
        for url in self._links.urls:
            address = ManagerAddress(url, "", tls=context, server_name=MANAGER_NAME)
            try:
                async with dialled(address, COPY_PATH + reference, open_s=OPEN_S) as socket:
                    complete = await self._receive(socket, reference)
            except (OSError, TimeoutError, WebSocketException, MalformedFrame, InvalidSpec) as problem:
                self._log(f"upload {reference} was not copied from {url}: {str(problem) or type(problem).__name__}")
                continue
            if complete:
                self._log(f"upload {reference} was copied from {url}")
                return

    async def _receive(self, socket: ClientConnection, reference: str) -> bool:
        """Store an upload as it comes; whether all of it came."""
        header, offset = FileHeader("", "", 0), 0
        while True:
            async with asyncio.timeout(STALLED_S):
                content = await socket.recv()
            if isinstance(content, bytes):
                await self._own.keep(reference, header.digest, size=header.size, offset=offset, data=content)
                offset += len(content)
                continue
            match decode_upload_message(content):
                case FileHeader() as header:
                    offset = 0
                    if not header.size:
                        await self._own.keep(reference, header.digest, size=0, offset=0, data=b"")
                case UploadEnd():
                    return await self._completed(reference)

    async def _completed(self, reference: str) -> bool:
        try:
            return await self._own.complete(reference)
        except SokovanError as problem:
            self._log(f"the copy of upload {reference} cannot be used: {problem.message}")
            return False
