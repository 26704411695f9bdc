"""Addresses to listen on."""

from __future__ import annotations

import socket

import pytest

from sokovan.domain.errors import InvalidInput
from sokovan.entrypoints.settings.listen_address import ListenAddress, read_listen


def test_a_host_and_a_port_are_read() -> None:
    assert read_listen("10.0.0.1:7649") == ListenAddress("10.0.0.1", 7649)
    assert read_listen("[::1]:0").advertised == "[::1]"
    assert read_listen("0.0.0.0:1").advertised == socket.gethostname()


@pytest.mark.parametrize("text", ["", "7649", ":7649", "host:", "host:x", "host:65536", "host:-1"])
def test_another_form_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        read_listen(text)
