"""Uploads that a caller may use."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.adapters.local.upload_store import LocalUploads
from sokovan.api.access.uploads import require_upload
from sokovan.domain.errors import ObjectNotFound

DIGEST = "0" * 64


async def test_an_upload_that_is_not_the_callers_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(ObjectNotFound, match=DIGEST):
        await require_upload(LocalUploads(tmp_path), "ada", DIGEST)


async def test_where_no_uploads_are_kept_none_is_found() -> None:
    with pytest.raises(ObjectNotFound, match=DIGEST):
        await require_upload(None, "ada", DIGEST)
