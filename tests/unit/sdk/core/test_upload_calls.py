"""Requests for uploads."""

from __future__ import annotations

from sokovan.sdk.core import upload_calls
from sokovan.wire.api.files import CopyBody


def test_a_part_of_a_blob_is_sent_as_it_is() -> None:
    call = upload_calls.put_blob("ab", b"part", size=9, offset=4)
    assert (call.method, call.path, call.content) == ("PUT", "/api/v1/uploads/blobs/ab", b"part")
    assert call.query == {"size": "9", "offset": "4"}


def test_an_upload_is_completed_by_its_manifest() -> None:
    assert upload_calls.complete("ab").path == "/api/v1/uploads/ab"


def test_requests_for_files_name_the_kernel_and_the_path() -> None:
    listing = upload_calls.list_files("s", 2, "a b", after="x")
    assert (listing.path, dict(listing.query)) == ("/api/v1/sessions/s/kernels/2/files", {"path": "a b", "after": "x"})
    part = upload_calls.read_file("s", 0, "p", offset=5, mark="m")
    assert part.path.endswith("/kernels/0/files/content")
    assert dict(part.query) == {"path": "p", "offset": "5", "mark": "m"}
    placed = upload_calls.place_upload("s", 1, CopyBody(upload="d", path="p"))
    assert (placed.method, placed.body) == ("POST", {"upload": "d", "path": "p"})
