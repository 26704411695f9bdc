"""Uploads are copied from other managers, over TLS, once for all that need them."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from websockets.exceptions import InvalidStatus

from sokovan.adapters.agentlink.linked_agents import LinkedAgents
from sokovan.adapters.agentlink.machine_listener import MachineEndpoint, serve_machines
from sokovan.adapters.local.certificates import CertificateAuthority, dialling, new_key, signing_request
from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.upload_store import LocalUploads
from sokovan.agent.link.manager_link import ManagerAddress, dialled
from sokovan.domain.errors import ObjectNotFound
from sokovan.domain.owners.uploads import UploadLimits, UploadRefused, upload_reference
from sokovan.entrypoints.joining.peer_uploads import PeerUploads, peer_links
from sokovan.testing.contracts.uploads import manifest_of, put
from sokovan.wire.frames import COPY_PATH, LINK_PATH
from sokovan.wire.join_messages import MANAGER_NAME, PEER_NAME

pytestmark = pytest.mark.slow
USER = "kim"


class Managers:
    """A manager with uploads that serves copies, and another one that may get them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.tls, self.lines = folder, folder / "tls", list[str]()
        self.authority = CertificateAuthority(self.tls, SystemClock(), own=folder / "first")
        self.first = LocalUploads(folder / "uploads1")
        self.url = ""

    @classmethod
    @asynccontextmanager
    async def open(cls, folder: Path) -> AsyncIterator[Managers]:
        made, nothing = cls(folder), cast("Any", None)
        agents = LinkedAgents(SystemClock(), admit=nothing, on_heartbeat=nothing)
        endpoint = MachineEndpoint(agents, nothing, made.authority.certificate, nothing, made.first)
        tls = made.authority.listening(MANAGER_NAME)
        async with AsyncExitStack() as stack:
            listener = await stack.enter_async_context(serve_machines(endpoint, host="127.0.0.1", port=0, tls=tls))
            made.url = f"wss://127.0.0.1:{listener.port}"
            yield made

    def second(self, *, urls: Sequence[str] = (), limits: UploadLimits | None = None) -> PeerUploads:
        """The other manager; `urls` are asked first."""
        links = peer_links((*urls, self.url), folder=self.tls, own=self.folder / "second", clock=SystemClock())
        return PeerUploads(LocalUploads(self.folder / "uploads2", limits), links, self.lines.append)

    async def upload(self, *contents: bytes) -> str:
        """A complete upload of the first manager."""
        digest = await put(self.first, manifest_of(*contents))
        for content in contents:
            await put(self.first, content)
        assert not (await self.first.check(USER, digest)).missing
        return digest

    def identity(self, name: str) -> ssl.SSLContext:
        """A client with a certificate of this name."""
        key, file = new_key(), self.folder / "identity.pem"
        certificate, _ = self.authority.issue(signing_request(key, name), name)
        file.write_bytes(certificate.encode() + key)
        return dialling(self.authority.certificate, file)


async def test_an_upload_of_another_manager_is_copied_and_then_used_without_it(tmp_path: Path) -> None:
    async with Managers.open(tmp_path) as managers:
        upload = await managers.upload(b"x" * 600_000, b"", b"twice", b"twice")
        second = managers.second(urls=["wss://127.0.0.1:1"])
        manifest = await second.use(USER, upload)
        assert [one.size for one in manifest.files] == [600_000, 0, 5, 5]
        reference = upload_reference(USER, upload)
        assert await second.read(reference, manifest.files[2].digest, offset=1, limit=9) == b"wice"
        # One manager did not answer; the other one is asked once.
        assert [" was copied from " in line for line in managers.lines] == [False, True]
    assert await second.manifest(reference) == manifest


async def test_those_that_need_an_upload_at_once_get_one_copy(tmp_path: Path) -> None:
    async with Managers.open(tmp_path) as managers:
        upload = await managers.upload(b"content")
        second = managers.second()
        await asyncio.gather(*(second.manifest(upload_reference(USER, upload)) for _ in range(5)))
        assert len(managers.lines) == 1


async def test_what_no_manager_has_completely_is_not_found(tmp_path: Path) -> None:
    async with Managers.open(tmp_path) as managers:
        second = managers.second()
        incomplete = await put(managers.first, manifest_of(b"missing"))
        for digest in (incomplete, "0" * 64):
            with pytest.raises(ObjectNotFound):
                await second.use(USER, digest)
        with pytest.raises(ObjectNotFound):
            await second.use("eve", await managers.upload(b"of kim"))
        with pytest.raises(ObjectNotFound):
            await second.manifest("../../etc/passwd")


async def test_a_copy_keeps_the_limits_of_its_owner(tmp_path: Path) -> None:
    async with Managers.open(tmp_path) as managers:
        upload = await managers.upload(b"x" * 5_000)
        with pytest.raises(UploadRefused):
            await managers.second(limits=UploadLimits(owner_bytes_max=1_000)).use(USER, upload)


async def test_copies_are_for_managers_only_and_they_get_nothing_else(tmp_path: Path) -> None:
    async with Managers.open(tmp_path) as managers:
        reference = upload_reference(USER, await managers.upload(b"content"))
        cases = (
            (managers.identity("gpu2"), COPY_PATH + reference, 404),
            (dialling(managers.authority.certificate), COPY_PATH + reference, 401),
            (managers.identity(PEER_NAME), LINK_PATH, 404),
        )
        for context, path, status in cases:
            address = ManagerAddress(managers.url, "", tls=context, server_name=MANAGER_NAME)
            with pytest.raises(InvalidStatus) as refused:
                async with dialled(address, path):
                    pass
            assert refused.value.response.status_code == status
