"""Cache of object names from the server."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from sokovan.cli.completion.name_cache import FRESH_S, SIZE_MAX, NameCache, cache_folder


def memory(folder: Path, **other: str) -> NameCache:
    """The memory of a kind."""
    return NameCache.of(folder, **{"kind": "session", "url": "http://a", "token": "t", **other})


def test_names_are_cached_with_their_descriptions(tmp_path: Path) -> None:
    memory(tmp_path / "new").write([("ddp", "RUNNING"), ("größe", "")])
    assert memory(tmp_path / "new").read() == [("ddp", "RUNNING"), ("größe", "")]


def test_only_their_owner_can_read_them(tmp_path: Path) -> None:
    kept = memory(tmp_path / "new")
    kept.write([("ddp", "")])
    assert stat.S_IMODE(kept.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("other", [{"kind": "queue"}, {"url": "http://b"}, {"token": "u"}])
def test_servers_keys_and_kinds_have_memories_of_their_own(tmp_path: Path, other: dict[str, str]) -> None:
    memory(tmp_path).write([("ddp", "")])
    assert memory(tmp_path, **other).read() == []


def test_neither_address_nor_key_stands_in_the_name_of_the_file(tmp_path: Path) -> None:
    secrets = {"url": "http://secret-host", "token": "sk-secret"}
    name = memory(tmp_path, **secrets).path.name
    assert "secret" not in name


@pytest.mark.parametrize("content", ["", "{", "7", "[1]", '[["a"]]', "null", "[" * 100000])
def test_an_unreadable_cache_is_empty(tmp_path: Path, content: str) -> None:
    kept = memory(tmp_path)
    kept.path.write_text(content, encoding="utf-8")
    assert kept.read() == []


def test_cached_names_are_fresh_for_a_moment(tmp_path: Path) -> None:
    kept = memory(tmp_path)
    assert not kept.is_fresh(0)
    kept.write([])
    written_s = kept.path.stat().st_mtime
    assert kept.is_fresh(written_s + FRESH_S - 1)
    assert not kept.is_fresh(written_s + FRESH_S)
    assert not kept.is_fresh(written_s - FRESH_S)  # a clock that was set back


def test_a_folder_that_cannot_be_written_is_no_harm(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    memory(tmp_path / "file").write([("ddp", "")])
    assert memory(tmp_path / "file").read() == []


def test_far_too_many_names_are_not_kept(tmp_path: Path) -> None:
    memory(tmp_path).write([("x" * SIZE_MAX, "")])
    assert list(tmp_path.iterdir()) == []


def test_the_cache_is_where_users_expect_it() -> None:
    assert cache_folder({"XDG_CACHE_HOME": "/c", "HOME": "/h"}) == Path("/c/sokovan")
    assert cache_folder({"XDG_CACHE_HOME": "relative", "HOME": "/h"}) == Path("/h/.cache/sokovan")
    assert cache_folder({"HOME": "/h"}) == Path("/h/.cache/sokovan")
