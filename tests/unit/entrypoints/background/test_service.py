"""The systemd unit of a server: its text, its place, and what systemctl is asked."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sokovan.entrypoints.background.service import ServiceUnavailable, install, uninstall, unit_path, unit_text


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"HOME": "/home/kim"}, "/home/kim/.config/systemd/user/sokovan.service"),
        ({"HOME": "/home/kim", "XDG_CONFIG_HOME": "/c"}, "/c/systemd/user/sokovan.service"),
        ({"HOME": "/home/kim", "XDG_CONFIG_HOME": "c"}, "/home/kim/.config/systemd/user/sokovan.service"),
    ],
)
def test_the_unit_lies_where_systemd_looks(environment: dict[str, str], expected: str) -> None:
    assert unit_path(environment) == Path(expected)


def test_words_of_the_command_are_quoted_for_systemd() -> None:
    text = unit_text(["--data", '/d/a "b" $x 5%'], {"XDG_DATA_HOME": "/d $y"})
    assert f'ExecStart="{sys.executable}" "-P" "-m" "sokovan" "up" "--data" "/d/a \\"b\\" $$x 5%%"\n' in text
    assert 'Environment="XDG_DATA_HOME=/d $y"\n' in text
    assert "KillMode=process" in text


def test_the_settings_of_variables_are_those_of_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    variables = {"SOKOVAN_LOG__FILES_KEPT": "4", "SOKOVAN_CONFIG": "lab.toml", "SOKOVAN_TOKEN": "t", "LANG": "C"}
    lines = unit_text([], {**variables, "SOKOVAN_AGENT__NAME": "a\nb"}).splitlines()
    assert [line for line in lines if line.startswith("Environment=")] == [
        'Environment="SOKOVAN_AGENT__NAME=a\\nb"',
        'Environment="SOKOVAN_LOG__FILES_KEPT=4"',
        f'Environment="SOKOVAN_CONFIG={tmp_path}/lab.toml"',
    ]


def test_without_systemctl_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServiceUnavailable, match="not installed"):
        install([], {"HOME": str(tmp_path)})
    assert list(tmp_path.iterdir()) == []
    assert uninstall({"HOME": str(tmp_path)}) is None


@pytest.fixture
def refusing_systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A systemctl that enables nothing; the file has what it was called with."""
    calls, folder = tmp_path / "calls", tmp_path / "bin"
    folder.mkdir()
    script = folder / "systemctl"
    script.write_text(f'#!/bin/sh\necho "$2" >> {calls}\n[ "$2" != enable ] || {{ echo no bus >&2; exit 1; }}\n')
    script.chmod(0o700)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return calls


def test_a_unit_that_systemd_refuses_is_removed(tmp_path: Path, refusing_systemctl: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    with pytest.raises(ServiceUnavailable, match="enable failed: no bus"):
        install([], environment)
    assert list(unit_path(environment).parent.iterdir()) == []
    assert refusing_systemctl.read_text().split() == ["daemon-reload", "enable", "daemon-reload"]


def test_an_earlier_unit_stays_if_systemd_refuses_the_new_one(tmp_path: Path, refusing_systemctl: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    path = unit_path(environment)
    path.parent.mkdir(parents=True)
    path.write_text("earlier")
    with pytest.raises(ServiceUnavailable):
        install(["--data", "/d"], environment)
    assert [(one.name, one.read_text()) for one in path.parent.iterdir()] == [(path.name, "earlier")]
    assert refusing_systemctl.read_text().split()[-1] == "daemon-reload"
