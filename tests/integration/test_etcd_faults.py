"""Configuration in etcd while its server is killed, paused, compacted, or not there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from sokovan.adapters.etcd.access import EtcdAccess
from sokovan.adapters.etcd.config import EtcdConfig
from sokovan.adapters.etcd.connection import EtcdConnection
from sokovan.adapters.local.clock import SystemClock
from sokovan.entrypoints.settings.live_settings import FROM_CACHE, LiveSettings
from sokovan.ports.config import ConfigConflict, ConfigTree, ConfigUnavailable, UnreadableConfig
from sokovan.testing.servers import EtcdServer

LIMIT_S = 180.0
WRITERS = 8

T = TypeVar("T")
Open = Callable[..., EtcdConfig]


@pytest.fixture
async def server() -> AsyncIterator[EtcdServer]:
    """A server of the test's own, to do harm to."""
    server = EtcdServer()
    await asyncio.to_thread(server.start)
    yield server
    await asyncio.to_thread(server.close)


@pytest.fixture
async def open_store(server: EtcdServer) -> AsyncIterator[Open]:
    opened: list[EtcdConfig] = []

    def open_store(**access: Any) -> EtcdConfig:
        opened.append(EtcdConfig(EtcdAccess((server.url,), **access), clock=SystemClock()))
        return opened[-1]

    yield open_store
    for store in opened:
        await store.close()


async def following(watch: AsyncIterator[ConfigTree | UnreadableConfig]) -> ConfigTree:
    async with asyncio.timeout(LIMIT_S):
        state = await anext(watch)
    assert isinstance(state, ConfigTree)
    return state


