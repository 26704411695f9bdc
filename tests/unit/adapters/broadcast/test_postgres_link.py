"""The connection for notifications: lost, opened again, and never silent about it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import asyncpg  # type: ignore[import-untyped]  # has no types
import pytest

from sokovan.adapters.broadcast.postgres_link import NotificationLink
from sokovan.adapters.local.clock import SystemClock
from sokovan.ports.events import BusUnavailable
from sokovan.testing.clock import until


async def soon(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds."""

    async def checked() -> bool:
        return holds()

    await until(checked, elapse=SystemClock().sleep)


async def test_a_message_reaches_others_and_not_its_sender(postgres_url: str) -> None:
    heard: dict[str, list[str]] = {"one": [], "two": []}
    opened: list[int] = []
    links = {name: NotificationLink(postgres_url, SystemClock()) for name in heard}
    for name, link in links.items():
        link.listen("news", heard[name].append, lambda: opened.append(1))
    running = [asyncio.create_task(link.run()) for link in links.values()]
    await soon(lambda: len(opened) == 2)
    await links["one"].notify("news", ["first", "second"])
    await soon(lambda: len(heard["two"]) == 2)
    assert heard == {"one": [], "two": ["first", "second"]}
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def test_a_lost_connection_is_opened_again_and_said(postgres_url: str) -> None:
    opened: list[int] = []
    link = NotificationLink(postgres_url, SystemClock())
    link.listen("news", lambda _text: None, lambda: opened.append(1))
    running = asyncio.create_task(link.run())
    await soon(lambda: len(opened) == 1)
    other = await asyncpg.connect(postgres_url)
    await other.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE 'LISTEN%'"
    )
    await other.close()
    await soon(lambda: len(opened) == 2)
    await link.notify("news", ["again"])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_without_a_server_notifications_fail_and_are_logged_once() -> None:
    lines: list[str] = []
    link = NotificationLink("postgresql://x@127.0.0.1:1/none", SystemClock(), log=lines.append)
    running = asyncio.create_task(link.run())
    await soon(lambda: bool(lines))
    with pytest.raises(BusUnavailable):
        await link.notify("news", ["lost"])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert len(lines) == 1
