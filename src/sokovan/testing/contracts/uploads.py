"""Contract of `ports.uploads.UploadStore`."""

from __future__ import annotations

import hashlib
import json
from typing import TypeAlias

from sokovan.domain.errors import InvalidSpec, ObjectNotFound
from sokovan.domain.owners.uploads import upload_reference
from sokovan.ports.uploads import UploadStore
from sokovan.testing.contracts import Subject, expect

UploadSubject: TypeAlias = Subject[UploadStore]


def digest_of(content: bytes) -> str:
    """The name of a blob."""
    return hashlib.sha256(content).hexdigest()


def manifest_of(*contents: bytes) -> bytes:
    """A manifest of files with these contents."""
    files = [{"path": f"f{n}", "digest": digest_of(each), "size": len(each)} for n, each in enumerate(contents)]
    return json.dumps({"files": files}).encode()


async def put(store: UploadStore, content: bytes, user: str = "kim") -> str:
    """Store a blob in one part."""
    received = await store.put(user, digest_of(content), size=len(content), offset=0, data=content)
    expect(received == len(content), "a blob that was sent is not complete")
    return digest_of(content)


async def _is_missing(store: UploadStore, user: str, upload: str) -> bool:
    try:
        await store.use(user, upload)
    except ObjectNotFound:
        return True
    return False


async def an_upload_is_complete_once_every_blob_is_there(subject: UploadSubject) -> None:
    """A session may use it from then on."""
    store = await subject.make()
    upload = await put(store, manifest_of(b"one", b"two"))
    expect(set((await store.check("kim", upload)).missing) == {digest_of(b"one"), digest_of(b"two")}, "not all missing")
    expect(await _is_missing(store, "kim", upload), "an incomplete upload can be used")
    await put(store, b"one")
    expect((await store.check("kim", upload)).missing == (digest_of(b"two"),), "the second blob is not missing")
    await put(store, b"two")
    expect((await store.check("kim", upload)).missing == (), "blobs are missing although all were sent")
    reference = upload_reference("kim", upload)
    expect(await store.use("kim", upload) == await store.manifest(reference), "another manifest is used")
    expect(await store.read(reference, digest_of(b"two"), offset=1, limit=1) == b"w", "another part was read")


async def parts_are_appended_in_order_and_a_repeated_one_is_ignored(subject: UploadSubject) -> None:
    """A request may be repeated."""
    store, digest = await subject.make(), digest_of(b"abcdef")
    expect(await store.put("kim", digest, size=6, offset=3, data=b"def") == 0, "a part that begins later was kept")
    expect(await store.put("kim", digest, size=6, offset=0, data=b"abc") == 3, "the first part was not kept")
    expect(await store.put("kim", digest, size=6, offset=0, data=b"abc") == 3, "a repeated part was appended")
    expect(await store.put("kim", digest, size=6, offset=3, data=b"def") == 6, "the last part was not kept")


async def another_owner_neither_sees_nor_uses_an_upload(subject: UploadSubject) -> None:
    """A digest is no key to a blob."""
    store = await subject.make()
    upload = await put(store, manifest_of(b"secret"))
    await put(store, b"secret")
    await store.check("kim", upload)
    expect(await _is_missing(store, "lee", upload), "an upload of another owner can be used")
    expect(await store.put("lee", digest_of(b"secret"), size=6, offset=6, data=b"") == 0, "another owner's blob counts")


async def content_with_another_digest_is_not_kept(subject: UploadSubject) -> None:
    """A blob is what its name says."""
    store = await subject.make()
    try:
        await store.put("kim", digest_of(b"right"), size=5, offset=0, data=b"wrong")
    except InvalidSpec:
        await put(store, b"right")
        return
    expect(False, "content with another digest was accepted")  # noqa: FBT003  # the check has failed


CHECKS = (
    an_upload_is_complete_once_every_blob_is_there,
    parts_are_appended_in_order_and_a_repeated_one_is_ignored,
    another_owner_neither_sees_nor_uses_an_upload,
    content_with_another_digest_is_not_kept,
)
