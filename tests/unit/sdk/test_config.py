"""The client's own file."""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.sdk import config
from sokovan.sdk.config import (
    ClientConfig,
    Context,
    checked_url,
    config_path,
    is_token,
    read_config,
    remove_context,
    save_context,
    use_context,
    write_config,
)
from sokovan.sdk.errors import InvalidSetting


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A path in a folder that does not exist yet."""
    return tmp_path / "deep" / "sokovan" / "config.toml"


def test_a_saved_context_is_found_again_and_is_the_current_one(file: Path) -> None:
    save_context("local", "http://127.0.0.1:7646/", "sk-1", path=file)
    assert read_config(file) == ClientConfig({"local": Context("http://127.0.0.1:7646", "sk-1")}, "local")


def test_only_its_owner_can_read_it(file: Path) -> None:
    save_context("local", "http://x", "sk-1", path=file)
    file.chmod(0o644)
    save_context("local", "http://x", "sk-2", path=file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_other_contexts_are_kept(file: Path) -> None:
    save_context("lab", "https://lab", "sk-lab", path=file)
    save_context("local", "http://x", "sk-1", make_current=False, path=file)
    found = read_config(file)
    assert (set(found.contexts), found.current) == ({"lab", "local"}, "lab")


def test_a_first_context_is_the_current_one_in_any_case(file: Path) -> None:
    assert save_context("lab", "https://lab", "t", make_current=False, path=file).current == "lab"


def test_another_context_can_be_used_and_one_can_be_forgotten(file: Path) -> None:
    save_context("a", "http://a", "1", path=file)
    save_context("b", "http://b", "2", path=file)
    assert use_context("a", path=file).current == "a"
    assert remove_context("a", path=file) == ClientConfig({"b": Context("http://b", "2")}, "")


@pytest.mark.parametrize("act", [use_context, remove_context])
def test_an_unknown_context_is_refused_with_the_known_ones(act: object, file: Path) -> None:
    save_context("lab", "http://a", "1", path=file)
    assert callable(act)
    with pytest.raises(InvalidSetting, match=r"no context 'x'.*\n.*known contexts: lab"):
        act("x", path=file)


def test_a_failed_write_leaves_the_old_file_and_no_litter(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_context("a", "http://a", "1", path=file)

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InvalidSetting, match="No space left"):
        save_context("b", "http://b", "2", path=file)
    assert set(read_config(file).contexts) == {"a"}
    assert [one.name for one in file.parent.iterdir()] == ["config.toml"]


def test_without_a_file_the_configuration_is_empty(file: Path) -> None:
    assert read_config(file) == ClientConfig()


@pytest.mark.parametrize(
    "text",
    [
        "current = ",
        "contexts = 3",
        "current = 3",
        "[contexts]\na = 1",
        "[contexts.a]\nurl = 3",
        "[contexts.a]",
        "\xff",
    ],
)
def test_a_file_that_cannot_be_taken_is_named(text: str, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidSetting, match=r"config\.toml"):
        read_config(file)


@pytest.mark.slow
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_whatever_a_key_holds_is_read_back(token: str) -> None:
    text = config._text(ClientConfig({"a": Context("http://a", token)}, "a"))
    assert tomllib.loads(text)["contexts"]["a"]["token"] == token


@pytest.mark.parametrize("name", ["", "a b", "-a", "é", "x" * 65, "a/b", "a\n"])
def test_an_invalid_context_name_is_refused(name: str, file: Path) -> None:
    with pytest.raises(InvalidSetting, match="not a valid context name"):
        save_context(name, "http://a", "t", path=file)


@pytest.mark.parametrize("url", ["", "x", "ftp://x", "http://", "http://a b", "http://u:p@x", "http://x\n", "//x"])
def test_an_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidSetting, match="not the URL"):
        checked_url(url)


def test_a_key_is_printable_and_not_without_end() -> None:
    assert is_token("sk-AK1." + "a" * 43)
    for text in ("", "a b", "clé", "a\nb", "a" * 513):
        assert not is_token(text)


def test_the_path_follows_xdg_config_home_unless_it_is_relative() -> None:
    assert config_path({"XDG_CONFIG_HOME": "/c", "HOME": "/h"}) == Path("/c/sokovan/config.toml")
    assert config_path({"XDG_CONFIG_HOME": "c", "HOME": "/h"}) == Path("/h/.config/sokovan/config.toml")


def test_an_unwritable_folder_gives_a_hint(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(InvalidSetting, match="XDG_CONFIG_HOME"):
        write_config(ClientConfig(), tmp_path / "file" / "config.toml")
