"""Folders have safe names, come and go whole, and lead nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.adapters.process.layout import (
    DISCARDED,
    UNFINISHED,
    KernelLayout,
    folder_name,
    locked_if_free,
    open_lock,
    opened,
    remove_tree,
)
from sokovan.domain.ids import KernelId

IDS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._\-/:@+]{0,127}", fullmatch=True)


@pytest.fixture
def layout(tmp_path: Path) -> KernelLayout:
    made = KernelLayout(tmp_path / "root")
    made.prepare()
    return made


@pytest.mark.slow
@given(IDS, st.integers(0, 10**6))
def test_a_folder_name_is_one_plain_part_of_a_path(kernel_id: str, attempt: int) -> None:
    name = folder_name(KernelId(kernel_id), attempt)
    assert Path(name).parts == (name,)
    assert "/" not in name
    assert not name.startswith(".")
    assert len(name) < 220


@given(st.lists(st.tuples(IDS, st.integers(0, 30)), unique=True, min_size=2, max_size=2))
def test_no_two_kernels_share_a_folder(pair: list[tuple[str, int]]) -> None:
    (first, one), (second, other) = pair
    assert folder_name(KernelId(first), one) != folder_name(KernelId(second), other)


def test_ids_that_differ_in_their_tail_only_have_folders_of_their_own() -> None:
    names = {folder_name(KernelId("a" + "/" * 126 + end), 1) for end in "xyz"}
    assert len(names) == 3


def test_folders_are_private(layout: KernelLayout) -> None:
    assert {folder.stat().st_mode & 0o777 for folder in (layout.root, layout.kernels, layout.venvs)} == {0o700}


def test_a_lock_is_exclusive(layout: KernelLayout) -> None:
    folder = layout.kernels / "k-1"
    folder.mkdir()
    lock = open_lock(folder, wait=False)
    with locked_if_free(folder) as free:
        assert not free
    os.close(lock)
    with locked_if_free(folder) as free:
        assert free
    with locked_if_free(layout.kernels / "none") as free:
        assert not free


def test_tombstones_are_kept_for_their_time(layout: KernelLayout) -> None:
    layout.add_tombstone("old-1", 1_000)
    layout.add_tombstone("new-1", 9_000)
    layout.remove_tombstones(older_than_ms=5_000)
    assert (layout.is_forgotten("old-1"), layout.is_forgotten("new-1")) == (False, True)


def test_what_is_discarded_is_out_of_sight_and_gone(layout: KernelLayout) -> None:
    (layout.kernels / "k-1" / "work").mkdir(parents=True)
    layout.discard("k-1")
    layout.discard("k-1")
    assert list(layout.kernels.iterdir()) == []


def test_leftovers_of_a_killed_runtime_are_removed_unless_they_are_locked(layout: KernelLayout) -> None:
    for name in (f"{DISCARDED}1", f"{UNFINISHED}given-up", f"{UNFINISHED}under-way", "k-1"):
        (layout.kernels / name).mkdir()
        os.utime(layout.kernels / name, (1, 1))
    (layout.kernels / f"{UNFINISHED}young").mkdir()
    lock = open_lock(layout.kernels / f"{UNFINISHED}under-way", wait=False)
    os.utime(layout.kernels / f"{UNFINISHED}under-way", (1, 1))
    layout.remove_unfinished_folders(older_than_ms=5_000)
    os.close(lock)
    assert sorted(entry.name for entry in layout.kernels.iterdir()) == [
        f"{UNFINISHED}under-way",
        f"{UNFINISHED}young",
        "k-1",
    ]
    assert layout.names() == ["k-1"]


def test_removing_a_tree_follows_no_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").touch()
    tree = tmp_path / "tree"
    (tree / "shut" / "below").mkdir(parents=True)
    (tree / "link").symlink_to(outside)
    os.mkfifo(tree / "pipe")
    (tree / "shut").chmod(0)
    remove_tree(tree)
    remove_tree(tree)
    assert [path.name for path in tmp_path.iterdir()] == ["outside"]
    assert (outside / "precious").exists()


def test_a_link_in_place_of_a_tree_is_removed_itself(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "tree").symlink_to("outside")
    with pytest.raises(OSError, match="Not a directory"), opened(tmp_path / "tree"):
        pass
    remove_tree(tmp_path / "tree")
    assert [path.name for path in tmp_path.iterdir()] == ["outside"]
