"""Files on the wire."""

from __future__ import annotations

from sokovan.adapters.process.files import process_files
from sokovan.api.settings import ApiSettings
from sokovan.ports import kernel_files
from sokovan.wire.api.files import OUTPUT, PART_BYTES_MAX, READ_BYTES_MAX


def test_clients_agents_and_server_agree_on_parts_and_names() -> None:
    assert READ_BYTES_MAX == process_files.PART_BYTES_MAX
    assert OUTPUT == kernel_files.OUTPUT


def test_a_part_of_an_upload_fits_into_a_request() -> None:
    assert ApiSettings(pepper=b"p" * 32).body_bytes_max > PART_BYTES_MAX
