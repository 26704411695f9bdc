"""Ports of kernels: which sockets listen on them. The contract suite has the connections."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from contextlib import closing, nullcontext, suppress

import pytest

from sokovan.adapters.process import port_connection
from sokovan.adapters.process.port_connection import PortConnection, sockets_at
from sokovan.adapters.process.shim.processes import look_up
from sokovan.adapters.process.threads import Threads


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


async def test_a_reset_is_told_from_an_end_in_order_and_a_deaf_program_does_not_keep_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(port_connection, "CLOSE_S", 0.05)
    threads = Threads()
    with socket.create_server(("127.0.0.1", 0)) as listener, closing(threads):

        def connection() -> PortConnection:
            port = listener.getsockname()[1]
            return PortConnection(port, lambda: look_up(os.getppid()), threads=threads, presence=nullcontext())

        for linger, code in ((struct.pack("ii", 1, 0), 1), (struct.pack("ii", 0, 0), 0)):
            async with connection() as opened:
                accepted, _ = listener.accept()
                accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                accepted.close()
                assert [part async for part in opened.output()] == []
                assert await opened.wait() == code
        async with asyncio.timeout(60):
            async with connection() as opened:
                deaf, _ = listener.accept()
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.1):
                        await opened.write(b"x" * (64 << 20))
            deaf.close()
