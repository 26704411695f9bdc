"""`sokovan open`: a web application of a session, in the browser of this machine."""

from __future__ import annotations

import asyncio
import secrets  # noqa: TID251  # tickets must be unpredictable
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated

from sokovan.cli.arguments.parameters import Parameter
from sokovan.cli.commands.options import DEFAULT_SERVER, ServerOptions
from sokovan.cli.commands.serving.browser_gate import (
    HEAD_BYTES_MAX,
    OPEN_PATH,
    TICKET_S,
    BrowserGate,
    Passed,
    unreachable,
)
from sokovan.cli.commands.serving.port_forward import Forwarding, known_ports, relay
from sokovan.cli.exit_codes import OK
from sokovan.cli.output import flush_output, print_data, print_status
from sokovan.cli.prompts import is_interactive
from sokovan.sdk.environment import SystemEnvironment
from sokovan.sdk.errors import ClientProblem, InvalidSetting

if TYPE_CHECKING:
    from sokovan.sdk.aio.execution import AsyncExecution

HEAD_S = 10.0
ADDRESS = "127.0.0.1"
# Of a part of a host name.
LABEL_MAX = 63


def open_app(
    name: str,
    port: str | None = None,
    /,
    *,
    kernel: int = 0,
    local: Annotated[int, Parameter(name="--local-port")] = 0,
    browser: bool = True,
    server: ServerOptions = DEFAULT_SERVER,
) -> int:
    """Open a web application of a session in the browser.

    Prints an address that works once, for 60 seconds, and runs until Ctrl-C.
    The application has an origin of its own, PORT--SESSION.localhost, and only
    the browser that used the address can use it.

    For example:
      sokovan open lab
      sokovan open lab web --local-port 8888 --no-browser

    Parameters
    ----------
    name
        Session name or ID, or a unique prefix of one.
    port
        Port of the session, by name or number; the only one, if not given.
    kernel
        Kernel of the session, counted from 0.
    local
        Local port to listen on; any free one, if not given.
    browser
        Start the browser, if this is a terminal.
    """
    if kernel < 0:
        raise InvalidSetting(f"--kernel {kernel} is negative", hint="kernels are counted from 0")
    if not 0 <= local <= 65_535:
        raise InvalidSetting(f"--local-port {local} is no port", hint="give a number up to 65535")
    wanted = [] if port is None else [Forwarding(local, port)]
    try:
        with suppress(KeyboardInterrupt):
            asyncio.run(_open(server, name, wanted, kernel=kernel, local=local, browser=browser and is_interactive()))
    except* ClientProblem as problems:
        raise problems.exceptions[0] from None
    return OK


async def _open(
    server: ServerOptions, name: str, wanted: list[Forwarding], *, kernel: int, local: int, browser: bool
) -> None:
    from sokovan.sdk.aio.client import AsyncClient  # noqa: PLC0415  # the HTTP client loads only here

    async with AsyncClient(server.url, context=server.context) as client, asyncio.TaskGroup() as connections:
        session = await client.sessions.get(name)
        found = await known_ports(client, session, wanted, kernel)
        if len(found) != 1:
            raise InvalidSetting(
                f"session {session.name} has several ports", hint=f"name one: {', '.join(one.port for one in found)}"
            )
        to_port = partial(client.kernels.connect, session.id, found[0].port, kernel=kernel)
        label = f"{found[0].port}--{session.id}"[-LABEL_MAX:].lstrip("-")
        host, ticket = await _listening(label, local, to_port, connections)
        url = f"http://{host}{OPEN_PATH}?ticket={ticket}"
        print_data(url)
        flush_output()
        print_status("the address works once; Ctrl-C ends it")
        if browser:
            import webbrowser  # noqa: PLC0415  # it loads only where a browser is started

            await asyncio.to_thread(webbrowser.open, url)
        await asyncio.Event().wait()


async def _listening(
    label: str, local: int, to_port: Callable[[], Awaitable[AsyncExecution]], connections: asyncio.TaskGroup
) -> tuple[str, str]:
    """Listen on this machine; the host of the application, and its ticket."""
    ticket, gates = secrets.token_urlsafe(32), list[BrowserGate]()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.create_task(_serve(gates[0], to_port, reader, writer))

    try:
        listener = await asyncio.start_server(accept, ADDRESS, local, limit=HEAD_BYTES_MAX, start_serving=False)
    except OSError as error:
        problem = f"{ADDRESS}:{local} cannot be listened on: {error.strerror or error}"
        raise InvalidSetting(problem, hint="choose another --local-port") from error
    host = f"{label.lower()}.localhost:{listener.sockets[0].getsockname()[1]}"
    ends_s = SystemEnvironment().now_s() + TICKET_S
    gates.append(BrowserGate(host, ticket=ticket, cookie=secrets.token_urlsafe(32), ends_s=ends_s))
    await listener.start_serving()
    return host, ticket


async def _serve(
    gate: BrowserGate,
    to_port: Callable[[], Awaitable[AsyncExecution]],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Serve one request; a failure ends it and no other."""
    answered = asyncio.Event()
    try:
        async with asyncio.timeout(HEAD_S):
            head = await reader.readuntil(b"\r\n\r\n")
        decided = gate.decide(head, SystemEnvironment().now_s())
        if not isinstance(decided, Passed):
            writer.write(decided)
            await writer.drain()
            return
        async with await to_port() as connection:
            await connection.write(decided.head)
            await relay(connection, reader, writer, begun=answered)
    except ClientProblem as problem:
        print_status(problem.message)
        if not answered.is_set():
            writer.write(unreachable(problem.message))
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass  # the browser has gone, or sent no request
    finally:
        writer.close()
