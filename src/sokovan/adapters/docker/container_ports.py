"""Connections to ports of containers that have a network of their own."""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import threading

from sokovan.adapters.process.ports.port_connection import LOOPBACK, READ_BYTES, PortConnection
from sokovan.adapters.process.shim.processes import Process
from sokovan.adapters.process.threads import Work
from sokovan.ports.runtime import RuntimeFailure

_NETWORK = 0x40000000  # CLONE_NEWNET


class ContainerPortConnection(PortConnection):
    """KernelExecution over a connection inside the network of a container.

    No other program has a port there, so that its owner is not looked for.
    """

    def _require_listener(self) -> None:
        self._first()

    async def _opened(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        found = await self._threads.run(Work.COMMAND, lambda: socket_in(self._first().pid))
        try:
            await asyncio.get_running_loop().sock_connect(found, (LOOPBACK, self._port))
            return await asyncio.open_connection(sock=found, limit=READ_BYTES)
        except BaseException:
            found.close()
            raise

    def _first(self) -> Process:
        process = self._shim()
        if process is None:
            raise RuntimeFailure("the kernel does not run", hint="connect to a port while its kernel runs")
        return process


def socket_in(pid: int) -> socket.socket:
    """A socket in the network of a process. Raises RuntimeFailure."""
    found: list[socket.socket | OSError] = []

    def enter() -> None:
        # A thread that ends afterwards: it never returns to the machine's network.
        try:
            handle = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            try:
                if ctypes.CDLL(None, use_errno=True).setns(handle, _NETWORK) != 0:
                    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
                made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
                made.setblocking(False)  # noqa: FBT003  # the standard library's own signature
                found.append(made)
            finally:
                os.close(handle)
        except OSError as error:
            found.append(error)

    thread = threading.Thread(target=enter, name="network of a container")
    thread.start()
    thread.join()
    if isinstance(found[0], OSError):
        raise RuntimeFailure(
            f"the network of the container cannot be entered: {found[0].strerror}",
            hint="an agent with agent.session_networks runs as root",
        )
    return found[0]
