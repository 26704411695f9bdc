"""Files of /etc as kernels see them: copied into one folder, or bound where a copy does not do."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.adapters.process.isolation import system_files
from sokovan.adapters.process.isolation.system_files import SystemFiles, bound_files

NAMES = ("hosts", "localtime", "alternatives", "ssl/certs", "ssl/openssl.cnf", "secret", "missing/file")


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    found = tmp_path / "system"
    (found / "ssl" / "certs").mkdir(parents=True)
    (found / "alternatives").mkdir()
    (tmp_path / "UTC").write_text("TZ")
    (found / "localtime").symlink_to(tmp_path / "UTC")
    for name in ("hosts", "ssl/openssl.cnf", "secret", "not-listed"):
        (found / name).write_text(f"{name} of the system")
    (found / "secret").chmod(0o600)
    return found


@pytest.fixture
def files(tmp_path: Path, etc: Path, monkeypatch: pytest.MonkeyPatch) -> SystemFiles:
    monkeypatch.setattr(system_files, "LOOK_S", 0.0)
    return SystemFiles(tmp_path / "etc", NAMES, source=etc)


def test_small_files_are_copied_and_the_rest_is_bound(files: SystemFiles, tmp_path: Path, etc: Path) -> None:
    assert files.options() == [
        *("--ro-bind", str(tmp_path / "etc"), "/etc"),
        *("--ro-bind", str(etc / "alternatives"), "/etc/alternatives"),
        *("--ro-bind", str(etc / "ssl" / "certs"), "/etc/ssl/certs"),
        *("--ro-bind", str(etc / "secret"), "/etc/secret"),
    ]
    made = tmp_path / "etc"
    assert (made / "hosts").read_text() == "hosts of the system"
    assert (made / "localtime").read_text() == "TZ"
    assert not (made / "localtime").is_symlink()
    assert (made / "secret").read_text() == "", "what not everyone may read is not copied"
    assert {one.name for one in made.iterdir()} == {"hosts", "localtime", "alternatives", "ssl", "secret"}
    assert {one.stat().st_mode & 0o777 for one in (made, made / "ssl", made / "ssl" / "certs")} == {0o755}
    assert (made / "hosts").stat().st_mode & 0o777 == 0o644


def test_a_change_reaches_the_same_folder_and_an_equal_file_is_not_copied_again(
    files: SystemFiles, tmp_path: Path, etc: Path
) -> None:
    files.options()
    made = tmp_path / "etc"
    first, unchanged = made.stat().st_ino, (made / "localtime").stat().st_ino
    (etc / "hosts").write_text("other hosts")
    (etc / "ssl" / "openssl.cnf").unlink()
    files.options()
    assert (made / "hosts").read_text() == "other hosts"
    assert not (made / "ssl" / "openssl.cnf").exists()
    assert (made.stat().st_ino, (made / "localtime").stat().st_ino) == (first, unchanged)


def test_a_look_counts_for_a_while(files: SystemFiles, etc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = files.options()
    monkeypatch.setattr(system_files, "LOOK_S", 3600.0)
    (etc / "secret").unlink()
    assert files.options() == before


def test_without_room_for_copies_each_file_is_bound_by_itself(
    files: SystemFiles, etc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_target: Path, _content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(system_files, "_replace", full)
    found = files.options()
    assert found == bound_files(NAMES, source=etc)
    assert found[:3] == ["--ro-bind", str(etc / "hosts"), "/etc/hosts"]
    assert "/etc/missing/file" not in found
