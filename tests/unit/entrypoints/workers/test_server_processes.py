"""Sockets and names of the processes of a server; real ones run in tests/acceptance."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from sokovan.adapters.local.clock import SystemClock
from sokovan.entrypoints.embedded.data_folder import DataFolder
from sokovan.entrypoints.workers.server_processes import open_sockets, process_names


def test_processes_share_one_port_and_have_a_socket_each_also_in_a_deep_folder(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / ("deep" * 30) / "data")
    with ExitStack() as stack:
        sockets = open_sockets(folder, stack, port=0, workers=2, remote=None)
        assert sockets.workers == 2
        assert tuple(sockets.relays) == process_names(2) == ("manager", "api-1", "api-2")
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(sockets.address("api-2"))
        with socket.create_connection(sockets.api.getsockname()):
            pass
        assert (folder.root / "processes").stat().st_mode & 0o077 == 0
    assert not list((folder.root / "processes").iterdir())


def test_sockets_that_a_killed_server_left_are_replaced(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "data")
    (folder.root / "processes").mkdir()
    (folder.root / "processes" / "manager.sock").touch()
    with ExitStack() as stack:
        assert open_sockets(folder, stack, port=0, workers=1, remote=None).workers == 1


async def test_a_process_stops_once_the_first_one_was_killed(tmp_path: Path) -> None:
    stopped = asyncio.Event()
    with ExitStack() as stack:
        sockets = open_sockets(DataFolder(tmp_path / "data"), stack, port=0, workers=1, remote=None)
        # This process is not a child of itself, as if its parent had changed.
        await replace(sockets, parent=os.getpid()).watch_parent(SystemClock(), stopped.set)
    assert stopped.is_set()
