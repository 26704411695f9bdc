"""The agent fetches an upload over a real listener, and a cut stream is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.adapters.agentlink.linked_agents import LinkedAgents
from sokovan.adapters.agentlink.listener import LinkAccess, serve_links
from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.upload_store import LocalUploads
from sokovan.agent.link.manager_link import ManagerAddress
from sokovan.agent.link.upload_stream import UploadReceiver, UploadUnavailable
from sokovan.domain.owners.uploads import UploadFile, upload_reference
from sokovan.testing.contracts.uploads import digest_of, manifest_of, put
from sokovan.wire.frames import Hello, HelloRefused


async def refuse(_hello: Hello, _token: str) -> HelloRefused:
    return HelloRefused(code="no", message="no links here")


async def ignore(*_report: object) -> None:
    """No agent is connected."""


async def fetched(
    store: LocalUploads | None, reference: str, key: str = "right", before: tuple[ManagerAddress, ...] = ()
) -> list[UploadFile | bytes]:
    agents = LinkedAgents(SystemClock(), admit=refuse, on_heartbeat=ignore, uploads=store)
    async with serve_links(
        agents, host="127.0.0.1", port=0, access=LinkAccess(known=lambda given: given == "right")
    ) as listener:
        receiver = UploadReceiver((*before, ManagerAddress(f"ws://127.0.0.1:{listener.port}", key)))
        return [part async for part in receiver.parts(reference)]


async def test_files_arrive_with_their_content(tmp_path: Path) -> None:
    store = LocalUploads(tmp_path)
    upload = await put(store, manifest_of(b"content"))
    await put(store, b"content")
    await store.check("kim", upload)
    reference = upload_reference("kim", upload)
    assert await fetched(store, reference) == [UploadFile("f0", digest_of(b"content"), 7), b"content"]
    with pytest.raises(UploadUnavailable):
        await fetched(store, reference, key="wrong")


async def test_an_upload_is_fetched_from_the_manager_that_has_it(tmp_path: Path) -> None:
    store = LocalUploads(tmp_path)
    upload = await put(store, manifest_of(b"content"))
    await put(store, b"content")
    await store.check("kim", upload)
    gone = ManagerAddress("ws://127.0.0.1:1", "right")
    found = await fetched(store, upload_reference("kim", upload), before=(gone,))
    assert found == [UploadFile("f0", digest_of(b"content"), 7), b"content"]


async def test_an_upload_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    for store in (LocalUploads(tmp_path), None):
        with pytest.raises(UploadUnavailable):
            await fetched(store, f"{'a' * 32}/{'0' * 64}")
