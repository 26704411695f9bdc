"""Requests for uploads."""

from __future__ import annotations

from sokovan.sdk.core import upload_calls


def test_a_part_of_a_blob_is_sent_as_it_is() -> None:
    call = upload_calls.put_blob("ab", b"part", size=9, offset=4)
    assert (call.method, call.path, call.content) == ("PUT", "/api/v1/uploads/blobs/ab", b"part")
    assert call.query == {"size": "9", "offset": "4"}


def test_an_upload_is_completed_by_its_manifest() -> None:
    assert upload_calls.complete("ab").path == "/api/v1/uploads/ab"
