"""Files are opened with the rights of an account, in one thread only."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sokovan.adapters.process.shim import thread_account
from sokovan.adapters.process.shim.thread_account import AccountUnavailable, rights_of
from tests.kernels import needs_root

NUMBER = 300_001


def test_without_an_account_nothing_changes(tmp_path: Path) -> None:
    with rights_of(None):
        (tmp_path / "made").touch()
    assert (tmp_path / "made").stat().st_uid == os.geteuid()


@needs_root
def test_the_rights_and_the_owner_of_new_files_are_those_of_the_account(open_path: Path) -> None:
    (open_path / "closed").touch(mode=0o600)
    (open_path / "theirs").mkdir()
    os.chown(open_path / "theirs", NUMBER, NUMBER)
    groups = os.getgroups()
    with rights_of(NUMBER):
        with pytest.raises(PermissionError):
            (open_path / "closed").read_text()
        (open_path / "theirs" / "made").touch()
        assert os.getgroups() == []
    made = (open_path / "theirs" / "made").stat()
    assert (made.st_uid, made.st_gid) == (NUMBER, NUMBER)
    assert (open_path / "closed").read_text() == ""
    assert os.getgroups() == groups


@needs_root
def test_other_threads_keep_their_rights(open_path: Path) -> None:
    (open_path / "closed").touch(mode=0o600)
    with ThreadPoolExecutor(1) as other:
        other.submit(int).result()  # its thread runs: one that starts later would begin with the rights of its maker
        with rights_of(NUMBER):
            assert other.submit((open_path / "closed").read_text).result() == ""


@needs_root
def test_an_error_inside_gives_the_rights_back(open_path: Path) -> None:
    (open_path / "closed").touch(mode=0o600)
    with pytest.raises(ValueError, match="inside"), rights_of(NUMBER):
        raise ValueError("inside")
    assert (open_path / "closed").read_text() == ""


def test_a_machine_without_the_call_opens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_account, "_SETGROUPS", None)
    with pytest.raises(AccountUnavailable), rights_of(NUMBER):
        raise AssertionError("the rights of root were used")
