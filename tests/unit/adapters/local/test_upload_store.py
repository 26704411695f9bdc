"""Uploads in a folder: per owner, checked, bounded, and collected."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from sokovan.adapters.local.upload_store import LocalUploads, read_manifest
from sokovan.domain.errors import InvalidSpec, ObjectNotFound
from sokovan.domain.owners.uploads import UploadLimits, UploadRefused, upload_reference


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


async def put(store: LocalUploads, content: bytes, user: str = "kim") -> str:
    assert await store.put(user, digest_of(content), size=len(content), offset=0, data=content) == len(content)
    return digest_of(content)


def manifest_of(*contents: bytes) -> bytes:
    files = [{"path": f"f{n}", "digest": digest_of(each), "size": len(each)} for n, each in enumerate(contents)]
    return json.dumps({"files": files}).encode()


async def completed(store: LocalUploads, *contents: bytes) -> str:
    upload = await put(store, manifest_of(*contents))
    for content in contents:
        await put(store, content)
    assert (await store.check("kim", upload)).missing == ()
    return upload


def make_old(folder: Path, *, but: set[str]) -> None:
    """Let every file but these seem to be of 1970."""
    for path in folder.rglob("*"):
        if path.is_file() and path.name not in but:
            os.utime(path, (0, 0))


async def test_an_upload_is_complete_once_every_blob_is_there(tmp_path: Path) -> None:
    store = LocalUploads(tmp_path)
    upload = await put(store, manifest_of(b"one", b"two"))
    assert set((await store.check("kim", upload)).missing) == {digest_of(b"one"), digest_of(b"two")}
    with pytest.raises(ObjectNotFound):
        await store.use("kim", upload)
    await put(store, b"one")
    assert (await store.check("kim", upload)).missing == (digest_of(b"two"),)
    await put(store, b"two")
    assert (await store.check("kim", upload)).missing == ()
    reference = upload_reference("kim", upload)
    assert await store.use("kim", upload) == await store.manifest(reference)
    assert await store.read(reference, digest_of(b"two"), offset=1, limit=1) == b"w"


async def test_parts_are_appended_in_order_and_a_repeated_one_is_ignored(tmp_path: Path) -> None:
    store, digest = LocalUploads(tmp_path), digest_of(b"abcdef")
    assert await store.put("kim", digest, size=6, offset=3, data=b"def") == 0
    assert await store.put("kim", digest, size=6, offset=0, data=b"abc") == 3
    assert await store.put("kim", digest, size=6, offset=0, data=b"abc") == 3
    again = LocalUploads(tmp_path)  # after a restart
    assert await again.put("kim", digest, size=6, offset=3, data=b"def") == 6
    assert await again.put("kim", digest, size=6, offset=0, data=b"abc") == 6


async def test_another_owner_neither_sees_nor_uses_a_blob(tmp_path: Path) -> None:
    store = LocalUploads(tmp_path)
    upload = await completed(store, b"secret")
    with pytest.raises(ObjectNotFound):
        await store.use("lee", upload)
    with pytest.raises(ObjectNotFound):
        await store.check("lee", upload)
    with pytest.raises(ObjectNotFound):
        await store.read(upload_reference("lee", upload), digest_of(b"secret"), offset=0, limit=9)
    assert await store.put("lee", digest_of(b"secret"), size=6, offset=6, data=b"") == 0


async def test_content_with_another_digest_is_removed(tmp_path: Path) -> None:
    store = LocalUploads(tmp_path, UploadLimits(owner_bytes_max=6))
    for _ in range(3):
        with pytest.raises(InvalidSpec, match="the content has"):
            await store.put("kim", digest_of(b"right"), size=5, offset=0, data=b"wrong")
    await put(store, b"right")


async def test_an_owner_has_room_for_so_many_bytes_and_blobs(tmp_path: Path) -> None:
    small = LocalUploads(tmp_path / "a", UploadLimits(owner_bytes_max=4))
    with pytest.raises(UploadRefused):
        await put(small, b"12345")
    await put(small, b"1234")
    with pytest.raises(UploadRefused):
        await put(small, b"5")
    await put(small, b"1234", user="lee")
    few = LocalUploads(tmp_path / "b", UploadLimits(owner_blobs_max=1))
    await put(few, b"1")
    with pytest.raises(UploadRefused):
        await put(few, b"2")


async def test_what_the_owner_has_no_room_for_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    text = manifest_of(b"x" * 400)
    store = LocalUploads(tmp_path, UploadLimits(owner_bytes_max=len(text) + 300))
    upload = await put(store, text)
    with pytest.raises(UploadRefused):
        await store.check("kim", upload)


@pytest.mark.parametrize("reference", ["", "x", "../../etc/" + "0" * 64, "a" * 32 + "/x", "a" * 32])
async def test_references_that_are_none_are_not_found(tmp_path: Path, reference: str) -> None:
    with pytest.raises(ObjectNotFound):
        await LocalUploads(tmp_path).manifest(reference)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"files": 1}', b'{"files": [1]}', b'{"files": [{"path": "a"}]}', b"[" * 100_000]
)
def test_a_text_that_is_no_manifest_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidSpec):
        read_manifest(text)


async def test_unused_uploads_are_collected_after_their_retention(tmp_path: Path) -> None:
    store = LocalUploads(tmp_path, UploadLimits(retention_s=3600))
    old, kept, fresh = [await completed(store, content, b"shared") for content in (b"old", b"kept", b"fresh")]
    make_old(tmp_path, but={fresh, digest_of(b"fresh")})
    used = {upload_reference("kim", kept)}
    assert await store.collect(used) == 2  # the manifest and the one blob that nothing else names
    with pytest.raises(ObjectNotFound):
        await store.use("kim", old)
    for upload in (kept, fresh):
        await store.use("kim", upload)
        assert (await store.check("kim", upload)).missing == ()
    assert await store.collect(used) == 0


async def test_processes_that_share_a_folder_share_the_room_of_an_owner(tmp_path: Path) -> None:
    limits = UploadLimits(owner_bytes_max=10)
    one, other = (LocalUploads(tmp_path, limits, shared=True) for _ in range(2))
    for uploads, content in ((one, b"aaaa"), (other, b"bbbb")):
        assert await uploads.put("u", digest_of(content), size=4, offset=0, data=content) == 4
    for uploads in (one, other):
        with pytest.raises(UploadRefused, match="more than 10 bytes"):
            await uploads.put("u", digest_of(b"cccc"), size=4, offset=0, data=b"cccc")
    # What one collects, the other counts no more.
    make_old(tmp_path, but=set())
    assert await one.collect(()) == 2
    assert await other.put("u", digest_of(b"cccc"), size=4, offset=0, data=b"cccc") == 4


async def test_a_copied_upload_is_kept_in_the_namespace_of_its_owner(tmp_path: Path) -> None:
    store, manifest = LocalUploads(tmp_path), manifest_of(b"one")
    digest, size = digest_of(manifest), len(manifest)
    reference = upload_reference("kim", digest)
    assert await store.keep(reference, digest, size=size, offset=0, data=manifest) == size
    assert not await store.complete(reference)
    with pytest.raises(ObjectNotFound):
        await store.use("kim", digest_of(manifest))
    assert await store.keep(reference, digest_of(b"one"), size=3, offset=0, data=b"o") == 1
    assert await store.keep(reference, digest_of(b"one"), size=3, offset=0, data=b"o") == 1, "a part that came twice"
    assert await store.keep(reference, digest_of(b"one"), size=3, offset=1, data=b"ne") == 3
    assert await store.complete(reference)
    assert (await store.use("kim", digest_of(manifest))).total_bytes == 3
    with pytest.raises(ObjectNotFound):
        await store.use("eve", digest_of(manifest))
    for wrong in ("kim", f"../{digest_of(b'one')}", f"{reference}x"):
        with pytest.raises(ObjectNotFound):
            store.require_reference(wrong)
