"""Messages of joining are read back, and others refused."""

from __future__ import annotations

import pytest

from sokovan.wire.join_messages import JoinDenied, JoinGranted, JoinRequest, decode_reply, decode_request, encode_join
from sokovan.wire.link_codec import MalformedFrame


def test_messages_are_read_back() -> None:
    request = JoinRequest("a", "pem", "token")
    assert decode_request(encode_join(request)) == request
    for reply in (
        JoinGranted("pem", "default"),
        JoinGranted("pem", "default", ("wss://a:1", "wss://b:2")),
        JoinDenied("code", "message", "hint"),
    ):
        assert decode_reply(encode_join(reply)) == reply


def test_malformed_messages_are_refused() -> None:
    for wrong in (b"", b"{}", b'{"type": "join"}', encode_join(JoinRequest("a", "x" * 16_385))):
        with pytest.raises(MalformedFrame):
            decode_request(wrong)
