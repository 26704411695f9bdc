"""The proxy's process: its folder, its port, and that it serves from its disk."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from sokovan.entrypoints.proxy_process import ProxyFolder, ProxyOptions, ProxyPortTaken, listening_socket, serve
from sokovan.proxy.accounts.token_counts import TokenCount
from sokovan.wire.serving.serving_codec import encode
from tests.unit.proxy.running_proxy import call, endpoint_of, engines, json_answer, route_of, status_of, table_of


def test_identity_and_numbers_outlive_a_restart(tmp_path: Path) -> None:
    first = ProxyFolder(tmp_path / "proxy")
    first.ledger.add(key_id="k", deployment_id="d", revision=1, count=TokenCount(1, 2), failed=False, now_ms=0)
    first.ledger.close()
    first.save_usage()
    second = ProxyFolder(tmp_path / "proxy")

    assert second.identity.proxy_id == first.identity.proxy_id
    assert second.identity.incarnation == first.identity.incarnation + 1
    assert second.ledger.unsent() == first.ledger.unsent()
    assert second.ledger.sequence == 1


def test_a_folder_that_cannot_be_read_is_another_proxy(tmp_path: Path) -> None:
    first = ProxyFolder(tmp_path)
    (tmp_path / "usage.json").write_bytes(b"half a fi")

    assert ProxyFolder(tmp_path).identity.proxy_id != first.identity.proxy_id


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


async def test_a_proxy_without_its_manager_serves_from_its_disk(tmp_path: Path) -> None:
    lines: list[str] = []
    ready = asyncio.Event()

    def log(line: str) -> None:
        lines.append(line)
        if "ready" in line:
            ready.set()

    async with engines(json_answer()) as (engine,):
        (tmp_path / "table.json").write_bytes(encode(table_of(route_of(endpoint_of(engine)), version=8)))
        listener = listening_socket("127.0.0.1", 0, shared=False)
        port = listener.getsockname()[1]
        # Nothing listens there: the manager is away.
        options = ProxyOptions(manager="http://127.0.0.1:9", token="t", root=tmp_path)  # noqa: S106  # of no server
        serving = asyncio.create_task(serve(options, listener, log))
        await ready.wait()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(call())
        answer = await reader.read()
        writer.transport.abort()
        os.kill(os.getpid(), signal.SIGTERM)
        await serving
        listener.close()

    assert status_of(answer) == 200
    assert lines[0] == f"the gateway is ready at http://127.0.0.1:{port}"
    assert ProxyFolder(tmp_path).ledger.unsent(), "the usage of a stopped proxy is kept"
