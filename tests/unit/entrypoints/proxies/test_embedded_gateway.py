"""The proxy of `sokovan up`: started when it is needed, and its predecessor ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.entrypoints.proxies.embedded_gateway import EmbeddedGateway, GatewayOptions, gateway_listener
from sokovan.wire.serving.serving_codec import encode
from tests.unit.proxy.running_proxy import (
    LIMIT_S,
    SeenRequest,
    call,
    endpoint_of,
    engines,
    json_answer,
    route_of,
    status_of,
    table_of,
)

HOLD = """
import os, signal, socket, sys
from pathlib import Path
from sokovan.entrypoints.proxies.proxy_folder import ProxyFolder
folder = ProxyFolder(Path(sys.argv[1]))
listener = socket.create_server(("127.0.0.1", int(sys.argv[2])))
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
os.write(1, b"holds\\n")
signal.sigwait({signal.SIGTERM})
"""


class Recorded(GatewayOptions):
    """Options of a process that only says that it runs."""

    def command(self, descriptor: int) -> list[str]:
        program = "import sys, os; os.write(2, b'started with ' + sys.argv[1].encode() + b'\\n'); sys.stdin.read()"
        return [sys.executable, "-c", program + "; import signal; signal.pause()", str(descriptor)]


@contextlib.asynccontextmanager
async def gateway(tmp_path: Path, wanted: list[bool]) -> AsyncIterator[tuple[int, list[str]]]:
    lines: list[str] = []

    async def is_wanted() -> bool:
        return wanted[0]

    with socket.create_server(("127.0.0.1", 0)) as listener:
        options = Recorded(manager="http://127.0.0.1:9", token_file=tmp_path / "t", root=tmp_path)
        found = EmbeddedGateway(listener, options, wanted=is_wanted, clock=SystemClock(), log=lines.append)
        running = asyncio.create_task(found.run())
        try:
            yield listener.getsockname()[1], lines
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def until_started(lines: list[str]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not lines:  # what a process writes has no event here
            await SystemClock().sleep(0.01)


async def test_no_process_runs_before_it_is_needed_and_a_client_needs_it(tmp_path: Path) -> None:
    async with gateway(tmp_path, [False]) as (port, lines):
        assert lines == []
        _reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await until_started(lines)

        assert lines[0].startswith("proxy: started with ")
        writer.transport.abort()


async def test_a_deployment_needs_it_too(tmp_path: Path) -> None:
    async with gateway(tmp_path, [True]) as (_port, lines):
        await until_started(lines)


def test_the_command_line_has_no_secret(tmp_path: Path) -> None:
    options = GatewayOptions(manager="http://127.0.0.1:1", token_file=tmp_path / "token", root=tmp_path, workers=2)
    words = options.command(7)

    assert words[words.index("--listen") + 1] == "fd:7"
    assert words[words.index("--token-file") + 1] == str(tmp_path / "token")


@pytest.mark.slow
@pytest.mark.parametrize("port", [0, 1])
def test_a_port_is_taken_from_the_proxy_of_a_killed_server(tmp_path: Path, port: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        wanted = free.getsockname()[1] if port else 0
    said: list[str] = []
    if not wanted:
        gateway_listener(0, tmp_path, host="127.0.0.1", log=said.append).close()
        assert said == []
        return
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path), str(wanted)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "holds\n"
    listener = gateway_listener(wanted, tmp_path, host="127.0.0.1", log=said.append)

    assert listener.getsockname()[1] == wanted
    assert said == [f"the proxy of the server before, process {process.pid}, is asked to end"]
    listener.close()
    process.wait(LIMIT_S)
    process.stdout.close()


@pytest.mark.slow
@pytest.mark.parametrize("wanted", ["the same port", "any port"])
def test_the_socket_of_the_proxy_of_a_killed_server_is_taken_over_open(tmp_path: Path, wanted: str) -> None:
    root = tmp_path / ("long" * 30)
    said: list[str] = []
    first = gateway_listener(0, root, host="127.0.0.1", log=said.append)
    host, port = first.getsockname()
    program = [sys.executable, "-m", "sokovan", "proxy", "--listen", f"fd:{first.fileno()}", "--root", str(root)]
    proxy = subprocess.Popen(program, stderr=subprocess.PIPE, text=True, pass_fds=(first.fileno(),))
    assert proxy.stderr is not None
    assert "ready" in proxy.stderr.readline()
    first.close()

    with gateway_listener(port if wanted == "the same port" else 0, root, host="127.0.0.1", log=said.append) as taken:
        assert taken.getsockname() == (host, port)
        assert said == [f"the proxy of the server before, process {proxy.pid}, is asked to end"]
        assert proxy.wait(LIMIT_S) == 0
        # Nobody accepts now, and still nobody is refused.
        socket.create_connection((host, port)).close()
    proxy.stderr.close()
    assert not list(root.glob("*.sock"))


@contextlib.asynccontextmanager
async def started(root: Path, listener: socket.socket, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A proxy that is ready, on a socket of this process; none of its processes is left at the end."""
    descriptor = listener.fileno()
    program = [sys.executable, "-m", "sokovan", "proxy", "--listen", f"fd:{descriptor}", "--root", str(root), *words]
    proxy = await asyncio.create_subprocess_exec(
        *program, stderr=asyncio.subprocess.PIPE, pass_fds=(descriptor,), start_new_session=True
    )
    assert proxy.stderr is not None
    try:
        assert b"ready" in await proxy.stderr.readline()
        yield proxy
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(proxy.pid, signal.SIGKILL)
        await proxy.wait()


async def asked(port: int) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(call())
    answer = await reader.read()
    writer.transport.abort()
    return status_of(answer)


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
async def test_requests_are_answered_at_once_while_the_proxy_before_ends_a_stream(tmp_path: Path, workers: str) -> None:
    goes_on = asyncio.Event()

    async def answer(request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        if b"stream" not in request.body:
            await json_answer()(request, writer)
            return
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nab")
        await goes_on.wait()
        writer.write(b"cd")

    async with asyncio.timeout(LIMIT_S), engines(answer) as (engine,), contextlib.AsyncExitStack() as stack:
        (tmp_path / "table.json").write_bytes(encode(table_of(route_of(endpoint_of(engine)))))
        first = gateway_listener(0, tmp_path, host="127.0.0.1", log=lambda _line: None)
        port = first.getsockname()[1]
        before = await stack.enter_async_context(started(tmp_path, first, "--workers", workers))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(call(body=b'{"model": "chat", "messages": [], "stream": true}'))
        assert (await reader.readuntil(b"ab")).startswith(b"HTTP/1.1 200")
        first.close()  # the server is killed, and starts again
        listener = gateway_listener(0, tmp_path, host="127.0.0.1", log=lambda _line: None)
        await stack.enter_async_context(started(tmp_path, listener, "--workers", workers))

        assert await asked(port) == 200
        assert before.returncode is None
        goes_on.set()
        assert await reader.read() == b"cd"
        assert await before.wait() == 0
        writer.transport.abort()
        listener.close()
