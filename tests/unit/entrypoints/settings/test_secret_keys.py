"""The keys of a data folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.adapters.local.secret_box import SecretKeysUnusable
from sokovan.entrypoints.settings.secret_keys import KEY_FILE, rotate_secret_key, secret_box


def test_a_box_of_the_same_folder_opens_what_another_sealed(tmp_path: Path) -> None:
    sealed = secret_box(tmp_path, create=True).seal({"A": "1"}, owner="u")

    assert secret_box(tmp_path).open(sealed, owner="u") == {"A": "1"}


def test_a_new_key_is_used_without_a_restart(tmp_path: Path) -> None:
    box = secret_box(tmp_path, create=True)
    sealed = box.seal({"A": "1"}, owner="u")
    path, name = rotate_secret_key(tmp_path)

    assert path == tmp_path / KEY_FILE
    assert box.seal({}, owner="u").split(".")[1] == name
    assert box.open(sealed, owner="u") == {"A": "1"}


def test_only_the_keys_of_a_server_are_rotated(tmp_path: Path) -> None:
    with pytest.raises(SecretKeysUnusable):
        rotate_secret_key(tmp_path)
