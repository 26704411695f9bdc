"""`sokovan server`: what it hands over, prints, and exits with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sokovan.entrypoints.up import UpOptions
from tests.unit.cli.canned_server import Sokovan


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[UpOptions]:
    """The options passed to `run_up`."""
    found: list[UpOptions] = []

    def run(options: UpOptions, *, echo: Callable[[str], None]) -> int:
        found.append(options)
        echo("ready")
        return 0

    monkeypatch.setattr("sokovan.entrypoints.up.run_up", run)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return found


def test_options_become_settings_of_a_manager(sokovan: Sokovan, asked: list[UpOptions], tmp_path: Path) -> None:
    words = ("--role", "api", "--port", "0", "--listen", "127.0.0.2:0", "--data", str(tmp_path / "d"))
    assert sokovan("server", *words) == (0, "", "ready\n")
    assert sokovan("server", "run", *words) == (0, "", "ready\n")
    for options in asked:
        assert (options.cluster, options.data) == (True, tmp_path / "d")
        assert options.sources is not None
        settings = options.sources.read()
        assert (settings.cluster.role, settings.api.port, settings.agent.enabled) == ("api", 0, False)
        assert settings.orchestrator.listen == "127.0.0.2:0"


def test_without_a_shared_database_it_does_not_start(
    sokovan: Sokovan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    status, _out, err = sokovan("server", "run", "--data", str(tmp_path / "d"))
    assert (status, "needs a PostgreSQL database" in err) == (2, True), err
    assert not (tmp_path / "d").exists()
    assert sokovan("server", "migrate")[0] == 2
    assert sokovan("server", "status")[0] == 2


def test_an_unreachable_database_is_7(sokovan: Sokovan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("SOKOVAN_STORAGE__URL", "postgresql://x@127.0.0.1:1/none")
    for words in (("run",), ("migrate",), ("status",)):
        assert sokovan("server", *words)[0] == 7


@pytest.mark.slow
def test_a_file_is_written_once_and_checked(sokovan: Sokovan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    status, out, err = sokovan("server", "init", str(tmp_path / "etc"), "--database", "postgresql://x@127.0.0.1:1/n")
    assert (status, out) == (0, f"{tmp_path / 'etc' / 'sokovan.toml'}\n"), err
    assert sokovan("server", "init", str(tmp_path / "etc"))[0] == 1
    status, out, err = sokovan("server", "check", "--config", out.strip())
    assert (status, "FAIL    cannot reach" in out) == (1, True), out
    status, out, _err = sokovan("server", "check", "--config", str(tmp_path / "etc" / "sokovan.toml"), "--json")
    assert {one["name"]: one["ok"] for one in json.loads(out)}["keys"] is True


def test_the_statements_for_roles_are_printed(
    sokovan: Sokovan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("SOKOVAN_STORAGE__URL", "postgresql://me:secret@127.0.0.1:1/none")
    status, out, err = sokovan("server", "roles", "--api", "web")
    assert (status, err) == (0, "API: web, coordinators: sokovan_coordinator, migrations: me\n")
    assert 'CREATE ROLE "web" LOGIN' in out
    assert "secret" not in out
    assert sokovan("server", "roles", "--api", "a b")[0] == 1
    assert sokovan("server", "roles", "--api", "me")[0] == 1


@pytest.mark.slow
def test_the_state_of_a_cluster_is_shown(
    sokovan: Sokovan, tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("SOKOVAN_STORAGE__URL", postgres_url)
    assert sokovan("server", "run")[0] == 5
    status, out, err = sokovan("server", "migrate")
    assert (status, out.endswith("current\n")) == (0, True), err
    status, out, err = sokovan("server", "status")
    assert (status, "agents      none" in out, "no manager leads" in err) == (1, True, True), out + err
    assert json.loads(sokovan("server", "status", "--json")[1])["leases"] == []
