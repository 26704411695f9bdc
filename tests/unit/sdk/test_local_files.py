"""Local targets of copies; the server's names are not trusted."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.sdk.errors import InvalidSetting
from sokovan.sdk.local_files import local_path, local_target, make_folder


def test_a_copy_goes_into_a_folder_or_gets_a_new_name(tmp_path: Path) -> None:
    assert local_target("a/model.pt", tmp_path) == tmp_path / "model.pt"
    assert local_target("a/runs/", tmp_path) == tmp_path / "runs"
    assert local_target("a/model.pt", tmp_path / "new.pt") == tmp_path / "new.pt"
    for path in ("", ".", "/"):
        assert local_target(path, tmp_path) == tmp_path


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", "a//b", "", "a\nb", "\x1b]0;x"])
def test_a_server_cannot_name_a_file_outside(tmp_path: Path, path: str) -> None:
    with pytest.raises(InvalidSetting, match="not below"):
        local_path(tmp_path, path)


def test_a_path_below_is_joined(tmp_path: Path) -> None:
    assert local_path(tmp_path, "a/b") == tmp_path / "a" / "b"


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidSetting, match="cannot create"):
        make_folder(tmp_path / "file" / "below")
