"""The configuration file of a new cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.domain.errors import InvalidInput
from sokovan.entrypoints.cluster.server_file import FileExists, write_server_file
from sokovan.entrypoints.cluster.shared_keys import missing_keys
from sokovan.entrypoints.settings.setting_sources import sources_of


def test_the_file_is_valid_and_its_keys_exist(tmp_path: Path) -> None:
    url = 'postgresql://me:p"w\\@db.example/sokovan'
    file = write_server_file(tmp_path / "etc", database=url, listen="0.0.0.0:7649")
    settings = sources_of(file, tmp_path, environment={}).read()
    assert (settings.storage.url, settings.orchestrator.listen) == (url, "0.0.0.0:7649")
    assert missing_keys(Path(settings.cluster.keys)) == []
    assert file.stat().st_mode & 0o077 == 0


def test_a_file_that_exists_is_not_replaced(tmp_path: Path) -> None:
    file = write_server_file(tmp_path / "etc")
    before = file.read_text(encoding="utf-8")
    with pytest.raises(FileExists):
        write_server_file(tmp_path / "etc", listen="0.0.0.0:1")
    assert file.read_text(encoding="utf-8") == before


def test_an_address_that_would_break_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be printed"):
        write_server_file(tmp_path / "etc", listen="x\n[api]")
