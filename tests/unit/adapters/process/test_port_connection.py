"""Ports of kernels: which sockets listen on them. The contract suite has the connections."""

from __future__ import annotations

import os
import socket

from sokovan.adapters.process.port_connection import sockets_at


def test_the_sockets_that_listen_on_a_port_are_found_and_connections_are_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            assert sockets_at(port) == {f"socket:[{os.fstat(listener.fileno()).st_ino}]"}
            assert sockets_at(client.getsockname()[1]) == set()
    assert sockets_at(port) == set()


def test_a_listener_on_ipv6_counts_too() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listener:
        assert len(sockets_at(listener.getsockname()[1])) == 1
