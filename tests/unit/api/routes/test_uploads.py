"""Uploads over HTTP: parts of blobs, completion, and the namespace of each owner."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from tests.unit.api.api_harness import ApiHarness, member

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH, SOUTH = member("north"), member("south")
BINARY = {"Content-Type": "application/octet-stream"}


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


async def put(api: ApiHarness, content: bytes, *, user: str = NORTH, headers: dict[str, str] | None = None) -> Any:
    path = f"/uploads/blobs/{digest_of(content)}?size={len(content)}"
    return await api.call("PUT", path, content=content, headers=headers or BINARY, user=user)


@pytest.mark.slow
async def test_an_upload_is_completed_and_used_by_its_owner_only(api: ApiHarness) -> None:
    text = json.dumps({"files": [{"path": "a", "digest": digest_of(b"x"), "size": 1}]}).encode()
    assert (await put(api, text)).json()["received"] == len(text)
    upload = digest_of(text)
    first = await api.call("PUT", f"/uploads/{upload}", user=NORTH)
    assert first.json() == {"id": upload, "files": 1, "bytes": 1, "missing": [digest_of(b"x")]}
    body = {"command": ["true"], "image": "host", "upload": upload}
    assert (await api.call("POST", "/sessions", json=body, user=NORTH)).status_code == 404
    await put(api, b"x")
    assert (await api.call("PUT", f"/uploads/{upload}", user=NORTH)).json()["missing"] == []
    assert (await api.call("PUT", f"/uploads/{upload}", user=SOUTH)).status_code == 404
    assert (await api.call("POST", "/sessions", json=body, user=SOUTH)).status_code == 404


@pytest.mark.slow
async def test_a_body_is_content_and_not_too_much_of_it(api: ApiHarness) -> None:
    assert (await put(api, b"{}", headers={"Content-Type": "application/json"})).status_code == 415
    assert (await put(api, b"x" * (600 << 10))).status_code == 422
    assert (await api.call("PUT", "/uploads/nothing", user=NORTH)).status_code == 422
