"""The first line of a connection to an agent's data listener."""

from __future__ import annotations

import pytest

from sokovan.wire.serving.relay_messages import (
    LINE_BYTES_MAX,
    MalformedRelayRequest,
    RelayRequest,
    decode_relay,
    encode_relay,
)

REQUEST = RelayRequest("s-1.0", 2, 20_000, "ab" * 32)


def test_a_request_is_one_short_line_and_names_its_endpoint() -> None:
    line = encode_relay(REQUEST)
    assert (line.count(b"\n"), line.endswith(b"\n"), len(line) < LINE_BYTES_MAX) == (1, True, True)
    assert decode_relay(line) == REQUEST
    assert REQUEST.endpoint_id == "s-1.0.2"


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"GET / HTTP/1.1\r\n",
        b'{"kernel_id":"s","attempt":0,"port":20000,"ticket":""}\n',
        b'{"kernel_id":"s","attempt":1,"port":0,"ticket":""}\n',
        b'{"kernel_id":"s","attempt":1,"port":20000,"ticket":"../"}\n',
        b'{"kernel_id":"s","attempt":1,"port":20000}\n',
        b"\xff\n",
    ],
)
def test_another_line_is_malformed(line: bytes) -> None:
    with pytest.raises(MalformedRelayRequest):
        decode_relay(line)
