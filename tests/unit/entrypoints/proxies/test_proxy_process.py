"""The proxy's process: its folder, its port, and that it serves from its disk."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from sokovan.entrypoints.proxies import proxy_process
from sokovan.entrypoints.proxies.proxy_folder import ProxyFolder
from sokovan.entrypoints.proxies.proxy_process import ProxyOptions, ProxyPortTaken, listening_socket, serve
from sokovan.wire.serving.serving_codec import encode
from tests.unit.proxy.running_proxy import (
    LIMIT_S,
    call,
    endpoint_of,
    engines,
    json_answer,
    route_of,
    status_of,
    table_of,
)


def test_a_port_that_is_in_use_is_said_so() -> None:
    with listening_socket("127.0.0.1", 0) as taken:
        taken.listen()
        with pytest.raises(ProxyPortTaken, match=r"cannot listen on 127\.0\.0\.1"):
            listening_socket("127.0.0.1", taken.getsockname()[1])


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
        listener = listening_socket("127.0.0.1", 0)
        port = listener.getsockname()[1]
        # Nothing listens there: the manager is away.
        options = ProxyOptions(managers=("http://127.0.0.1:9",), token="t", root=tmp_path)  # noqa: S106  # of no server
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


def children_of(process: int) -> list[int]:
    listed = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii")
    return [int(word) for word in listed.split()]


@pytest.mark.slow
async def test_a_connection_that_no_process_has_taken_outlives_all_of_them(tmp_path: Path) -> None:
    async with asyncio.timeout(LIMIT_S), engines(json_answer()) as (engine,):
        (tmp_path / "table.json").write_bytes(encode(table_of(route_of(endpoint_of(engine)))))
        words = ["proxy", "--listen", "127.0.0.1:0", "--root", str(tmp_path), "--workers", "2"]
        proxy = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "sokovan", *words, stderr=asyncio.subprocess.PIPE, start_new_session=True
        )
        assert proxy.stderr is not None
        try:
            ready = [await proxy.stderr.readline() for _ in range(2)]
            workers = children_of(proxy.pid)
            for worker in workers:
                os.kill(worker, signal.SIGSTOP)
            reader, writer = await asyncio.open_connection("127.0.0.1", int(ready[0].rpartition(b":")[2]))
            writer.write(call())
            for worker in workers:
                os.kill(worker, signal.SIGKILL)
            answer = await reader.read()
            writer.transport.abort()
            proxy.terminate()
            assert await proxy.wait() == 0
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(proxy.pid, signal.SIGKILL)

    assert status_of(answer) == 200
    assert len(workers) == 2


async def test_the_proxy_of_a_server_serves_at_once_while_the_one_before_drains(tmp_path: Path) -> None:
    ready, lines = asyncio.Event(), list[str]()

    def log(line: str) -> None:
        lines.append(line)
        ready.set()

    drains = ProxyFolder(tmp_path)
    async with engines(json_answer()) as (engine,):
        drains.save_table(encode(table_of(route_of(endpoint_of(engine)), version=8)))
        listener = listening_socket("127.0.0.1", 0)
        options = ProxyOptions(managers=(), token="", root=tmp_path, descriptor=listener.fileno())
        serving = asyncio.create_task(serve(options, listener, log))
        async with asyncio.timeout(LIMIT_S):
            await ready.wait()
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            writer.write(call())
            answer = await reader.read()
        writer.transport.abort()
        os.kill(os.getpid(), signal.SIGTERM)
        await serving
        listener.close()
    drains.close()

    assert status_of(answer) == 200, lines
    own = ProxyFolder(tmp_path / "next-1")
    assert own.ledger.unsent(), "its usage has numbers and an identity of its own"
    assert own.identity.proxy_id != drains.identity.proxy_id
    own.close()


async def test_a_process_whose_parent_was_killed_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_process, "WATCH_S", 0.01)
    listener = listening_socket("127.0.0.1", 0)
    ready = asyncio.Event()
    options = ProxyOptions(managers=(), token="", root=tmp_path, worker=1, parent=os.getppid())
    serving = asyncio.create_task(serve(options, listener, lambda _line: ready.set()))
    await ready.wait()
    assert (tmp_path / "worker-1" / "lock").exists()
    monkeypatch.setattr(os, "getppid", lambda: 1)
    async with asyncio.timeout(LIMIT_S):
        await serving
    listener.close()


async def test_a_proxy_ends_with_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_process, "WATCH_S", 0.01)
    listener = listening_socket("127.0.0.1", 0)
    ready = asyncio.Event()
    options = ProxyOptions(managers=(), token="", root=tmp_path / "proxy")
    serving = asyncio.create_task(serve(options, listener, lambda _line: ready.set()))
    await ready.wait()
    shutil.rmtree(tmp_path / "proxy")
    async with asyncio.timeout(60):
        await serving
    listener.close()

    assert not (tmp_path / "proxy").exists()
