"""The proxy's process: its folder, its port, and that it serves from its disk."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from pathlib import Path

import pytest

from sokovan.entrypoints.proxies import proxy_process
from sokovan.entrypoints.proxies.proxy_folder import ProxyFolder
from sokovan.entrypoints.proxies.proxy_process import ProxyOptions, ProxyPortTaken, listening_socket, serve
from sokovan.wire.serving.serving_codec import encode
from tests.unit.proxy.running_proxy import call, endpoint_of, engines, json_answer, route_of, status_of, table_of


def test_a_port_that_is_in_use_is_said_so() -> None:
    with listening_socket("127.0.0.1", 0, shared=False) as taken:
        taken.listen()
        with pytest.raises(ProxyPortTaken, match=r"cannot listen on 127\.0\.0\.1"):
            listening_socket("127.0.0.1", taken.getsockname()[1], shared=False)


def test_processes_may_share_a_port() -> None:
    with listening_socket("127.0.0.1", 0, shared=True) as first:
        port = first.getsockname()[1]
        with listening_socket("127.0.0.1", port, shared=True) as second:
            assert second.getsockname()[1] == port


@pytest.mark.slow
async def test_a_proxy_without_its_manager_serves_from_its_disk(tmp_path: Path) -> None:
    lines: list[str] = []
    ready, away = asyncio.Event(), asyncio.Event()

    def log(line: str) -> None:
        lines.append(line)
        if "ready" in line:
            ready.set()
        if "away" in line:
            away.set()
            raise BrokenPipeError  # the server that read its lines was killed

    async with engines(json_answer()) as (engine,):
        (tmp_path / "table.json").write_bytes(encode(table_of(route_of(endpoint_of(engine)), version=8)))
        listener = listening_socket("127.0.0.1", 0, shared=False)
        port = listener.getsockname()[1]
        # Nothing listens there: the manager is away.
        options = ProxyOptions(manager="http://127.0.0.1:9", token="t", root=tmp_path)  # noqa: S106  # of no server
        serving = asyncio.create_task(serve(options, listener, log))
        await ready.wait()
        await away.wait()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(call())
        answer = await reader.read()
        writer.transport.abort()
        os.kill(os.getpid(), signal.SIGTERM)
        await serving
        listener.close()

    assert status_of(answer) == 200
    assert lines[0] == f"the gateway is ready at http://127.0.0.1:{port}"
    folder = ProxyFolder(tmp_path)
    assert folder.ledger.unsent(), "the usage of a stopped proxy is kept"
    folder.close()


async def test_a_proxy_ends_with_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_process, "WATCH_S", 0.01)
    listener = listening_socket("127.0.0.1", 0, shared=False)
    ready = asyncio.Event()
    options = ProxyOptions(manager="", token="", root=tmp_path / "proxy")
    serving = asyncio.create_task(serve(options, listener, lambda _line: ready.set()))
    await ready.wait()
    shutil.rmtree(tmp_path / "proxy")
    async with asyncio.timeout(60):
        await serving
    listener.close()

    assert not (tmp_path / "proxy").exists()
