"""Which sockets listen on a port, and which are known to be those of a kernel."""

from __future__ import annotations

import os
import socket

import pytest

from sokovan.adapters.process.ports.kernel_listeners import KnownListeners, sockets_at
from sokovan.adapters.process.shim.processes import look_up


@pytest.fixture(params=["by question", "by table"])
def _both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "by table":
        monkeypatch.delattr(socket, "AF_NETLINK")


def _number(one: socket.socket) -> int:
    return os.fstat(one.fileno()).st_ino


# Other programs of the machine may listen on the same port of another address; only known sockets are looked for.
@pytest.mark.usefixtures("_both_ways")
def test_the_sockets_that_listen_on_a_port_are_found_and_connections_are_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client, listener.accept()[0] as accepted:
            number, others = _number(listener), {_number(client), _number(accepted)}
            assert number in sockets_at(port)
            assert not others & (sockets_at(port) | sockets_at(client.getsockname()[1]))
    assert number not in sockets_at(port)


@pytest.mark.usefixtures("_both_ways")
def test_a_listener_on_ipv6_counts_beside_one_on_ipv4() -> None:
    with socket.create_server(("127.0.0.1", 0)) as first:
        port = first.getsockname()[1]
        with socket.create_server(("::1", port), family=socket.AF_INET6) as second:
            assert sockets_at(port) >= {_number(first), _number(second)}


def test_sockets_are_looked_for_again_if_others_listen_or_the_kernel_is_another_one() -> None:
    kernel, other = look_up(os.getpid()), look_up(os.getppid())
    assert kernel is not None
    assert other is not None
    known = KnownListeners()
    assert not known.are_of(kernel, 80, frozenset({1}))
    known.note(kernel, 80, frozenset({1, 2}))
    assert known.are_of(kernel, 80, frozenset({1}))
    assert not known.are_of(kernel, 80, frozenset({1, 3}))
    assert not known.are_of(kernel, 81, frozenset({1}))
    assert not known.are_of(other, 80, frozenset({1}))
