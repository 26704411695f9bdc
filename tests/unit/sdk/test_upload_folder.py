"""The files of a folder that an upload sends."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from pathlib import Path

import pytest

from sokovan.sdk import upload_folder
from sokovan.sdk.errors import InvalidSetting
from sokovan.sdk.upload_folder import read_folder, read_tree


def test_files_are_listed_with_their_content_and_mode(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "run.sh").write_text("hi")
    (tmp_path / "a" / "run.sh").chmod(0o755)
    (tmp_path / "b.txt").write_text("")
    folder = read_folder(tmp_path)
    digest = hashlib.sha256(b"hi").hexdigest()
    assert [(one.path, one.size, one.executable) for one in folder.files] == [
        ("a/run.sh", 2, True),
        ("b.txt", 0, False),
    ]
    assert json.loads(folder.manifest)["files"][0]["digest"] == digest
    assert folder.digest == hashlib.sha256(folder.manifest).hexdigest()
    assert folder.total_bytes == 2


def test_what_is_excluded_is_left_out(tmp_path: Path) -> None:
    for name in ("a.py", "b.pt", ".sokovanignore"):
        (tmp_path / name).write_text("*.pt")
    assert [one.path for one in read_folder(tmp_path).files] == [".sokovanignore", "a.py"]


def test_a_link_to_a_file_of_the_folder_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").symlink_to("a")
    assert [(one.path, one.size) for one in read_folder(tmp_path).files] == [("a", 1), ("b", 1)]


@pytest.mark.parametrize("target", ["/etc/passwd", "..", "missing", "sub"])
def test_any_other_link_is_an_error(tmp_path: Path, target: str) -> None:
    (tmp_path / "project" / "sub").mkdir(parents=True)
    (tmp_path / "project" / "link").symlink_to(target)
    with pytest.raises(InvalidSetting, match="link is a link"):
        read_folder(tmp_path / "project")


def test_a_file_that_is_not_regular_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidSetting, match="neither a regular file"):
        read_folder(tmp_path)


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_a_folder_without_files_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidSetting):
        read_folder(tmp_path / name)


def test_a_tree_has_every_file_under_its_own_name(tmp_path: Path) -> None:
    folder = tmp_path / "conf"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("x")
    (folder / ".sokovanignore").write_text("*\n")
    (folder / "a").write_text("1")
    assert [one.path for one in read_tree(folder).files] == ["conf/.git/HEAD", "conf/.sokovanignore", "conf/a"]
    assert [one.path for one in read_tree(folder / "a").files] == ["a"]
    (tmp_path / "alias").symlink_to(folder / "a")
    assert [one.path for one in read_tree(tmp_path / "alias").files] == ["alias"]


def test_a_tree_with_links_out_or_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="does not exist"):
        read_tree(tmp_path / "nothing")
    with pytest.raises(InvalidSetting, match="no files"):
        read_tree(tmp_path)
    (tmp_path / "out").symlink_to("/etc/passwd")
    with pytest.raises(InvalidSetting, match="leaves the folder"):
        read_tree(tmp_path)
    with pytest.raises(InvalidSetting, match="neither a regular file"):
        read_tree(Path("/dev/null"))


def test_a_folder_with_too_many_files_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload_folder, "FILES_MAX", 2)
    endless = itertools.count()
    monkeypatch.setattr(upload_folder, "_walked", lambda *_, **__: map(str, endless))
    for read in (read_folder, read_tree):
        with pytest.raises(InvalidSetting, match="more than 2 files"):
            read(tmp_path)
    assert next(endless) == 6
