"""Copies of the client, against a kernel that is a folder."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import httpx2
import pytest

from sokovan.sdk.errors import InvalidSetting
from sokovan.sdk.sync.client import Client
from tests.unit.sdk.fake_server import HandlerTransport

PART = 4


class FileServer:
    """Serves files from memory, in small parts and pages."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.placed: list[dict[str, Any]] = []
        self.uploaded = False

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        """Respond to a request."""
        if "/uploads/" in request.url.path:
            return self._upload(request)
        if request.method == "POST":
            self.placed.append(json.loads(request.content))
            return httpx2.Response(200, json={"done": len(self.placed) > 1, "path": "/seen/x"})
        path, query = request.url.params["path"], request.url.params
        if request.url.path.endswith("/content"):
            content, offset = self.files[path], int(query["offset"])
            data = base64.b64encode(content[offset : offset + PART]).decode()
            return httpx2.Response(200, json={"offset": offset, "data": data, "size": len(content), "mark": "m"})
        names = sorted(name for name in self.files if name == path or name.startswith(f"{path}/"))
        left = [name for name in names if name.removeprefix(f"{path}/") > query.get("after", "")]
        items = [
            {"kernel": 0, "path": one, "size": len(self.files[one]), "modified_at": "", "executable": one.endswith("x")}
            for one in left[:2]
        ]
        following = left[1].removeprefix(f"{path}/") if len(left) > 2 else None
        body = {"items": items, "is_folder": names != [path], "bytes_max": 1000, "next": following, "left_out": 1}
        return httpx2.Response(200, json=body)

    def _upload(self, request: httpx2.Request) -> httpx2.Response:
        digest = request.url.path.rpartition("/")[2]
        if "/blobs/" in request.url.path:
            size = int(request.url.params["size"])
            return httpx2.Response(200, json={"digest": digest, "size": size, "received": size})
        return httpx2.Response(200, json={"id": digest, "files": 1, "bytes": 1, "missing": []})


def client_of(server: FileServer) -> Client:
    return Client("http://127.0.0.1:1", "sk-AK.secret", transport=HandlerTransport(server.answer))


def test_a_folder_is_copied_page_by_page_and_part_by_part(tmp_path: Path) -> None:
    server = FileServer({"out/a/x": b"0123456789", "out/b": b"", "out/c": b"1"})
    seen: list[tuple[int, int]] = []
    done = client_of(server).files.download("s", "out", tmp_path, progress=lambda *parts: seen.append(parts))
    assert (done.files, done.size, done.left_out) == (3, 11, 1)
    assert (tmp_path / "out" / "a" / "x").read_bytes() == b"0123456789"
    assert os.access(tmp_path / "out" / "a" / "x", os.X_OK)
    assert (tmp_path / "out" / "b").read_bytes() == b""
    assert seen[-1] == (11, 11)
    assert not list(tmp_path.rglob(".*"))


def test_a_file_gets_a_new_name_and_replaces_what_is_there(tmp_path: Path) -> None:
    server = FileServer({"m": b"new"})
    (tmp_path / "old").write_bytes(b"old")
    client_of(server).files.download("s", "m", tmp_path / "old")
    assert (tmp_path / "old").read_bytes() == b"new"


def test_nothing_is_left_of_a_copy_that_fails(tmp_path: Path) -> None:
    server = FileServer({"m": b"12345678"})
    whole = server.answer

    def shorter(request: httpx2.Request) -> httpx2.Response:
        answer = whole(request)
        if request.url.path.endswith("/content") and request.url.params["offset"] != "0":
            return httpx2.Response(200, json={**answer.json(), "data": ""})
        return answer

    client = Client("http://127.0.0.1:1", "sk-AK.secret", transport=HandlerTransport(shorter))
    with pytest.raises(InvalidSetting, match="shorter"):
        client.files.download("s", "m", tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_more_than_a_copy_may_have_is_not_begun(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="limit of a copy"):
        client_of(FileServer({"m": b"x" * 1001})).files.download("s", "m", tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_server_that_names_files_outside_writes_nothing(tmp_path: Path) -> None:
    server = FileServer({"out/../../x": b"1", "out/y": b"1"})
    with pytest.raises(InvalidSetting, match="not below"):
        client_of(server).files.download("s", "out", tmp_path / "goal")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_copy_into_a_session_is_repeated_until_it_is_done(tmp_path: Path) -> None:
    server = FileServer({})
    (tmp_path / "x").write_bytes(b"1")
    done = client_of(server).files.upload(tmp_path / "x", "s", "goal", kernel=2)
    assert (done.files, done.size, done.target) == (1, 1, "/seen/x")
    assert [one["path"] for one in server.placed] == ["goal", "goal"]


def test_files_are_listed_from_every_page() -> None:
    server = FileServer({"output/a": b"", "output/b": b"", "output/c": b""})
    assert [one.path for one in client_of(server).files.list("s")] == ["output/a", "output/b", "output/c"]
