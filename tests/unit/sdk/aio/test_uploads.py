"""Uploads of the async client; its sync copy has the tests."""

from __future__ import annotations

from pathlib import Path

import httpx2

from sokovan.sdk.aio.client import AsyncClient
from sokovan.sdk.upload_folder import read_folder


async def test_an_upload_that_the_server_has_is_not_sent_again(tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.path)
        digest = request.url.path.rpartition("/")[2]
        if "/blobs/" in request.url.path:
            size = int(request.url.params["size"])
            return httpx2.Response(200, json={"digest": digest, "size": size, "received": size})
        return httpx2.Response(200, json={"id": digest, "files": 1, "bytes": 1, "missing": []})

    (tmp_path / "a").write_bytes(b"x")
    folder = read_folder(tmp_path)
    async with AsyncClient("http://127.0.0.1:1", "sk-AK.secret", transport=httpx2.MockTransport(answer)) as client:
        assert (await client.uploads.send(tmp_path)).id == folder.digest
    assert asked == [f"/api/v1/uploads/blobs/{folder.digest}", f"/api/v1/uploads/{folder.digest}"]
