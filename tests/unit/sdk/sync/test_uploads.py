"""Uploads of the client, against a store that speaks HTTP."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import httpx2
import pytest

from sokovan.sdk.errors import InvalidSetting
from sokovan.sdk.sync.client import Client
from sokovan.sdk.upload_folder import read_folder
from sokovan.wire.api.files import PART_BYTES_MAX
from tests.unit.sdk.fake_server import HandlerTransport


class UploadServer:
    """Keeps blobs in memory, as the server does on disk."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.parts = 0

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        """Respond to a request."""
        digest = request.url.path.rpartition("/")[2]
        if "/blobs/" in request.url.path:
            self.parts += 1
            has = self.blobs.get(digest, b"")
            if int(request.url.params["offset"]) == len(has):
                self.blobs[digest] = has + request.content
            size = int(request.url.params["size"])
            return httpx2.Response(200, json={"digest": digest, "size": size, "received": len(self.blobs[digest])})
        files = json.loads(self.blobs[digest])["files"]
        missing = sorted({one["digest"] for one in files} - self.blobs.keys())
        body = {"id": digest, "files": len(files), "bytes": 0, "missing": missing}
        return httpx2.Response(200, json=body)


@pytest.fixture
def server() -> UploadServer:
    return UploadServer()


@pytest.fixture
def client(server: UploadServer) -> Client:
    return Client("http://127.0.0.1:1", "sk-AK.secret", transport=HandlerTransport(server.answer))


def test_files_are_sent_in_parts_once_each_and_never_again(
    server: UploadServer, client: Client, tmp_path: Path
) -> None:
    large = b"x" * (PART_BYTES_MAX + 1)
    for name, content in (("a", large), ("b", b"same"), ("c", b"same"), ("d", b"")):
        (tmp_path / name).write_bytes(content)
    seen: list[tuple[int, int]] = []
    view = client.uploads.send(tmp_path, progress=lambda sent, total: seen.append((sent, total)))
    assert view.missing == []
    assert server.blobs[hashlib.sha256(large).hexdigest()] == large
    assert server.parts == 5  # the manifest, two parts of a, one of b and c together, one of d
    assert seen[-1] == (len(large) + 4, len(large) + 4)
    client.uploads.send(str(tmp_path))
    assert server.parts == 6


def test_a_file_that_becomes_shorter_is_an_error(client: Client, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"long")
    folder = read_folder(tmp_path)
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(InvalidSetting, match="shorter"):
        client.uploads.send_read(folder)
