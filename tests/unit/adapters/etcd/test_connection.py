"""The connection to etcd: deadlines, failures, changed addresses."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from sokovan.adapters.etcd import connection
from sokovan.adapters.etcd.access import EtcdAccess
from sokovan.adapters.etcd.connection import EtcdConnection
from sokovan.ports.config import ConfigUnavailable
from sokovan.testing.servers.process import free_port


async def get(store: Any) -> Any:
    return await store.get("k", max_attempts=1)


@pytest.fixture
async def silent_port() -> AsyncIterator[int]:
    """A server that accepts connections and never responds."""
    ended = asyncio.Event()

    async def listen(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ended.wait()
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    ended.set()
    server.close()
    await server.wait_closed()


async def test_an_unreachable_server_is_reported_with_its_address() -> None:
    port = free_port()
    link = EtcdConnection(EtcdAccess((f"127.0.0.1:{port}",)))
    with pytest.raises(ConfigUnavailable, match=f"cannot read etcd at 127.0.0.1:{port}: .*refused"):
        await link.call(get, doing="read")
    await link.close()


@pytest.mark.parametrize("call", ["call", "call_with_retry"])
async def test_a_server_that_never_answers_is_given_up_at_the_deadline(silent_port: int, call: str) -> None:
    link = EtcdConnection(EtcdAccess((f"127.0.0.1:{silent_port}",), deadline_s=0.3))
    async with asyncio.timeout(60):
        with pytest.raises(ConfigUnavailable, match="no response in time"):
            await getattr(link, call)(get, doing="read")
    await link.close()


async def test_a_host_that_has_no_address_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nowhere(_hosts: object) -> tuple[str, ...]:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(connection, "_resolved", nowhere)
    with pytest.raises(ConfigUnavailable, match="Name or service not known"):
        await EtcdConnection(EtcdAccess(("nowhere.invalid",))).call(get, doing="read")


async def test_after_a_failure_the_name_is_looked_up_again(etcd_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = EtcdAccess((etcd_url,)).hosts()[0]
    answers = [(f"127.0.0.1:{free_port()}",), (f"{real[0]}:{real[1]}",)]

    async def moving(_hosts: object) -> tuple[str, ...]:
        return answers.pop(0)

    monkeypatch.setattr(connection, "_resolved", moving)
    link = EtcdConnection(EtcdAccess(("moves.example",)))
    with pytest.raises(ConfigUnavailable):
        await link.call(get, doing="read")
    assert (await link.call(get, doing="read")).header.revision >= 1
    assert answers == []
    await link.close()


async def test_names_are_resolved_because_the_library_takes_addresses_only(etcd_url: str) -> None:
    _, port = EtcdAccess((etcd_url,)).hosts()[0]
    link = EtcdConnection(EtcdAccess((f"http://localhost:{port}",)))
    assert (await link.call(get, doing="read")).header.revision >= 1
    await link.close()


async def test_a_refusal_of_the_server_is_not_tried_again(etcd_url: str) -> None:
    calls = 0

    async def too_old(store: Any) -> Any:
        nonlocal calls
        calls += 1
        return await store.get("k", revision=2**40)

    link = EtcdConnection(EtcdAccess((etcd_url,)))
    with pytest.raises(ConfigUnavailable, match="future revision"):
        await link.call_with_retry(too_old, doing="read")
    assert calls == 1
    await link.close()


async def test_a_call_whose_answer_is_lost_is_made_again(etcd_url: str) -> None:
    calls = 0

    async def lost_at_first(store: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise TimeoutError
        return await get(store)

    link = EtcdConnection(EtcdAccess((etcd_url,)))
    assert (await link.call_with_retry(lost_at_first, doing="write to")).header.revision >= 1
    assert calls == 3
    await link.close()


async def test_closing_during_a_call_raises_config_unavailable(silent_port: int) -> None:
    link = EtcdConnection(EtcdAccess((f"127.0.0.1:{silent_port}",)))
    asking = asyncio.ensure_future(link.call(get, doing="read"))
    async with asyncio.timeout(60):
        while link._services is None:
            await asyncio.wait([asking], timeout=0.01)
        await asyncio.wait([asking], timeout=0.05)
        await link.close()
        with pytest.raises(ConfigUnavailable, match="cannot read etcd"):
            await asking


async def test_a_caller_who_gives_up_is_simply_cancelled(silent_port: int) -> None:
    link = EtcdConnection(EtcdAccess((f"127.0.0.1:{silent_port}",)))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await link.call(get, doing="read")
    await link.close()
