"""Uploads on the wire."""

from __future__ import annotations

from sokovan.api.settings import ApiSettings
from sokovan.wire.api.uploads import PART_BYTES_MAX


def test_a_part_fits_into_a_request() -> None:
    assert ApiSettings(pepper=b"p" * 32).body_bytes_max > PART_BYTES_MAX