async def at_last(work: Callable[[], Awaitable[T]]) -> T:
    """The result, which on a busy machine may take longer than the deadline of a test's store."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            with contextlib.suppress(ConfigUnavailable):
                return await work()


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not holds():
            await SystemClock().sleep(0.01)


@pytest.mark.parametrize("is_listening", [False, True], ids=["before-it-listens", "while-it-listens"])
async def test_a_watch_tells_the_next_change_after_the_server_was_killed_and_restarted(
    server: EtcdServer, open_store: Open, monkeypatch: pytest.MonkeyPatch, *, is_listening: bool
) -> None:
    store, other = open_store(), open_store()
    heard: list[int] = []
    real = store.changed_after

    async def listening(revision: int) -> None:
        heard.append(revision)
        await real(revision)

    monkeypatch.setattr(store, "changed_after", listening)
    tree = await store.write({"a": 1}, expected=(await store.read()).revision)
    watch = store.watch()
    for number in range(2):
        waiting = asyncio.ensure_future(following(watch))
        count = len(heard)
        while is_listening and len(heard) == count:
            await SystemClock().sleep(0)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        tree = await other.write({"a": number + 2}, expected=tree.revision)
        assert await waiting == tree


async def test_a_change_during_a_broken_watch_is_reported(server: EtcdServer, open_store: Open) -> None:
    store, other = open_store(), open_store()
    await store.read()
    watch = store.watch()
    waiting = asyncio.ensure_future(following(watch))
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)
    tree = await other.read()
    for number in range(5):
        tree = await other.write({"a": number}, expected=tree.revision)
    received = await waiting
    while received != tree:
        received = await following(watch)


async def test_of_eight_writers_at_once_exactly_one_wins_each_round(open_store: Open) -> None:
    stores = [open_store() for _ in range(WRITERS)]
    for number in range(20):
        revision = (await stores[0].read()).revision
        writes = [store.write({"winner": [at, number]}, expected=revision) for at, store in enumerate(stores)]
        answers = await asyncio.gather(*writes, return_exceptions=True)
        won = [answer for answer in answers if isinstance(answer, ConfigTree)]
        assert len(won) == 1, answers
        assert sum(isinstance(answer, ConfigConflict) for answer in answers) == WRITERS - 1
        assert (await stores[-1].read()).values == won[0].values


async def test_no_write_is_lost_or_made_twice_while_the_server_is_killed_again_and_again(
    server: EtcdServer, open_store: Open
) -> None:
    made = doubtful = 0
    ended = asyncio.Event()

    async def count_up(store: EtcdConfig) -> None:
        nonlocal made, doubtful
        while not ended.is_set():
            try:
                tree = await store.read()
                number = tree.values.get("number", 0)
                assert isinstance(number, int)
                await store.write({"number": number + 1}, expected=tree.revision)
                made += 1
            except ConfigConflict:
                continue
            except ConfigUnavailable as error:
                doubtful += "is unknown" in error.message
                await SystemClock().sleep(0.01)

    writers = [asyncio.ensure_future(count_up(open_store())) for _ in range(4)]
    for kills in range(1, 6):
        async with asyncio.timeout(LIMIT_S):
            while made < kills * 10:
                await SystemClock().sleep(0.01)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
    ended.set()
    await asyncio.gather(*writers)
    number = (await open_store().read()).values["number"]
    assert isinstance(number, int)
    assert made <= number <= made + doubtful


async def test_a_server_that_is_down_at_the_start_is_replaced_by_the_cache_until_it_is_back(
    server: EtcdServer, open_store: Open, tmp_path: Path
) -> None:
    first = open_store()
    await first.write({"scheduler": {"batch_max": 33}}, expected=(await first.read()).revision)
    await LiveSettings(first, clock=SystemClock()).start_from(tmp_path / "cache.json")
    await asyncio.to_thread(server.kill)

    second = open_store(deadline_s=2)
    live = LiveSettings(second, clock=SystemClock())
    async with asyncio.timeout(LIMIT_S):
        await live.start_from(tmp_path / "cache.json")
    assert live.current.scheduler.batch_max == 33
    [notice] = live.notices
    assert notice.kind == FROM_CACHE
    assert "refused" in notice.text

    following_it = asyncio.ensure_future(live.follow())
    await asyncio.to_thread(server.start)
    await until(lambda: live.notices == ())
    await first.write({"scheduler": {"batch_max": 44}}, expected=(await first.read()).revision)
    await until(lambda: live.current.scheduler.batch_max == 44)
    await second.close()
    await following_it


async def test_without_a_cache_a_server_that_is_down_stops_the_start_with_its_address(
    server: EtcdServer, open_store: Open
) -> None:
    await asyncio.to_thread(server.kill)
    async with asyncio.timeout(LIMIT_S):
        with pytest.raises(ConfigUnavailable, match=f"127.0.0.1:{server.port}"):
            await LiveSettings(open_store(deadline_s=2), clock=SystemClock()).start_from(None)


async def test_a_server_that_goes_down_leaves_the_settings_in_force_and_blocks_no_caller(
    server: EtcdServer, open_store: Open
) -> None:
    store, other = open_store(deadline_s=1), open_store()
    tree = await other.write({"scheduler": {"batch_max": 33}}, expected=(await other.read()).revision)
    live = LiveSettings(store, clock=SystemClock())
    await at_last(lambda: live.start_from(None))
    following_it = asyncio.ensure_future(live.follow())
    await asyncio.to_thread(server.kill)
    async with asyncio.timeout(LIMIT_S):
        with pytest.raises(ConfigUnavailable):
            await store.read()
        with pytest.raises(ConfigUnavailable):
            await store.write({"a": 1}, expected=tree.revision)
    assert live.current.scheduler.batch_max == 33
    assert not following_it.done()
    await asyncio.to_thread(server.start)
    await until(server.answers)
    await other.write({"scheduler": {"batch_max": 44}}, expected=(await other.read()).revision)
    await until(lambda: live.current.scheduler.batch_max == 44)
    await store.close()
    async with asyncio.timeout(LIMIT_S):
        await following_it


async def test_closing_blocks_no_caller_while_the_server_is_down(server: EtcdServer, open_store: Open) -> None:
    store = open_store()
    await store.read()
    waiting = asyncio.ensure_future(anext(store.watch(), "over"))
    await asyncio.to_thread(server.kill)
    async with asyncio.timeout(LIMIT_S):
        await store.close()
        assert await waiting == "over"


async def test_a_server_that_is_paused_is_given_up_at_the_deadline_and_found_again(
    server: EtcdServer, open_store: Open
) -> None:
    store, other = open_store(deadline_s=1), open_store()
    tree = await at_last(store.read)
    waiting = asyncio.ensure_future(following(store.watch()))
    with server.paused():
        async with asyncio.timeout(LIMIT_S):
            with pytest.raises(ConfigUnavailable, match="no response in time"):
                await store.read()
    tree = await other.write({"a": 1}, expected=tree.revision)
    assert await waiting == tree


async def test_compaction_takes_nothing_from_a_watch(server: EtcdServer, open_store: Open) -> None:
    store, other = open_store(), open_store()
    link = EtcdConnection(EtcdAccess((server.url,)))
    tree = await store.read()
    watch = store.watch()
    for number in range(3):
        # The watch knows a revision that is compacted away before it listens again.
        for step in range(3):
            tree = await other.write({"a": [number, step]}, expected=tree.revision)
        await _compact(link, (await other.stored()).at)
        assert await following(watch) == tree
    waiting = asyncio.ensure_future(following(watch))
    tree = await other.write({"a": "open"}, expected=tree.revision)
    await _compact(link, (await other.stored()).at)
    assert await waiting == tree
    await link.close()


async def test_listening_from_a_revision_that_was_compacted_ends_at_once(server: EtcdServer, open_store: Open) -> None:
    store = open_store()
    link = EtcdConnection(EtcdAccess((server.url,)))
    tree = await store.read()
    for number in range(5):
        tree = await store.write({"a": number}, expected=tree.revision)
    await _compact(link, (await store.stored()).at)
    async with asyncio.timeout(LIMIT_S):
        await link.changed_below(b"/sokovan/config/", b"/sokovan/config0", after=1)
    await link.close()


async def _compact(link: EtcdConnection, revision: int) -> None:
    async def question(store: Any) -> Any:
        return await store.compact(revision, physical=True)

    await link.call(question, doing="compact")


async def test_data_that_a_restored_server_lost_is_reported_as_a_change(server: EtcdServer, open_store: Open) -> None:
    store = open_store()
    tree = await store.write({"a": 1}, expected=(await store.read()).revision)
    waiting = asyncio.ensure_future(following(store.watch()))
    await asyncio.to_thread(server.wipe)
    assert (await waiting).values == {}
    with pytest.raises(ConfigConflict):
        await store.write({"a": 2}, expected=tree.revision)
