"""The bound of messages, which every link keeps."""

from __future__ import annotations

from sokovan.adapters.broadcast.link import PAYLOAD_BYTES_MAX

POSTGRESQL_REFUSES_BYTES = 8000


def test_a_message_fits_into_a_notification_of_postgresql() -> None:
    assert PAYLOAD_BYTES_MAX < POSTGRESQL_REFUSES_BYTES
