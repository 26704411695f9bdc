"""`sokovan config server`: what the server goes by."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.canned_server import CannedServer, Sokovan

SETTINGS = {
    "settings": [
        {
            "name": "scheduler.batch_max",
            "value": 7,
            "source": "s.toml:2",
            "default": 100,
            "hot": True,
            "variable": "SOKOVAN_SCHEDULER__BATCH_MAX",
        },
        {"name": "agent.labels", "value": [], "source": "default", "default": [], "hot": False, "variable": "X"},
    ],
    "notices": ["restart the server to apply: storage.url"],
}


@pytest.mark.slow
def test_the_settings_of_the_server_have_their_source(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET settings", SETTINGS)
    status, out, err = sokovan("config", "server")
    assert (status, [line.split() for line in out.splitlines()][1:]) == (
        0,
        [["scheduler.batch_max", "7", "s.toml:2"], ["agent.labels", "-", "default"]],
    )
    assert "restart the server to apply: storage.url" in err
    assert "agent.labels" not in sokovan("config", "server", "--changed")[1]
    assert json.loads(sokovan("config", "server", "--json")[1]) == SETTINGS["settings"]


@pytest.mark.slow
def test_a_file_is_checked_without_a_server(sokovan: Sokovan, tmp_path: Path) -> None:
    file = tmp_path / "lab.toml"
    file.write_text("[scheduler]\nbatch_max = 7\n", encoding="utf-8")
    status, out, err = sokovan("config", "server", "--check", str(file), "--changed")
    assert (status, out.splitlines()[1].split()) == (0, ["scheduler.batch_max", "7", f"{file}:2"])
    assert f"{file} is valid" in err
    file.write_text("[scheduler]\nallocator = 'no-such'\n[scaling_groups.a]\nscheduler = 'x'\n", encoding="utf-8")
    status, out, err = sokovan("config", "server", "--check", str(file))
    assert (status, out) == (2, "")
    assert f"{file}:4: scaling_groups.a.scheduler: there is no sequencer 'x'" in err
    file.write_text("[scheduler]\nallocator = 'no-such'\n", encoding="utf-8")
    assert (
        f"{file}:2: scheduler.allocator: there is no allocator 'no-such'"
        in sokovan("config", "server", "--check", str(file))[2]
    )


@pytest.mark.server
def test_a_file_is_pushed_and_its_difference_is_printed(sokovan: Sokovan, tmp_path: Path, etcd_url: str) -> None:
    file, address = tmp_path / "shared.toml", etcd_url.replace("http://", "etcd://")
    file.write_text("[scheduler]\nbatch_max = 7\n[api]\nport = 7000\n", encoding="utf-8")
    words = ("config", "push", str(file), "--set", f"config.url={address}")
    status, out, err = sokovan(*words, "--dry-run")
    assert (status, out) == (0, "+ api.port = 7000\n+ scheduler.batch_max = 7\n")
    assert "nothing was written" in err
    status, out, err = sokovan(*words)
    assert (status, "2 settings changed" in err, "after a restart: api.port" in err) == (0, True, True)
    file.write_text("[scheduler]\nbatch_max = 8\n", encoding="utf-8")
    status, out, err = sokovan(*words)
    assert (status, out) == (0, "- api.port = 7000\n~ scheduler.batch_max = 7 -> 8\n")
    assert "has all of this already" in sokovan(*words)[2]
    assert json.loads(sokovan(*words, "--json")[1])["changes"] == []


@pytest.mark.slow
def test_a_push_without_a_shared_configuration_is_refused(sokovan: Sokovan, tmp_path: Path) -> None:
    file = tmp_path / "shared.toml"
    file.write_text("[scheduler]\nbatch_max = 7\n", encoding="utf-8")
    status, _, err = sokovan("config", "push", str(file))
    assert (status, "config.url=etcd://HOST:2379" in err) == (2, True)
