"""Listening sockets are told apart, also at the same port."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from sokovan.adapters.process.ports.port_listeners import PortListeners

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="netlink is Linux's")


def test_a_port_that_is_taken_over_has_another_listener() -> None:
    listeners = PortListeners()
    with socket.create_server(("127.0.0.1", 0)) as first:
        port = first.getsockname()[1]
        found = listeners.at(port)
        assert found is not None
        assert found == frozenset({os.fstat(first.fileno()).st_ino})
    assert listeners.at(port) == frozenset()
    with socket.create_server(("127.0.0.1", port)):
        after = listeners.at(port)
        assert after
        assert not after & found
    listeners.close()


def test_a_listener_of_both_versions_of_the_protocol_is_found() -> None:
    listeners = PortListeners()
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as both:
        assert listeners.at(both.getsockname()[1]) == frozenset({os.fstat(both.fileno()).st_ino})
    listeners.close()


def test_a_machine_that_does_not_tell_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "AF_NETLINK")
    listeners = PortListeners()
    assert listeners.at(80) is None
    monkeypatch.undo()
    assert listeners.at(80) is None
