"""Listening sockets: what is written is sent at once, and no port is bound twice."""

from __future__ import annotations

import asyncio
import socket

import pytest

from sokovan.entrypoints.web.listener import bound_listener


async def test_small_parts_of_a_response_do_not_wait_for_each_other() -> None:
    accepted: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
    server = await asyncio.start_server(lambda _r, w: accepted.put_nowait(w), sock=bound_listener("127.0.0.1", 0))
    async with server:
        _, client = await asyncio.open_connection(*server.sockets[0].getsockname())
        served = await accepted.get()
        assert served.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        for writer in (client, served):
            writer.close()
            await writer.wait_closed()


def test_a_port_at_which_one_listens_is_not_bound_twice() -> None:
    with bound_listener("127.0.0.1", 0, backlog=8) as first:
        port = first.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            bound_listener("127.0.0.1", port)
