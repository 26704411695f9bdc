"""The keys that managers share: created once, copied, and looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.entrypoints.cluster.shared_keys import copy_keys, create_keys, key_folder, missing_keys
from sokovan.entrypoints.embedded.data_folder import DataFolder, DataFolderUnusable, PrivateFolder
from sokovan.entrypoints.settings.server_settings import settings_of


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_the_keys_are_in_the_data_folder_unless_another_is_set(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "data")
    assert key_folder(settings_of({}), folder) is folder
    elsewhere = key_folder(settings_of({"cluster": {"keys": str(tmp_path / "keys")}}), folder)
    assert elsewhere.root == tmp_path / "keys"


def test_keys_are_created_once(tmp_path: Path) -> None:
    folder = PrivateFolder(tmp_path / "keys")
    assert "pepper" in missing_keys(folder.root)
    create_keys(folder)
    assert missing_keys(folder.root) == []
    before = contents(folder.root)
    create_keys(folder)
    assert contents(folder.root) == before
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.root.rglob("*"))


def test_copied_keys_are_the_same_ones(tmp_path: Path) -> None:
    source, target = PrivateFolder(tmp_path / "one"), PrivateFolder(tmp_path / "two")
    create_keys(source)
    copy_keys(source.root, target)
    create_keys(target)
    assert contents(target.root) == contents(source.root)


def test_a_folder_without_keys_cannot_be_copied(tmp_path: Path) -> None:
    with pytest.raises(DataFolderUnusable, match="no keys of a server"):
        copy_keys(tmp_path, PrivateFolder(tmp_path / "keys"))
