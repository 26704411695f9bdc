"""Leased ports are looked at before a kernel starts."""

from __future__ import annotations

import socket

import pytest

from sokovan.adapters.process.launch.port_probe import PortTaken, require_free_ports


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])  # noqa: S104  # a listener as other programs have it
def test_a_port_that_another_program_listens_at_is_refused(host: str) -> None:
    with socket.create_server((host, 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortTaken, match=f"port {port} is in use by another program"):
            require_free_ports([port])


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_a_listener_with_ipv6_alone_counts() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as other, pytest.raises(PortTaken):
        require_free_ports([other.getsockname()[1]])


def test_a_port_is_free_again_although_connections_to_it_have_just_ended() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)), other.accept()[0] as visit:
            visit.shutdown(socket.SHUT_RDWR)
    require_free_ports([port, port])


def test_no_ports_need_no_check() -> None:
    require_free_ports(())
