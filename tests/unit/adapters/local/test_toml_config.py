"""Configuration in one TOML file, beyond the contract."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sokovan.adapters.local import toml_config
from sokovan.adapters.local.toml_config import TomlConfig
from sokovan.adapters.local.toml_files import OverriddenSetting, TomlFiles, read_files
from sokovan.ports.config import ConfigConflict, ConfigTree, ConfigUnavailable, ConfigValue, UnreadableConfig
from tests.unit.adapters.local.little_files import (
    make_folder,
    mode_of,
    put,
    put_within_the_same_tick,
    remove,
    text_of,
)
from tests.unit.adapters.local.quick_clock import QuickClock

State = ConfigTree | UnreadableConfig


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sokovan.toml"


@pytest.fixture
def store(path: Path) -> TomlConfig:
    return TomlConfig(path, clock=QuickClock(), drop_ins=path.parent / "conf.d")


async def following(watch: AsyncIterator[State]) -> State:
    async with asyncio.timeout(60):
        return await anext(watch)


async def test_a_written_file_says_who_wrote_it_and_is_private(store: TomlConfig, path: Path) -> None:
    await store.write({"scheduler": {"short_cycle_ms": 5}}, expected=(await store.read()).revision)
    assert text_of(path) == (
        "# Written by sokovan. Comments are not kept; the previous version of the file has the suffix .bak.\n"
        "\n[scheduler]\nshort_cycle_ms = 5\n"
    )
    assert mode_of(path) == 0o600
    assert text_of(path.with_name("sokovan.toml.bak")) == ""


async def test_the_file_as_it_was_is_kept_with_its_comments(store: TomlConfig, path: Path) -> None:
    put(path, "# precious\n[scheduler]\nshort_cycle_ms = 1\n")
    await store.write({"scheduler.short_cycle_ms": 2}, expected=(await store.read()).revision)
    assert text_of(path.with_name("sokovan.toml.bak")) == "# precious\n[scheduler]\nshort_cycle_ms = 1\n"


async def test_a_change_that_changes_nothing_leaves_the_file_alone(store: TomlConfig, path: Path) -> None:
    put(path, "# precious\n[scheduler]\nshort_cycle_ms = 1\n")
    tree = await store.read()
    assert await store.write({"scheduler.short_cycle_ms": 1, "bus": None}, expected=tree.revision) == tree
    assert "precious" in text_of(path)


async def test_true_in_place_of_one_is_a_change(store: TomlConfig) -> None:
    tree = await store.write({"a.x": 1}, expected=(await store.read()).revision)
    tree = await store.write({"a.x": True}, expected=tree.revision)
    assert tree.values["a"] == {"x": True}
    assert repr((await store.read()).values["a"]) == "{'x': True}"


async def test_a_missing_folder_is_made(tmp_path: Path) -> None:
    store = TomlConfig(tmp_path / "new" / "sokovan.toml", clock=QuickClock())
    await store.write({"a": {"x": 1}}, expected=(await store.read()).revision)
    assert (await store.read()).values == {"a": {"x": 1}}


async def test_an_unreadable_file_is_not_overwritten(store: TomlConfig, path: Path) -> None:
    revision = (await store.read()).revision
    put(path, "half = ")
    with pytest.raises(ConfigConflict):
        await store.write({"a": {"x": 1}}, expected=revision)
    assert text_of(path) == "half = "


@pytest.mark.parametrize("changes", [{"a.x": 5}, {"a": {"x": 5}}, {"a.x": None}, {"a": None}, {"a": {"z": 1}}])
async def test_a_change_that_a_drop_in_would_undo_is_refused_with_the_drop_in(
    store: TomlConfig, path: Path, changes: dict[str, ConfigValue | None]
) -> None:
    put(path, "[a]\nx = 1\n")
    put(path.parent / "conf.d" / "10-x.toml", "[a]\nx = 2\n")
    with pytest.raises(OverriddenSetting, match=r"conf\.d/10-x\.toml"):
        await store.write(changes, expected=(await store.read()).revision)
    assert text_of(path) == "[a]\nx = 1\n"


async def test_what_a_drop_in_does_not_speak_of_can_be_written(store: TomlConfig, path: Path) -> None:
    put(path.parent / "conf.d" / "10-x.toml", "[a]\nx = 2\n")
    tree = await store.write({"a.y": 1, "b": {"z": 1}}, expected=(await store.read()).revision)
    assert tree.values == {"a": {"y": 1, "x": 2}, "b": {"z": 1}}
    assert "x" not in text_of(path).partition("[a]")[2]


async def test_a_writer_waits_for_the_lock_and_gives_up_in_the_end(
    store: TomlConfig, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toml_config, "LOCK_LIMIT_S", 0.05)
    revision = (await store.read()).revision
    handle = os.open(path.with_name(".sokovan.toml.lock"), os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with pytest.raises(ConfigUnavailable, match="another process has been writing"):
        await store.write({"a": {"x": 1}}, expected=revision)
    os.close(handle)
    assert (await store.write({"a": {"x": 1}}, expected=revision)).values == {"a": {"x": 1}}


async def test_a_disk_error_is_reported(store: TomlConfig, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    revision = (await store.read()).revision

    def failing(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(toml_config, "write_whole", failing)
    with pytest.raises(ConfigUnavailable, match=r"cannot write .*: No space left on device"):
        await store.write({"a": {"x": 1}}, expected=revision)
    assert text_of(path) == ""


async def test_leftovers_of_killed_writers_go_with_the_next_write(store: TomlConfig, path: Path) -> None:
    leftover = path.with_name(".sokovan.toml.k1ll3d.new")
    put(leftover, "hal")
    await store.write({"a": {"x": 1}}, expected=(await store.read()).revision)
    assert text_of(leftover) == ""


async def test_a_watch_returns_an_error_once_and_then_its_correction(store: TomlConfig, path: Path) -> None:
    put(path, "a = 1\n")
    await store.read()
    watch = store.watch()
    put(path, "a = 1\nb = \n")
    wrong = await following(watch)
    assert isinstance(wrong, UnreadableConfig)
    assert wrong.path == f"{path}:2:5"
    put(path, "a = 1\nb = 2\n")
    corrected = await following(watch)
    assert isinstance(corrected, ConfigTree)
    assert corrected.values == {"a": 1, "b": 2}


async def test_a_watch_returns_a_reverted_error(store: TomlConfig, path: Path) -> None:
    put(path, "a = 1\n")
    tree = await store.read()
    watch = store.watch()
    put(path, "a = \n")
    assert isinstance(await following(watch), UnreadableConfig)
    put(path, "a = 1\n")
    assert await following(watch) == tree


async def test_a_file_that_vanishes_under_a_watch_is_an_error_and_not_an_empty_configuration(
    store: TomlConfig, path: Path
) -> None:
    put(path, "a = 1\n")
    tree = await store.read()
    watch = store.watch()
    remove(path)
    removed = await following(watch)
    assert isinstance(removed, UnreadableConfig)
    assert removed.problem == "was removed"
    put(path, "a = 1\n")
    assert await following(watch) == tree


async def test_a_file_that_is_emptied_under_a_watch_is_an_error_unless_a_comment_says_that_it_is_meant(
    store: TomlConfig, path: Path
) -> None:
    put(path, "a = 1\n")
    await store.read()
    watch = store.watch()
    put(path, "\n")
    empty = await following(watch)
    assert isinstance(empty, UnreadableConfig)
    assert empty.problem.startswith("is empty")
    put(path, "# nothing is set\n")
    state = await following(watch)
    assert isinstance(state, ConfigTree)
    assert state.values == {}


async def test_a_state_seen_by_one_read_only_is_not_returned(path: Path) -> None:
    class SavingEditor(QuickClock):
        """Finishes saving the file while the watch waits for its second read_files."""

        async def sleep(self, seconds: float) -> None:
            if seconds == toml_config.SETTLE_S:
                put(path, "a = 1\nb = 2\n")
            await super().sleep(seconds)

    put(path, "a = 1\n")
    store = TomlConfig(path, clock=SavingEditor())
    await store.read()
    watch = store.watch()
    put(path, "# b comes later\n")
    state = await following(watch)
    assert isinstance(state, ConfigTree)
    assert state.values == {"a": 1, "b": 2}


async def test_a_file_that_becomes_a_folder_is_unreadable(store: TomlConfig, path: Path) -> None:
    await store.read()
    watch = store.watch()
    make_folder(path)
    state = await following(watch)
    assert isinstance(state, UnreadableConfig)
    assert "Is a directory" in state.problem


async def test_a_new_drop_in_is_seen(store: TomlConfig, path: Path) -> None:
    await store.read()
    watch = store.watch()
    put(path.parent / "conf.d" / "a.toml", "a = 1\n")
    state = await following(watch)
    assert isinstance(state, ConfigTree)
    assert state.values == {"a": 1}


@pytest.mark.slow
async def test_a_change_of_the_same_size_within_one_tick_of_the_disk_is_seen(store: TomlConfig, path: Path) -> None:
    put(path, "a = 1\n")
    await store.read()
    watch = store.watch()
    waiting = asyncio.ensure_future(following(watch))
    put_within_the_same_tick(path, "a = 2\n")
    state = await waiting
    assert isinstance(state, ConfigTree)
    assert state.values == {"a": 2}


async def test_an_old_file_is_not_read_again_and_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = QuickClock()
    put(path, "a = 1\n")
    changed_ms = path.stat().st_mtime_ns // 1_000_000  # noqa: ASYNC240  # before anything runs
    monkeypatch.setattr(clock, "now_ms", lambda: changed_ms + 60_000)
    store = TomlConfig(path, clock=clock, poll_s=7)
    await store.read()
    reads: list[Path] = []

    def counted(main: Path, drop_ins: Path | None) -> TomlFiles:
        reads.append(main)
        return read_files(main, drop_ins)

    monkeypatch.setattr(toml_config, "read_files", counted)
    waiting = asyncio.ensure_future(anext(store.watch()))
    async with asyncio.timeout(60):
        while clock.waits.count(7) < 5:
            await clock.sleep(1)  # a millisecond of real time
    waiting.cancel()
    assert len(reads) == 1, "only the first time"


async def test_a_wait_that_was_given_up_can_be_taken_up_again(store: TomlConfig, path: Path) -> None:
    await store.read()
    watch = store.watch()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await anext(watch)
    put(path, "a = 1\n")
    assert isinstance(await following(watch), ConfigTree)


async def test_a_store_that_has_read_nothing_returns_the_current_state_first(store: TomlConfig, path: Path) -> None:
    put(path, "a = 1\n")
    state = await following(store.watch())
    assert isinstance(state, ConfigTree)
    assert state.values == {"a": 1}


async def test_a_closed_store_ends_its_watches(store: TomlConfig) -> None:
    await store.read()
    waiting = asyncio.ensure_future(anext(store.watch(), "ended"))
    await store.close()
    async with asyncio.timeout(60):
        assert await waiting == "ended"
