"""`sokovan port-forward`: local ports that lead to ports of a session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple

from sokovan.cli.arguments.parameters import Parameter
from sokovan.cli.commands.options import DEFAULT_SERVER, ServerOptions
from sokovan.cli.exit_codes import OK
from sokovan.cli.output import print_status
from sokovan.sdk.errors import AlreadyEnded, ClientProblem, InvalidSetting

if TYPE_CHECKING:
    from sokovan.sdk.aio.client import AsyncClient
    from sokovan.sdk.aio.execution import AsyncExecution
    from sokovan.wire.api.sessions import SessionView

READ_BYTES = 65536
PORT_MAX = 65_535


class Forwarding(NamedTuple):
    """A local port, 0 for any free one, and the port of the session behind it."""

    local: int
    port: str


def port_forward(
    name: str,
    /,
    *ports: str,
    kernel: int = 0,
    address: Annotated[str, Parameter(name="--address")] = "127.0.0.1",
    server: ServerOptions = DEFAULT_SERVER,
) -> int:
    """Make ports of a session available on this machine.

    The ports are those that the session was given with --port; without PORT,
    all of them. Runs until Ctrl-C.

    For example:
      sokovan run -d -n web --port http -- python serve.py
      sokovan port-forward web
      sokovan port-forward web 8080:http

    Parameters
    ----------
    name
        Session name or ID, or a unique prefix of one.
    ports
        Port of the session, by name or number: PORT or LOCAL:PORT.
    kernel
        Kernel of the session, counted from 0.
    address
        Local address to listen on.
    """
    if kernel < 0:
        raise InvalidSetting(f"--kernel {kernel} is negative", hint="kernels are counted from 0")
    wanted = [read_forwarding(text) for text in ports]
    try:
        with suppress(KeyboardInterrupt):
            asyncio.run(_forward(server, name, wanted, kernel=kernel, address=address))
    except* ClientProblem as problems:
        raise problems.exceptions[0] from None
    return OK


def read_forwarding(text: str) -> Forwarding:
    """Read PORT or LOCAL:PORT. Raises InvalidSetting."""
    local, colon, port = text.rpartition(":")
    if not port or (colon and not (local.isascii() and local.isdigit() and 0 < int(local) <= PORT_MAX)):
        raise InvalidSetting(f"{text!r} is no port", hint="write PORT or LOCAL:PORT, as 8080:http")
    return Forwarding(int(local) if colon else 0, port)


async def _forward(server: ServerOptions, name: str, wanted: list[Forwarding], *, kernel: int, address: str) -> None:
    from sokovan.sdk.aio.client import AsyncClient  # noqa: PLC0415  # the HTTP client loads only here

    async with AsyncClient(server.url, context=server.context) as client, asyncio.TaskGroup() as connections:
        session = await client.sessions.get(name)
        for one in await known_ports(client, session, wanted, kernel):
            to_port = partial(client.kernels.connect, session.id, one.port, kernel=kernel)
            listener = await _listen(one, to_port, connections, address=address)
            host, port = listener.sockets[0].getsockname()[:2]
            print_status(f"{host}:{port} -> {session.name}:{one.port}")
        print_status("Ctrl-C ends it")
        await asyncio.Event().wait()


async def known_ports(
    client: AsyncClient, session: SessionView, wanted: list[Forwarding], kernel: int
) -> list[Forwarding]:
    """The wanted ports, or all of the kernel. Raises InvalidSetting, AlreadyEnded."""
    from sokovan.sdk.core.states import is_final  # noqa: PLC0415  # it loads with the client

    if is_final(session):
        raise AlreadyEnded(
            f"session {session.name} has ended ({session.status}): nothing listens at its ports",
            hint=f"its output is kept: sokovan logs {session.name}; start another: sokovan run",
        )
    kernels = await client.kernels.list(session.id)
    ports = next((one.ports for one in kernels if one.index == kernel), {})
    if not ports:
        raise InvalidSetting(
            f"kernel {kernel} of session {session.name} has no ports", hint="request them: sokovan run --port NAME"
        )
    for one in wanted:
        if one.port not in ports and one.port not in map(str, ports.values()):
            raise InvalidSetting(
                f"session {session.name} has no port {one.port}", hint=f"its ports are {', '.join(sorted(ports))}"
            )
    return wanted or [Forwarding(0, port) for port in sorted(ports)]


async def _listen(
    one: Forwarding, to_port: Callable[[], Awaitable[AsyncExecution]], connections: asyncio.TaskGroup, *, address: str
) -> asyncio.Server:
    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.create_task(_serve(one, to_port, reader, writer))

    try:
        return await asyncio.start_server(accept, address, one.local, limit=READ_BYTES)
    except OSError as error:
        problem = f"{address}:{one.local} cannot be listened on: {error.strerror or error}"
        raise InvalidSetting(problem, hint="choose another local port: LOCAL:PORT") from error


async def _serve(
    one: Forwarding,
    to_port: Callable[[], Awaitable[AsyncExecution]],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Serve one local connection; a failure ends it and no other."""
    try:
        async with await to_port() as connection:
            await relay(connection, reader, writer)
    except ClientProblem as problem:
        print_status(f"{one.port}: {problem.message}")
    except OSError:
        pass  # the local side has gone
    finally:
        writer.close()


async def relay(
    connection: AsyncExecution,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    *,
    begun: asyncio.Event | None = None,
) -> None:
    """Copy in both directions until the session's side ends, or the local one does.

    `begun` is set when the session's side has sent something.
    """
    sending = asyncio.create_task(_send(connection, reader))
    try:
        async for piece in connection:
            if begun is not None:
                begun.set()
            writer.write(piece)
            await writer.drain()
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def _send(connection: AsyncExecution, reader: asyncio.StreamReader) -> None:
    while piece := await reader.read(READ_BYTES):
        await connection.write(piece)
    await connection.end_input()
