"""The folder of an embedded server: private, whole, and held by one server at a time."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import stat
from pathlib import Path

import pytest

from sokovan.entrypoints.embedded.data_folder import (
    AlreadyUp,
    DataFolder,
    DataFolderUnusable,
    StoreBroken,
    data_home,
    server_of,
)
from tests.kernels import own_start


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_folder_and_its_secrets_are_for_their_owner_alone(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "deep" / "sokovan")
    folder.secret("pepper")
    assert mode(folder.root) == 0o700
    assert mode(folder.root / "pepper") == 0o600
    assert mode(folder.root / "agent") == 0o700


@pytest.mark.parametrize("sign", ["state.db", "up.lock"])
def test_a_folder_of_ours_that_was_open_to_others_is_closed(tmp_path: Path, sign: str) -> None:
    (tmp_path / sign).touch()
    tmp_path.chmod(0o755)
    assert mode(DataFolder(tmp_path).root) == 0o700


def test_a_folder_with_other_files_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    tmp_path.chmod(0o755)
    with pytest.raises(DataFolderUnusable, match="chmod 700"):
        DataFolder(tmp_path)
    assert mode(tmp_path) == 0o755
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_secret_is_made_once_and_kept(tmp_path: Path) -> None:
    first = DataFolder(tmp_path).secret("pepper")
    assert DataFolder(tmp_path).secret("pepper") == first
    assert DataFolder(tmp_path).secret("other") != first
    assert len(first) >= 43


def test_a_second_server_gets_the_address_of_the_first(tmp_path: Path) -> None:
    first, second = DataFolder(tmp_path), DataFolder(tmp_path)
    with first.locked():
        first.write_private("up.json", '{"url": "http://127.0.0.1:7646"}')
        with pytest.raises(AlreadyUp) as caught, second.locked():
            pass
    assert caught.value.about["url"] == "http://127.0.0.1:7646"
    with second.locked():
        pass


def test_what_a_server_left_half_written_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    folder.write_private("up.json", '{"url": ')
    assert folder.about() == {}
    assert folder.read("never-written") is None


def test_a_folder_that_cannot_be_made_is_an_error_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataFolderUnusable, match="file"):
        DataFolder(tmp_path / "file" / "sokovan")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"HOME": "/home/kim"}, "/home/kim/.local/share/sokovan"),
        ({"HOME": "/home/kim", "XDG_DATA_HOME": "/data"}, "/data/sokovan"),
        ({"HOME": "/home/kim", "XDG_DATA_HOME": "not/absolute"}, "/home/kim/.local/share/sokovan"),
    ],
)
def test_the_data_lies_where_the_standard_says(environment: dict[str, str], expected: str) -> None:
    assert data_home(environment) == Path(expected)


def test_who_asks_before_loading_a_server_hears_of_the_one_that_is_up(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    about = {"url": "http://127.0.0.1:7646", "pid": os.getpid(), "start": own_start()}
    assert server_of(tmp_path) is None
    with folder.locked():
        folder.write_private("up.json", json.dumps(about))
        assert server_of(tmp_path) == about
        folder.write_private("up.json", json.dumps({**about, "start": own_start() - 1}))
        assert server_of(tmp_path) is None  # another process has the pid now
    assert server_of(tmp_path) is None  # the address file exists, but the folder is not locked


@pytest.mark.parametrize("left", ["", "{", "[]", '{"pid": 0}', '{"pid": "x"}', '{"pid": 999999999999999999999}'])
def test_an_invalid_address_file_is_not_a_server(tmp_path: Path, left: str) -> None:
    folder = DataFolder(tmp_path)
    with folder.locked():
        folder.write_private("up.json", left)
        assert server_of(tmp_path) is None


@pytest.mark.parametrize("name", ["", "logs", "state.db"])
def test_what_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    folder = DataFolder(tmp_path)
    (tmp_path / "state.db").touch()
    # An administrator may write everywhere, so that the mode of the file would not do.
    monkeypatch.setattr("os.access", lambda path, _mode: path != tmp_path / name)
    with pytest.raises(DataFolderUnusable, match="is not writable") as refused, folder.locked():
        pass
    assert str(tmp_path / name) in refused.value.message
    assert "--data" in refused.value.hint


def test_a_lock_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    (tmp_path / "up.lock").mkdir()
    with pytest.raises(DataFolderUnusable, match=r"up\.lock"), folder.locked():
        pass


@pytest.mark.parametrize("content", [b"hello", b"SQLite format 3\0" + bytes(500), bytes(range(256)) * 32])
def test_a_file_that_is_not_a_database_is_reported_as_corrupt(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "state.db").write_bytes(content)
    tmp_path.chmod(0o700)
    with pytest.raises(StoreBroken, match=r"state\.db is corrupt"):
        DataFolder(tmp_path).check_store()


def test_a_store_that_can_be_read_or_is_not_there_yet_is_fine(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    folder.check_store()
    with contextlib.closing(sqlite3.connect(tmp_path / "state.db")) as store:
        store.execute("CREATE TABLE a (b)")
    folder.check_store()
