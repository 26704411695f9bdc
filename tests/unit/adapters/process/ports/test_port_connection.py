"""Connections to ports of kernels; the contract suite has more of them."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from contextlib import closing, nullcontext, suppress

import pytest

from sokovan.adapters.process.ports import port_connection
from sokovan.adapters.process.ports.kernel_listeners import KnownListeners, sockets_of
from sokovan.adapters.process.ports.port_connection import PortConnection
from sokovan.adapters.process.shim.processes import look_up
from sokovan.adapters.process.threads import Threads


async def test_a_connection_whose_port_is_known_looks_at_no_process_again(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, known, looked = Threads(), KnownListeners(), list[int]()
    shim = look_up(os.getppid())

    def noted(pid: int) -> set[int]:
        looked.append(pid)
        return sockets_of(pid)

    monkeypatch.setattr(port_connection, "sockets_of", noted)
    with socket.create_server(("127.0.0.1", 0)) as listener, closing(threads):
        port = listener.getsockname()[1]

        async def connected() -> bool:
            """Whether processes were looked at for a connection."""
            looked.clear()
            async with PortConnection(port, lambda: shim, threads=threads, presence=nullcontext(), known=known):
                listener.accept()[0].close()
            return bool(looked)

        assert [await connected(), await connected()] == [True, False]


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
