"""`sokovan up` with its store on PostgreSQL, and with its configuration in etcd."""

from __future__ import annotations

import asyncio
from pathlib import Path

from sokovan.adapters.etcd.access import EtcdAccess
from sokovan.adapters.etcd.config import EtcdConfig
from sokovan.adapters.local.clock import SystemClock
from sokovan.ports.config import ConfigValue
from tests.acceptance.embedded import SMALL, Embedded, until
from tests.acceptance.endings import ended_well

LITTLE = ("--cpus", str(SMALL["cpu"]), "--mem", str(SMALL["mem"]))


def configured(folder: Path, text: str) -> Embedded:
    """A machine whose data folder has this configuration file."""
    server = Embedded(folder)
    server.data.mkdir(parents=True, mode=0o700)
    file = server.data / "sokovan.toml"
    file.write_text(text, encoding="utf-8")
    file.chmod(0o600)
    return server


def settings(server: Embedded) -> dict[str, tuple[object, str]]:
    """The settings in force, each with its source."""
    return {one["name"]: (one["value"], one["source"]) for one in server.cli_json("config", "server")}


def test_sessions_run_on_postgresql_and_are_there_after_a_restart(tmp_path: Path, postgres_url: str) -> None:
    server = configured(tmp_path / "up", f'[storage]\nurl = "{postgres_url}"\n')
    with ended_well(server):
        server.start()
        assert "database   postgresql" in server.said
        done = server.cli("run", "-n", "first", *LITTLE, "--", "echo", "hello")
        assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
        swept = server.cli("run", "-n", "sweep", "--array", "0-3%2", *LITTLE, "--", "true")
        assert swept.returncode == 0, swept.stderr
        assert not (server.data / "state.db").exists()
        server.stop()
        server.start()
        assert server.session("first")["result"] == "success"
        assert "4 succeeded" in server.cli("session", "show", "sweep").stdout


async def put(url: str, values: dict[str, ConfigValue]) -> None:
    """Write a shared configuration, as another manager would."""
    store = EtcdConfig(EtcdAccess((url.removeprefix("http://"),)), clock=SystemClock())
    try:
        await store.write(values, expected=(await store.read()).revision)
    finally:
        await store.close()


def test_a_shared_configuration_is_read_followed_and_overridden(tmp_path: Path, etcd_url: str) -> None:
    asyncio.run(put(etcd_url, {"orchestrator": {"agent_suspect_s": 20, "agent_lost_s": 90}}))
    address = etcd_url.replace("http://", "etcd://")
    server = configured(tmp_path / "up", f'[config]\nurl = "{address}"\n[orchestrator]\nagent_lost_s = 100\n')
    with ended_well(server):
        server.start()
        before = settings(server)
        assert before["orchestrator.agent_suspect_s"][0] == 20
        assert before["orchestrator.agent_lost_s"][0] == 100
        assert server.cli("run", *LITTLE, "--", "echo", "hello").stdout == "hello\n"
        asyncio.run(
            put(
                etcd_url, {"orchestrator": {"agent_suspect_s": 30}, "scaling_groups": {"default": {"scheduler": "drf"}}}
            )
        )
        until(lambda: settings(server)["orchestrator.agent_suspect_s"][0] == 30, what="the change is in force")
        until(lambda: server.cli_json("scaling-group", "show", "default")["scheduler"] == "drf", what="it is stored")


def test_a_configuration_is_pushed_and_every_manager_applies_it(tmp_path: Path, etcd_url: str) -> None:
    address, file = etcd_url.replace("http://", "etcd://"), tmp_path / "shared.toml"
    server = configured(tmp_path / "up", f'[config]\nurl = "{address}"\n')
    with ended_well(server):
        server.start()
        file.write_text("[orchestrator]\nagent_suspect_s = 20\nagent_lost_s = 90\n", encoding="utf-8")
        words = ("config", "push", str(file), "--config", str(server.data / "sokovan.toml"))
        shown = server.cli(*words, "--dry-run")
        assert (shown.returncode, shown.stdout.splitlines()) == (
            0,
            ["+ orchestrator.agent_lost_s = 90", "+ orchestrator.agent_suspect_s = 20"],
        ), shown.stderr
        assert settings(server)["orchestrator.agent_suspect_s"][0] != 20
        assert server.cli(*words).returncode == 0
        until(lambda: settings(server)["orchestrator.agent_suspect_s"][0] == 20, what="the change is in force")
        file.write_text("[orchestrator]\nagent_suspect_s = 30\n", encoding="utf-8")
        [changed, removed] = server.cli_json(*words)["changes"][::-1]
        assert (changed["before"], changed["after"], removed["after"]) == ("20", "30", None)
        until(lambda: settings(server)["orchestrator.agent_suspect_s"][0] == 30, what="the change is in force")
        assert settings(server)["orchestrator.agent_lost_s"][0] == 60
        file.write_text("[orchestrator]\nagent_suspect_s = -1\n", encoding="utf-8")
        refused = server.cli(*words)
        assert (refused.returncode, f"{file}:2: orchestrator.agent_suspect_s" in refused.stderr) == (2, True), refused
        assert settings(server)["orchestrator.agent_suspect_s"][0] == 30
