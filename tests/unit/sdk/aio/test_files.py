"""Files of the async client; its sync copy has the tests."""

from __future__ import annotations

import httpx2

from sokovan.sdk.aio.client import AsyncClient
from tests.unit.sdk.sync.test_files import FileServer


async def test_files_are_listed() -> None:
    server = FileServer({"output/a": b"", "output/b": b"12", "output/c": b""})
    transport = httpx2.MockTransport(server.answer)
    async with AsyncClient("http://127.0.0.1:1", "sk-AK.secret", transport=transport) as client:
        found = await client.files.list("s")
    assert [(one.path, one.size) for one in found] == [("output/a", 0), ("output/b", 2), ("output/c", 0)]
