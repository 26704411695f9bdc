"""`sokovan up`: the options it passes on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sokovan.entrypoints.embedded.data_folder import DataFolder
from sokovan.entrypoints.settings.server_settings import ServerSettings
from sokovan.entrypoints.settings.setting_sections import AgentSettings
from sokovan.entrypoints.up import UpOptions
from tests.kernels import own_start
from tests.unit.cli.canned_server import CannedServer, Sokovan


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[UpOptions]:
    """The options passed to `run_up`."""
    found: list[UpOptions] = []

    def up(options: UpOptions, *, echo: Callable[[str], None]) -> int:
        found.append(options)
        echo("ready")
        return 0

    monkeypatch.setattr("sokovan.entrypoints.up.run_up", up)
    return found


def settings_of(options: UpOptions) -> ServerSettings:
    assert options.sources is not None
    return options.sources.read()


def test_without_options_it_is_the_usual_port_and_an_agent(sokovan: Sokovan, asked: list[UpOptions]) -> None:
    assert sokovan("up") == (0, "", "ready\n")
    [options] = asked
    assert (options.data, options.fake_agents) == (None, None)
    settings = settings_of(options)
    assert (settings.api.port, settings.agent.enabled, settings.agent.fake_gpus) == (7646, True, 0)


def test_every_option_is_handed_over(sokovan: Sokovan, asked: list[UpOptions]) -> None:
    words = (
        "--port",
        "0",
        "--data",
        "d",
        "--fake",
        "64x8",
        "--fake-gpus",
        "4",
        "--gpu-shares",
        "--no-agent",
        "--name",
        "n1",
        "--kernel-ports",
        "31000-31999",
        "--shard",
        "east",
        "--max-kernels",
        "8",
        "--reserve",
        "cpu=0.1,mem=1MiB",
    )
    assert sokovan("up", *words)[0] == 0
    [options] = asked
    assert (options.data, options.fake_agents) == (Path("d"), (64, 8))
    settings = settings_of(options)
    expected = AgentSettings(enabled=False, name="n1", fake_gpus=4, gpu_shares=True, kernel_ports="31000-31999")
    limits = replace(expected, shard="east", kernels_max=8, reserve="cpu=0.1,mem=1MiB")
    assert (settings.api.port, settings.agent) == (0, limits)


def test_a_flag_wins_over_a_variable_and_that_over_the_file(
    sokovan: Sokovan, asked: list[UpOptions], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "lab.toml"
    file.write_text("[scheduler]\nbatch_max = 1\nlong_cycle_s = 11\n[api]\nport = 1\n", encoding="utf-8")
    monkeypatch.setenv("SOKOVAN_SCHEDULER__BATCH_MAX", "2")
    monkeypatch.setenv("SOKOVAN_API__PORT", "2")
    assert sokovan("up", "--config", str(file), "--port", "3", "--set", "orchestrator.agent_lost_s=99")[0] == 0
    settings = settings_of(asked[0])
    assert (settings.api.port, settings.scheduler.batch_max, settings.scheduler.long_cycle_s) == (3, 2, 11)
    assert settings.orchestrator.agent_lost_s == 99


def test_an_unknown_setting_is_refused_with_its_place_and_the_nearest_name(
    sokovan: Sokovan, asked: list[UpOptions], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "lab.toml"
    file.write_text("[scheduler]\n\nbatch_maks = 1\n", encoding="utf-8")
    monkeypatch.setenv("SOKOVAN_API__PROT", "2")
    status, _, err = sokovan("up", "--config", str(file), "--set", "agent.nam=x")
    assert (status, asked) == (2, [])
    assert f"{file}:3: scheduler.batch_maks: is not known; did you mean batch_max?" in err
    assert "SOKOVAN_API__PROT: api.prot: is not known; did you mean port?" in err
    assert "--set agent.nam: agent.nam: is not known; did you mean name?" in err


@pytest.mark.parametrize(
    "words",
    [
        ("--port", "70000"),
        ("--max-kernels", "-1"),
        ("--reserve", "cpu=1000000"),
        ("--shard", "no name"),
        ("--port", "-1"),
        ("--port", "web"),
        ("--fake", "64"),
        ("--fake", "0x8"),
        ("--fake", "ax8"),
        ("--fake", "9999999x8"),
        ("--fake-gpus", "-1"),
        ("--kernel-ports", "x"),
        ("--config", "/no/such/file.toml"),
        ("--set", "batch_max=1"),
        ("--set", "scheduler.batch_max"),
        ("--set", "scheduler.batch_max=many"),
        ("--opened",),
    ],
)
def test_invalid_values_are_a_usage_error(sokovan: Sokovan, asked: list[UpOptions], words: tuple[str, ...]) -> None:
    status, out, err = sokovan("up", *words)
    assert (status, out, asked) == (2, "", [])
    assert "hint:" in err


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ((), ""),
        (("--port", "7700"), ""),
        (("--port", "0"), ""),
        (("--fake", "4x8", "--no-agent", "--port", "80"), "not applied: --port 80, --fake 4x8, --no-agent; "),
        (("--name", "n1", "--fake-gpus", "2"), "not applied: --fake-gpus 2, --name n1; "),
        (
            ("--set", "api.port=1", "--set", "log.files_kept=0"),
            "not applied: --set api.port=1, --set log.files_kept=0; ",
        ),
    ],
)
def test_a_running_server_is_reported_with_options_not_applied(
    sokovan: Sokovan, asked: list[UpOptions], tmp_path: Path, *, words: tuple[str, ...], left: str
) -> None:
    folder = DataFolder(tmp_path)
    with folder.locked():
        folder.write_private(
            "up.json", json.dumps({"url": "http://127.0.0.1:7700", "pid": os.getpid(), "start": own_start()})
        )
        status, _, err = sokovan("up", "--data", str(tmp_path), *words)
    assert (status, asked) == (0, [])
    first, *more = err.splitlines()
    assert first == "sokovan is already running at http://127.0.0.1:7700; nothing to do"
    assert len(more) == bool(left)
    assert "".join(more).startswith(left)


def test_the_dashboard_of_a_server_that_runs_already_is_opened(
    server: CannedServer, sokovan: Sokovan, tmp_path: Path
) -> None:
    code = {"code": "LC-1.x", "path": "/ui/#code=LC-1.x", "expires_at": "2026-01-01T12:00:00Z"}
    server.says("POST login-codes", code, status=201)
    folder = DataFolder(tmp_path)
    with folder.locked():
        folder.write_private("up.json", json.dumps({"url": server.url, "pid": os.getpid(), "start": own_start()}))
        assert sokovan("up", "--data", str(tmp_path))[:2] == (0, "")
        status, out, _ = sokovan("up", "--data", str(tmp_path), "--open")
    assert (status, out) == (0, f"{server.url}/ui/#code=LC-1.x\n")
