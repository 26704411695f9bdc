"""Options of replicas: engines by model, local models, definitions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sokovan.sdk.machine import machine_mark
from tests.unit.cli.canned_server import CALLER, CannedServer, Sokovan
from tests.unit.cli.commands.serving.test_serve import READY, answering
from tests.unit.sdk.deployment_views import DEPLOYMENT, REVISION

DEFINITION = """
models:
  - name: simple
    model_path: /models
    service: {start_command: [serve, "8000"], port: 8000, health_check: {path: /up, interval: 2}}
"""


def revision(server: CannedServer) -> dict[str, object]:
    found: dict[str, object] = server.body("POST deployments")["revision"]
    return found


def test_a_file_of_this_machine_is_mounted_at_its_own_path(
    server: CannedServer, sokovan: Sokovan, tmp_path: Path
) -> None:
    answering(server, READY)
    server.says("GET whoami", {**CALLER, "machine": machine_mark(), "folders": ["/"]})
    model = tmp_path / "tiny.gguf"
    model.touch()
    assert sokovan("serve", str(model), "--detach")[0] == 0
    assert revision(server) == {
        "engine": "llama-cpp",
        "model": str(model),
        "mounts": [{"source": str(tmp_path), "target": str(tmp_path)}],
    }


def test_a_model_that_is_not_there_is_refused_before_anything_is_sent(
    server: CannedServer, sokovan: Sokovan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(server, READY)
    server.says("GET whoami", {**CALLER, "machine": machine_mark(), "folders": ["/"]})
    monkeypatch.chdir(tmp_path)
    status, _, said = sokovan("serve", "./tniy.gguf", "--detach")
    assert (status, f"{tmp_path}/tniy.gguf does not exist" in said) == (2, True)
    assert "POST deployments" not in server.lines


def test_a_model_in_a_mount_is_taken_as_it_is(server: CannedServer, sokovan: Sokovan) -> None:
    answering(server, READY)
    server.says("GET whoami", {**CALLER, "machine": machine_mark(), "folders": ["/"]})
    assert sokovan("serve", "/m/tiny.gguf", "--mount", "/data/models:/m", "--detach")[0] == 0
    assert revision(server)["mounts"] == [{"source": "/data/models", "target": "/m"}]


def test_a_server_elsewhere_gets_the_path_alone(server: CannedServer, sokovan: Sokovan) -> None:
    answering(server, READY)
    assert sokovan("serve", "/m/tiny.gguf", "--detach")[0] == 0
    assert revision(server) == {"engine": "llama-cpp", "model": "/m/tiny.gguf"}


@pytest.mark.slow
def test_a_model_definition_gives_command_and_check(server: CannedServer, sokovan: Sokovan, tmp_path: Path) -> None:
    answering(server, READY)
    file = tmp_path / "model-definition.yaml"
    file.write_text(DEFINITION)
    assert sokovan("serve", "simple", "--definition", str(file), "--cpus", "2", "--detach")[0] == 0
    assert revision(server) == {
        "engine": "custom",
        "model": "simple",
        "command": ["serve", "{port}"],
        "resources": {"cpu": "2"},
        "probe": {"path": "/up", "interval_ms": 2000, "timeout_ms": 15000},
    }


@pytest.mark.slow
def test_a_wrong_option_is_reported_before_anything_is_sent(server: CannedServer, sokovan: Sokovan) -> None:
    assert sokovan("serve", "toy", "--env", "NOVALUE")[0] == 2
    assert sokovan("serve", "toy", "--mount", "nowhere")[0] == 2
    assert "POST deployments" not in server.lines


def test_a_secret_is_sent_by_its_name_and_not_shown(
    server: CannedServer, sokovan: Sokovan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "canary-value")
    answering(server, READY)
    status, out, err = sokovan("serve", "toy", "--secret-env", "HF_TOKEN", "--secret-env", "KEY=x", "--detach")
    assert (status, "canary-value" in out + err) == (0, False)
    assert revision(server)["secrets"] == {"HF_TOKEN": "canary-value", "KEY": "x"}
    assert sokovan("serve", "toy", "--secret-env", "NOT_SET_HERE", "--detach")[0] == 2


@pytest.mark.slow
def test_an_update_keeps_the_secrets_that_it_does_not_name(server: CannedServer, sokovan: Sokovan) -> None:
    kept = replace(REVISION, secrets={"HF_TOKEN": None})
    before = replace(DEPLOYMENT, revision=replace(DEPLOYMENT.revision, revision=kept))
    server.says("GET deployments/qwen", before)
    server.says("POST deployments/d-1/update", before)
    assert sokovan("deployment", "update", "qwen", "--secret-env", "KEY=x", "--detach")[0] == 0
    assert server.body("POST deployments/d-1/update")["revision"]["secrets"] == {"HF_TOKEN": None, "KEY": "x"}
    assert "secrets" in sokovan("deployment", "show", "qwen")[1]


def test_the_smoke_request_is_turned_off_by_an_option(server: CannedServer, sokovan: Sokovan) -> None:
    answering(server, READY)
    assert sokovan("serve", "a/b", "--no-smoke", "--detach")[0] == 0
    assert revision(server)["probe"] == {"smoke": False}
