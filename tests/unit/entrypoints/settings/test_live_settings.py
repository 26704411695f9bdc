"""The settings in force, on a real file."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from sokovan.adapters.local.atomic_file import write_whole
from sokovan.adapters.local.toml_config import TomlConfig
from sokovan.entrypoints.settings.live_settings import (
    FROM_CACHE,
    LISTENER_FAILED,
    NOT_CACHED,
    REFUSED,
    RESTART_NEEDED,
    LiveSettings,
    Notice,
)
from sokovan.entrypoints.settings.server_settings import InvalidSettings, ServerSettings
from sokovan.ports.config import ConfigUnavailable, UnreadableConfig
from sokovan.scheduling.registry import BUILT_IN
from tests.unit.adapters.local.little_files import make_folder, mode_of, put, remove, text_of
from tests.unit.adapters.local.quick_clock import QuickClock

GOOD = "[scheduler]\nbatch_max = 30\n"


class Server:
    """Live settings on a file, and what they reported."""

    def __init__(self, folder: Path) -> None:
        self.file, self.cache = folder / "sokovan.toml", folder / "cache.json"
        self.clock = QuickClock()
        self.reported: list[Notice] = []
        self.notified: list[tuple[ServerSettings, ServerSettings]] = []
        self.store = TomlConfig(self.file, clock=self.clock, poll_s=0.001)
        self.kept: list[bytes] = []
        self.live = LiveSettings(
            self.store, clock=self.clock, registry=BUILT_IN, write_file=self.keep, report=self.reported.append
        )
        self.live.listen(lambda before, after: self.notified.append((before, after)))
        self.following: asyncio.Task[None] | None = None

    def keep(self, path: Path, content: bytes) -> None:
        write_whole(path, content)
        self.kept.append(content)

    async def start(self, text: str = GOOD) -> None:
        put(self.file, text)
        await self.live.start_from(self.cache)
        self.following = asyncio.ensure_future(self.live.follow())

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not holds():
                await self.clock.sleep(0.001)

    def kinds(self) -> list[str]:
        return [notice.kind for notice in self.live.notices]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    server = Server(tmp_path)
    yield server
    await server.store.close()
    if server.following is not None:
        async with asyncio.timeout(60):
            await server.following


async def test_before_the_start_there_are_no_settings(server: Server) -> None:
    with pytest.raises(ConfigUnavailable, match="not been read yet"):
        _ = server.live.current


async def test_the_settings_are_read_at_the_start(server: Server) -> None:
    await server.start()
    assert server.live.current.scheduler.batch_max == 30
    assert server.live.notices == ()
    assert server.live.refusal is None


async def test_a_change_is_applied_and_listeners_are_notified(server: Server) -> None:
    await server.start()
    put(server.file, "[scheduler]\nbatch_max = 40\n[scaling_groups.gpu]\nscheduler = 'drf'\n")
    await server.until(lambda: server.notified)
    [(before, after)] = server.notified
    assert (before.scheduler.batch_max, after.scheduler.batch_max) == (30, 40)
    assert server.live.current is after
    assert after.scaling_groups.keys() == {"gpu"}


async def test_a_change_without_effect_notifies_no_listener(server: Server) -> None:
    await server.start()
    put(server.file, "# a remark\n" + GOOD)
    await server.until(lambda: len(server.kept) == 2)
    put(server.file, "[scheduler]\nbatch_max = 50\n")
    await server.until(lambda: server.notified)
    assert [after.scheduler.batch_max for _, after in server.notified] == [50]


async def test_a_bad_value_is_refused_with_its_path_and_the_old_one_stays(server: Server) -> None:
    await server.start()
    before = server.live.current
    began = server.clock.now_ms()
    put(server.file, "[scheduler]\nbatch_max = 'fast'\n[scaling_groups.a]\nscheduler = 'fifoo'\n")
    await server.until(lambda: server.live.refusal)
    refusal = server.live.refusal
    assert refusal is not None
    assert "scheduler.batch_max: 'fast' must be a whole number" in refusal.text
    assert "scaling_groups.a.scheduler: there is no sequencer 'fifoo'" in refusal.text
    assert began <= refusal.since_ms <= server.clock.now_ms()
    assert server.live.current is before
    assert server.notified == []
    assert server.reported == [refusal]


async def test_a_half_written_file_is_refused_with_its_line_and_the_old_settings_stay(server: Server) -> None:
    await server.start()
    put(server.file, "[scheduler]\nbatch_max = ")
    await server.until(lambda: server.live.refusal)
    assert server.live.refusal is not None
    assert server.live.refusal.text.startswith(f"{server.file}:2:13: ")
    assert server.live.current.scheduler.batch_max == 30


async def test_a_refusal_is_over_when_the_value_is_mended(server: Server) -> None:
    await server.start()
    put(server.file, "[scheduler]\nbatch_max = 0\n")
    await server.until(lambda: server.live.refusal)
    put(server.file, GOOD)
    await server.until(lambda: not server.live.refusal)
    assert server.notified == []


async def test_another_bad_value_is_another_refusal(server: Server) -> None:
    await server.start()
    put(server.file, "[scheduler]\nbatch_max = 0\n")
    await server.until(lambda: server.live.refusal)
    put(server.file, "[scheduler]\nlong_cycle_s = 0\n")
    await server.until(lambda: "long_cycle_s" in (server.live.refusal.text if server.live.refusal else ""))
    assert [notice.kind for notice in server.reported] == [REFUSED, REFUSED]


async def test_a_file_that_is_removed_leaves_the_settings_in_force(server: Server) -> None:
    await server.start()
    remove(server.file)
    await server.until(lambda: server.live.refusal)
    assert server.live.refusal is not None
    assert server.live.refusal.text == f"{server.file}: was removed"
    assert server.live.current.scheduler.batch_max == 30


async def test_a_section_that_needs_a_restart_keeps_its_value_and_says_so_without_it(server: Server) -> None:
    await server.start()
    before = server.live.current
    put(
        server.file,
        "[scheduler]\nbatch_max = 7\n[storage]\nurl = 'postgresql://u:hunter2@db/x'\n[config]\npoll_s = 9\n",
    )
    await server.until(lambda: server.notified)
    assert server.live.current.scheduler.batch_max == 7
    assert (server.live.current.storage, server.live.current.config) == (before.storage, before.config)
    [notice] = server.live.notices
    assert notice.kind == RESTART_NEEDED
    assert notice.text == "restart the server to apply: storage.url, config.poll_s"


async def test_the_need_for_a_restart_is_over_when_the_change_is_taken_back(server: Server) -> None:
    await server.start()
    put(server.file, GOOD + "[storage]\nurl = 'postgresql://db/x'\n")
    await server.until(lambda: server.kinds() == [RESTART_NEEDED])
    put(server.file, GOOD)
    await server.until(lambda: server.kinds() == [])


async def test_a_failing_listener_does_not_block_others(server: Server) -> None:
    def failing(_before: ServerSettings, _after: ServerSettings) -> None:
        raise RuntimeError("no")

    later: list[ServerSettings] = []
    server.live.listen(failing)
    server.live.listen(lambda _, after: later.append(after))
    await server.start()
    put(server.file, "[scheduler]\nbatch_max = 40\n")
    await server.until(lambda: later)
    assert later == [server.live.current]
    assert server.kinds() == [LISTENER_FAILED]


async def test_the_last_good_configuration_is_kept_in_a_private_file(server: Server) -> None:
    await server.start()
    assert json.loads(text_of(server.cache))["values"] == {"scheduler": {"batch_max": 30}}
    assert mode_of(server.cache) == 0o600
    put(server.file, "[scheduler]\nbatch_max = 0\n")
    await server.until(lambda: server.live.refusal)
    assert json.loads(text_of(server.cache))["values"] == {"scheduler": {"batch_max": 30}}
    put(server.file, "[scheduler]\nbatch_max = 40\n")
    await server.until(lambda: "40" in text_of(server.cache))


async def test_a_cache_that_cannot_be_written_is_noticed_and_stops_nothing(server: Server) -> None:
    make_folder(server.cache)
    await server.start()
    assert server.kinds() == [NOT_CACHED]
    assert server.live.current.scheduler.batch_max == 30


async def test_a_configuration_that_cannot_be_reached_at_the_start_is_taken_from_the_cache(tmp_path: Path) -> None:
    first = Server(tmp_path)
    await first.live.start_from(first.cache)
    put(first.file, GOOD)
    await first.live.start_from(first.cache)
    remove(first.file)
    make_folder(first.file)
    second = Server(tmp_path)
    await second.live.start_from(second.cache)
    assert second.live.current.scheduler.batch_max == 30
    [notice] = second.live.notices
    assert notice.kind == FROM_CACHE
    assert "Is a directory; the settings of 0 s ago are in force" in notice.text
    assert second.reported == [notice]
    assert second.live.refusal is None


async def test_a_configuration_that_comes_back_takes_the_place_of_the_cache(server: Server) -> None:
    put(server.cache, json.dumps({"saved_ms": 0, "values": {"scheduler": {"batch_max": 30}}}))
    make_folder(server.file)
    await server.live.start_from(server.cache)
    server.following = asyncio.ensure_future(server.live.follow())
    server.file.rmdir()
    put(server.file, "[scheduler]\nbatch_max = 31\n")
    await server.until(lambda: server.notified)
    assert server.live.current.scheduler.batch_max == 31
    await server.until(lambda: server.kinds() == [])


@pytest.mark.parametrize("text", ["[scheduler]\nbatch_max = 0\n", "[scheduler\n"])
async def test_a_bad_configuration_at_the_start_is_refused_and_the_cache_is_used(server: Server, text: str) -> None:
    put(server.cache, json.dumps({"saved_ms": 0, "values": {"scheduler": {"batch_max": 30}}}))
    await server.start(text)
    assert server.live.current.scheduler.batch_max == 30
    assert sorted(server.kinds()) == [FROM_CACHE, REFUSED]


@pytest.mark.parametrize(
    "cache",
    [
        None,
        "",
        "half",
        "[]",
        "{}",
        '{"saved_ms": "x", "values": {}}',
        '{"saved_ms": 1, "values": []}',
        '{"saved_ms": 1, "values": {"scaling_groups": {"a": {"scheduler": "uninstalled"}}}}',
    ],
)
async def test_without_a_cache_that_can_be_used_a_bad_configuration_stops_the_start(
    server: Server, cache: str | None
) -> None:
    if cache is not None:
        put(server.cache, cache)
    with pytest.raises(InvalidSettings, match="batch_max"):
        await server.start("[scheduler]\nbatch_max = 0\n")
    with pytest.raises(UnreadableConfig):
        await server.start("[")


async def test_without_any_cache_an_unreachable_configuration_stops_the_start(server: Server) -> None:
    make_folder(server.file)
    with pytest.raises(ConfigUnavailable):
        await server.live.start_from(None)
