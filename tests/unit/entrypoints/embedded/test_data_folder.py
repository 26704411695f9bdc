"""The folder of an embedded server: private, whole, and held by one server at a time."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from sokovan.entrypoints.embedded.data_folder import AlreadyUp, DataFolder, DataFolderUnusable, data_home


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


def test_a_folder_of_somebody_elses_files_is_left_as_it_is(tmp_path: Path) -> None:
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


def test_a_second_server_is_told_of_the_first(tmp_path: Path) -> None:
    first, second = DataFolder(tmp_path), DataFolder(tmp_path)
    with first.held():
        first.write_private("up.json", '{"url": "http://127.0.0.1:7646"}')
        with pytest.raises(AlreadyUp) as caught, second.held():
            pass
    assert caught.value.about["url"] == "http://127.0.0.1:7646"
    with second.held():
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
