"""Addresses to listen on."""

from __future__ import annotations

import socket

import pytest

from sokovan.domain.errors import InvalidInput
from sokovan.entrypoints.settings.listen_address import (
    ListenAddress,
    is_this_machine,
    own_address_toward,
    own_labels,
    read_listen,
)


def test_a_host_and_a_port_are_read() -> None:
    assert read_listen("10.0.0.1:7649") == ListenAddress("10.0.0.1", 7649)
    assert read_listen("[::1]:0").advertised == "[::1]"
    assert read_listen("0.0.0.0:1").advertised == socket.gethostname()


@pytest.mark.parametrize("text", ["", "7649", ":7649", "host:", "host:x", "host:65536", "host:-1"])
def test_another_form_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        read_listen(text)


@pytest.mark.parametrize(("text", "own"), [("10.0.0.1:0", "10.0.0.1"), ("127.0.0.1:0", ""), ("localhost:0", "")])
def test_the_own_address_is_the_one_that_is_listened_on_unless_only_this_machine_reaches_it(
    text: str, own: str
) -> None:
    assert read_listen(text).own_address == own


def test_the_own_address_on_the_way_to_this_machine_is_none() -> None:
    assert own_address_toward("127.0.0.1") == ""
    assert own_address_toward("") == ""
    # No route, or an address that is not of this machine alone.
    assert own_address_toward("192.0.2.1") == read_listen("0.0.0.0:0").own_address != "127.0.0.1"


def test_an_agent_beside_a_listener_reports_its_address() -> None:
    assert own_labels("10.0.0.1:7649") == {"sokovan.address": "10.0.0.1"}
    assert own_labels("127.0.0.1:7649") == own_labels("") == {}


def test_this_machine_is_known_by_the_route_to_a_host() -> None:
    assert all(map(is_this_machine, ("127.0.0.2", "localhost", "::1", "no such host")))
    own = own_address_toward("192.0.2.1")
    assert not own or is_this_machine(own)
    assert not own or not is_this_machine("192.0.2.1")
