"""Runs one server as several processes: the manager, and those of its API.

The first process opens the sockets and the lock, starts the others again when they end, and
does nothing else: connections wait in the sockets while a process is away.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from sokovan.domain.errors import SokovanError
from sokovan.entrypoints.cluster.api_listener import ApiListener, remote_socket
from sokovan.entrypoints.embedded.data_folder import PRIVATE_FOLDER, DataFolder
from sokovan.entrypoints.embedded.web_server import bound_socket
from sokovan.entrypoints.proxies.proxy_workers import run_workers
from sokovan.ports.environment import Clock

MANAGER = "manager"
FOLDER = "processes"
HOST = "127.0.0.1"
PARENT_WATCH_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSockets:
    """The sockets that the processes share.

    `relays` are those between them, by process;
    `folder` is the open folder of these, and `parent` the process that opened all.
    """

    api: socket.socket
    remote: socket.socket | None
    relays: dict[str, socket.socket]
    folder: int
    parent: int

    @property
    def workers(self) -> int:
        """The number of processes of the API."""
        return len(self.relays) - 1

    def address(self, process: str) -> str:
        """The address of a process, short for any depth of the folder."""
        return f"/proc/self/fd/{self.folder}/{process}.sock"

    async def watch_parent(self, clock: Clock, stop: Callable[[], None]) -> None:
        """Call `stop` if the first process was killed: no other asks this one to end."""
        while os.getppid() == self.parent:
            await clock.sleep(PARENT_WATCH_S)
        stop()


def process_names(workers: int) -> tuple[str, ...]:
    """The names of the processes; the manager is the first."""
    return (MANAGER, *(f"api-{number}" for number in range(1, workers + 1)))


def open_sockets(
    folder: DataFolder, stack: ExitStack, *, port: int, workers: int, remote: ApiListener | None
) -> ServerSockets:
    """Open the sockets of a server; closing `stack` closes them. Raises NoFreePort."""
    place = folder.root / FOLDER
    place.mkdir(exist_ok=True, mode=PRIVATE_FOLDER)
    opened = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    stack.callback(os.close, opened)
    relays = {}
    for name in process_names(workers):
        (place / f"{name}.sock").unlink(missing_ok=True)
        relays[name] = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        relays[name].bind(f"/proc/self/fd/{opened}/{name}.sock")
        relays[name].listen()
        stack.callback((place / f"{name}.sock").unlink, missing_ok=True)
    return ServerSockets(
        api=stack.enter_context(bound_socket(HOST, port)),
        remote=stack.enter_context(remote_socket(remote)) if remote is not None else None,
        relays=relays,
        folder=opened,
        parent=os.getpid(),
    )


def run_processes(
    sockets: ServerSockets,
    *,
    manager: Callable[[], int],
    api: Callable[[str], int],
    echo: Callable[[str], None],
) -> int:
    """Run the processes until SIGINT or SIGTERM; the manager ends last."""
    names = tuple(sockets.relays)

    def work(number: int) -> int:
        try:
            return api(names[number]) if number else manager()
        except SokovanError as error:
            echo(f"{names[number]}: {error}")
        except Exception as error:  # noqa: BLE001  # the process would end without a line
            echo(f"{names[number]}: {error!r}")
        return 1

    return run_workers(len(names), work, log=echo, name=lambda number: f"process {names[number]}", last=0)
