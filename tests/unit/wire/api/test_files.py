"""Files on the wire."""

from __future__ import annotations

from sokovan.adapters.process.files.process_files import PART_BYTES_MAX
from sokovan.ports import kernel_files
from sokovan.wire.api.files import OUTPUT, READ_BYTES_MAX


def test_clients_agents_and_server_agree_on_parts_and_names() -> None:
    assert READ_BYTES_MAX == PART_BYTES_MAX
    assert OUTPUT == kernel_files.OUTPUT
