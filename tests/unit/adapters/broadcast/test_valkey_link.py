"""Messages by Valkey: to all others, and again after the server was killed, flushed or hung."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from sokovan.adapters.broadcast.valkey_link import ValkeyLink
from sokovan.adapters.local.clock import SystemClock
from sokovan.ports.events import BusUnavailable
from sokovan.testing.clock import until
from sokovan.testing.servers import ValkeyServer
from sokovan.testing.servers.process import free_port

# A server that answers does so within the first, on a busy machine too; the second is for one that does not.
DEADLINE_S, SHORT_S = 30.0, 0.3


async def soon(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds."""

    async def checked() -> bool:
        return holds()

    await until(checked, elapse=SystemClock().sleep)


class Listener:
    """One process, and what it heard."""

    def __init__(self, url: str, *, prefix: str = "test", deadline_s: float = DEADLINE_S) -> None:
        self.heard: list[str] = []
        self.lines: list[str] = []
        self.opened = 0
        self.link = ValkeyLink(url, SystemClock(), prefix=prefix, log=self.lines.append, deadline_s=deadline_s)
        self.link.listen("news", self.heard.append, self._open)

    def _open(self) -> None:
        self.opened += 1

    async def sent(self, text: str) -> None:
        """Send a message as soon as that is possible."""

        async def is_out() -> bool:
            try:
                await self.link.notify("news", [text])
            except BusUnavailable:
                return False
            return True

        await until(is_out, elapse=SystemClock().sleep)


@asynccontextmanager
async def running(*listeners: Listener) -> AsyncIterator[None]:
    """Run links, from the moment that their connections are open."""
    tasks = [asyncio.create_task(one.link.run()) for one in listeners]
    await soon(lambda: all(one.opened for one in listeners))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_message_reaches_others_of_its_cluster_and_not_its_sender(valkey_url: str) -> None:
    one, two, three = Listener(valkey_url), Listener(valkey_url), Listener(valkey_url, prefix="other")
    async with running(one, two, three):
        await one.link.notify("news", ["first", "with a space", ""])
        await one.link.notify("other", ["unheard"])
        await three.link.notify("news", ["of another cluster"])
        await two.link.notify("news", ["last"])
        await soon(lambda: len(two.heard) == 3 and len(one.heard) == 1)
    assert (one.heard, two.heard, three.heard) == (["last"], ["first", "with a space", ""], [])


@pytest.mark.slow
async def test_a_killed_server_is_said_once_and_messages_arrive_when_it_is_back() -> None:
    with ValkeyServer() as server:
        one, two = Listener(server.url), Listener(server.url)
        async with running(one, two):
            await asyncio.to_thread(server.kill)
            await soon(lambda: bool(two.lines))
            with pytest.raises(BusUnavailable):
                await one.link.notify("news", ["lost"])
            await asyncio.to_thread(server.restart)
            await soon(lambda: (one.opened, two.opened) == (2, 2))
            await one.sent("again")
            await soon(lambda: two.heard == ["again"])
            # Nothing was stored, so that nothing can be flushed.
            await asyncio.to_thread(server.wipe)
            await one.sent("after a flush")
            await soon(lambda: two.heard == ["again", "after a flush"])
        assert (len(two.lines), two.opened) == (1, 2)


@pytest.mark.slow
async def test_a_server_that_stands_still_holds_up_a_sender_no_longer_than_its_deadline() -> None:
    with ValkeyServer() as server:
        one = Listener(server.url, deadline_s=SHORT_S)
        async with running(one):
            with server.paused(), pytest.raises(BusUnavailable):
                async with asyncio.timeout(60):
                    await one.link.notify("news", ["lost"])
            await one.sent("again")


async def test_without_a_server_messages_fail_and_it_is_logged_once() -> None:
    one = Listener(f"valkey://127.0.0.1:{free_port()}/0")
    task = asyncio.create_task(one.link.run())
    await soon(lambda: bool(one.lines))
    with pytest.raises(BusUnavailable):
        await one.link.notify("news", ["lost"])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (one.opened, len(one.lines)) == (0, 1)
