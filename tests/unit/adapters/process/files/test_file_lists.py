"""Files below a folder: regular ones only, and not more than allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.adapters.process.files.file_access import identities
from sokovan.adapters.process.files.file_lists import NAMED_MAX, FileTree
from sokovan.adapters.process.layout import opened
from sokovan.ports.kernel_files import FileRefused


def tree_of(folder: Path, entries_max: int = 100, hidden: tuple[Path, ...] = ()) -> FileTree:
    tree = FileTree(entries_max, identities(hidden))
    with opened(folder) as handle:
        tree.read(handle)
    return tree


def test_files_have_their_size_time_and_mode(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "run").write_bytes(b"abc")
    (tmp_path / "b" / "run").chmod(0o755)
    (tmp_path / "a").touch()
    first, second = tree_of(tmp_path).files
    assert (first.path, first.size, first.executable) == ("a", 0, False)
    assert (second.path, second.size, second.executable) == ("b/run", 3, True)


def test_what_cannot_be_copied_is_counted_and_some_of_it_named(tmp_path: Path) -> None:
    for number in range(NAMED_MAX + 2):
        (tmp_path / f"link{number}").symlink_to("nowhere")
    (tmp_path / "a\x1bb").touch()
    (tmp_path / "keys").mkdir()
    tree = tree_of(tmp_path, hidden=(tmp_path / "keys",))
    assert (tree.files, tree.left_out) == ([], NAMED_MAX + 4)
    assert len(tree.left_out_names) == NAMED_MAX
    assert all(name.isprintable() for name in tree.left_out_names)


def test_folders_count_too(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / str(number)).mkdir()
    with pytest.raises(FileRefused, match="more than 4"):
        tree_of(tmp_path, entries_max=4)
