"""The proxy of `sokovan up`: a process of its own, started when it is needed.

The server holds the listening socket and passes it on: connections wait in its queue while
the process starts, also after a crash. The process outlives a server that is killed, and
serves on. The next server starts another one at once, while it ends the requests that it has.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from sokovan.entrypoints.embedded.web_server import bound_socket
from sokovan.entrypoints.proxies.folder_lock import holders_of
from sokovan.entrypoints.proxies.listener_copies import taken_listener
from sokovan.ports.environment import Clock

# Time between two looks whether there is a deployment.
LOOK_S = 1.0
# How long the port of a predecessor is waited for.
PORT_WAIT_S, PORT_TRY_S = 3.0, 0.05
# Time that the process gets to end its requests when the server stops.
STOP_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOptions:
    """Options of the proxy of this server; `manager` is the URL of its API.

    `authority` is the file with the certificate of the authority of other machines' agents.
    """

    manager: str
    token_file: Path
    root: Path
    workers: int = 1
    authority: Path | None = None

    def command(self, descriptor: int) -> list[str]:
        """The command line of the process."""
        # -P: modules in the working directory are not imported.
        program = [sys.executable, "-P", "-m", "sokovan", "__proxy", self.manager]
        options = ["--token-file", str(self.token_file), "--root", str(self.root), "--workers", str(self.workers)]
        trust = [] if self.authority is None else ["--ca", str(self.authority)]
        return [*program, "--listen", f"fd:{descriptor}", *options, *trust]


class EmbeddedGateway:
    """Runs the proxy of this server; `wanted` says whether there is a deployment."""

    def __init__(
        self,
        listener: socket.socket,
        options: GatewayOptions,
        *,
        wanted: Callable[[], Awaitable[bool]],
        clock: Clock,
        log: Callable[[str], None],
    ) -> None:
        self._listener, self._options = listener, options
        self._wanted, self._clock, self._log = wanted, clock, log
        self._needed = False

    async def run(self) -> None:
        """Wait until the proxy is needed, then run it until it ends."""
        await self._until_needed()
        descriptor = self._listener.fileno()
        process = await asyncio.create_subprocess_exec(
            *self._options.command(descriptor),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            pass_fds=(descriptor,),
            start_new_session=True,
        )
        try:
            if process.stderr is not None:
                async for line in process.stderr:
                    self._log(f"proxy: {line.decode(errors='replace').rstrip()}")
            await process.wait()
        finally:
            await _stop(process)

    async def _until_needed(self) -> None:
        """Return when a client connects, or when there is a deployment."""
        loop, called = asyncio.get_running_loop(), asyncio.Event()
        if self._needed:
            return
        loop.add_reader(self._listener.fileno(), called.set)
        try:
            while not called.is_set() and not await self._wanted():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await called.wait()
        finally:
            loop.remove_reader(self._listener.fileno())
        self._needed = True


async def _stop(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
        try:
            async with asyncio.timeout(STOP_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


def gateway_listener(port: int, root: Path, *, host: str, log: Callable[[str], None]) -> socket.socket:
    """The listening socket of the gateway. Raises NoFreePort.

    The proxy of a server that was killed is asked to end. Its socket is taken over, so that its
    port is open all the time; one that does not give it is waited for.
    """
    taken = taken_listener(root)
    if taken is not None and (not port or taken.getsockname()[:2] == (host, port)):
        end_predecessor(root, log)
        return taken
    if taken is not None:
        taken.close()
    tries = round(PORT_WAIT_S / PORT_TRY_S) if end_predecessor(root, log) and port else 0
    pause = threading.Event()
    for _ in range(tries):
        found = bound_socket(host, port)
        if found.getsockname()[1] == port:
            return found
        found.close()
        pause.wait(PORT_TRY_S)
    return bound_socket(host, port)


def end_predecessor(root: Path, log: Callable[[str], None]) -> bool:
    """Ask the proxies of servers that were killed to end; false if there is none."""
    processes = holders_of(root)
    for process in processes:
        log(f"the proxy of the server before, process {process}, is asked to end")
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)
    return bool(processes)
