"""Options that give settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.cli.local.setting_options import NO_SETTINGS
from tests.unit.cli.canned_server import Sokovan


def test_without_options_there_is_no_file_and_no_setting() -> None:
    assert (NO_SETTINGS.config, NO_SETTINGS.set) == (None, ())


@pytest.mark.parametrize("command", [("up",), ("agent", "run", "ws://127.0.0.1:1")])
def test_server_and_agent_refuse_a_wrong_file(
    sokovan: Sokovan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("SOKOVAN_AGENT_TOKEN", "skj-1")
    file = tmp_path / "lab.toml"
    file.write_text("[agent]\nnam = 'x'\n", encoding="utf-8")
    status, _, err = sokovan(*command, "--config", str(file))
    assert status == 2
    assert f"{file}:2: agent.nam: is not known; did you mean name?" in err
