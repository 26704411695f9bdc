"""The listening socket of a gateway goes from one process to the next."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from sokovan.entrypoints.proxies.listener_copies import SOCKET_FILE, ListenerCopies, taken_listener
from sokovan.entrypoints.web.listener import bound_listener


async def test_a_copy_stays_open_when_the_first_is_closed(tmp_path: Path) -> None:
    listener = bound_listener("127.0.0.1", 0, backlog=8)
    copies = ListenerCopies(tmp_path, listener)
    taken = await asyncio.to_thread(taken_listener, tmp_path)
    address = listener.getsockname()
    copies.close()
    listener.close()

    assert taken is not None
    with taken:
        assert taken.getsockname() == address
        socket.create_connection(address).close()
    assert not (tmp_path / SOCKET_FILE).exists()


async def test_the_socket_of_several_processes_is_found_in_the_folder_of_one(tmp_path: Path) -> None:
    (tmp_path / "worker-1").mkdir()
    with bound_listener("127.0.0.1", 0, backlog=8) as listener:
        copies = ListenerCopies(tmp_path / "worker-1", listener)
        taken = await asyncio.to_thread(taken_listener, tmp_path)
        copies.close()

        assert taken is not None
        taken.close()


def test_without_a_proxy_there_is_no_socket(tmp_path: Path) -> None:
    (tmp_path / SOCKET_FILE).touch()

    assert taken_listener(tmp_path) is None
    assert taken_listener(tmp_path / "missing") is None
