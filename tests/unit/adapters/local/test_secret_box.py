"""The keys for secrets, in their file."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.adapters.local.secret_box import KEYS_MAX, AesSecretBox, SecretKeyFile, SecretKeysUnusable
from sokovan.ports.secrets import SecretsUnreadable


@pytest.fixture
def file(tmp_path: Path) -> SecretKeyFile:
    found = SecretKeyFile(tmp_path / "keys")
    found.create()
    return found


def test_the_file_is_private_and_is_not_replaced(file: SecretKeyFile, tmp_path: Path) -> None:
    path = tmp_path / "keys"
    before = path.read_bytes()
    file.create()

    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes() == before


def test_the_newest_key_seals_and_older_ones_open(file: SecretKeyFile) -> None:
    box = AesSecretBox(file.keys)
    old = box.seal({"A": "1"}, owner="u")
    name = file.rotate()
    new = box.seal({"A": "2"}, owner="u")

    assert new.split(".")[1] == name != old.split(".")[1]
    assert [box.open(one, owner="u")["A"] for one in (old, new)] == ["1", "2"]


def test_a_new_key_does_not_change_digests(file: SecretKeyFile) -> None:
    before = AesSecretBox(file.keys).digest("request")
    file.rotate()

    assert AesSecretBox(file.keys).digest("request") == before


def test_the_number_of_keys_is_limited(file: SecretKeyFile) -> None:
    box = AesSecretBox(file.keys)
    first = box.seal({"A": "1"}, owner="u")
    for _ in range(KEYS_MAX):
        file.rotate()

    assert len(file.keys()) == KEYS_MAX
    with pytest.raises(SecretsUnreadable):
        box.open(first, owner="u")


def test_other_keys_do_not_open(file: SecretKeyFile, tmp_path: Path) -> None:
    sealed = AesSecretBox(file.keys).seal({"A": "1"}, owner="u")
    (tmp_path / "keys").unlink()
    file.create()

    with pytest.raises(SecretsUnreadable):
        AesSecretBox(file.keys).open(sealed, owner="u")


@pytest.mark.parametrize("content", ["", "name\n", "name c2hvcnQ=\n", "name %%%\n", "é\n"])
def test_a_damaged_file_is_an_error(content: str, tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.touch(mode=0o600)
    path.write_text(content, encoding="utf-8")

    with pytest.raises(SecretKeysUnusable):
        SecretKeyFile(path).keys()


def test_a_file_that_others_can_read_is_an_error(file: SecretKeyFile, tmp_path: Path) -> None:
    (tmp_path / "keys").chmod(0o644)

    with pytest.raises(SecretKeysUnusable, match="other accounts"):
        file.keys()


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SecretKeysUnusable):
        SecretKeyFile(tmp_path / "none").keys()
