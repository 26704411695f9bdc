"""Output and options of `sokovan up`; the command itself is tested in tests/acceptance."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import pytest

from sokovan.domain.errors import InvalidInput
from sokovan.entrypoints.cluster.api_listener import ServerAddresses
from sokovan.entrypoints.embedded.control_plane import ManagerPorts
from sokovan.entrypoints.embedded.data_folder import DataFolder
from sokovan.entrypoints.settings.server_settings import ServerSettings
from sokovan.entrypoints.settings.setting_sources import sources_of
from sokovan.entrypoints.up import UpOptions, ready_lines, run_up, shape_of


def lines(tmp_path: Path, url: str, probes: str = "") -> list[str]:
    nothing = cast("Any", None)
    ports = ManagerPorts(
        nothing, nothing, nothing, nothing, nothing, 7647, "here: 2 cpu; no sandbox", lambda: None, lambda _timing: None
    )
    at = ServerAddresses(url=url, probes=probes, gateway="http://127.0.0.1:7648")
    return ready_lines(UpOptions(), ServerSettings(), ports, folder=tmp_path, at=at, ready_s=0.84)


def test_the_ready_lines_say_where_and_what_next(tmp_path: Path) -> None:
    text = "\n".join(lines(tmp_path, "http://127.0.0.1:7646"))
    assert "http://127.0.0.1:7646" in text
    assert "gateway    http://127.0.0.1:7648/v1" in text
    assert "no sandbox" in text
    assert "sokovan run --" in text
    assert text.endswith("ready in 0.8 s")
    assert "was in use" not in text


def test_another_port_than_the_requested_one_is_printed(tmp_path: Path) -> None:
    assert any("port 7646 was in use" in line for line in lines(tmp_path, "http://127.0.0.1:7650"))


def test_a_coordinator_says_where_its_metrics_are(tmp_path: Path) -> None:
    text = "\n".join(lines(tmp_path, "", probes="http://127.0.0.1:7646"))
    assert "none in this role; health and metrics at http://127.0.0.1:7646" in text
    assert "was in use" not in text


def test_a_second_server_on_the_folder_does_nothing_and_succeeds(tmp_path: Path) -> None:
    said: list[str] = []
    folder = DataFolder(tmp_path)
    with folder.locked():
        folder.write_private("up.json", '{"url": "http://127.0.0.1:7646"}')
        assert run_up(UpOptions(data=tmp_path), echo=said.append) == 0
    assert "already at http://127.0.0.1:7646" in said[0]


def test_a_fleet_or_a_name_that_cannot_be_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        run_up(UpOptions(data=tmp_path / "new", fake_agents=(0, 8)), echo=lambda _line: None)
    sources = sources_of(None, tmp_path, environment={}, flags={"--name": "../x"})
    with pytest.raises(InvalidInput):
        run_up(UpOptions(data=tmp_path / "new", sources=sources), echo=lambda _line: None)
    assert not (tmp_path / "new").exists()
    assert shape_of(UpOptions(fake_agents=(4, 2))) is not None


def test_a_data_listener_needs_an_authority_and_nothing_is_made_without_one(tmp_path: Path) -> None:
    sources = sources_of(None, tmp_path, environment={}, assignments=["agent.data_listen=127.0.0.1:0"])
    with pytest.raises(InvalidInput, match="no authority for other machines"):
        run_up(UpOptions(data=tmp_path / "data", sources=sources), echo=lambda _line: None)
    assert not (tmp_path / "data").exists()


def test_files_are_for_their_owner_alone_while_it_is_up_and_as_usual_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    async def opened(_options: object, _sources: object, folder: DataFolder, _say: object) -> int:
        (folder.root / "state.db-wal").touch()
        seen.append((folder.root / "state.db-wal").stat().st_mode & 0o777)
        return 0

    monkeypatch.setattr("sokovan.entrypoints.up._up", opened)
    before = os.umask(0o022)
    try:
        run_up(UpOptions(data=tmp_path / "new"), echo=lambda _line: None)
        assert (seen, os.umask(0o022)) == ([0o600], 0o022)
    finally:
        os.umask(before)
