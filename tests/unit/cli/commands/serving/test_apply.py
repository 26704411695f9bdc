"""`sokovan apply`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sokovan.wire.api.deployments import AppliedDeploymentView, EngineView, ProbeBody
from tests.unit.cli.canned_server import CannedServer, Sokovan
from tests.unit.sdk.deployment_views import DEPLOYMENT

SPEC = "apiVersion: sokovan/v1\nkind: Deployment\nname: qwen\nengine: toy\nreplicas: 2\n"
PLANNED = EngineView(
    engine="toy", command=[], environment={}, probe=ProbeBody(), model="", image="", concurrency_max=1,
    routing="least-load", checks_secret=True,
)  # fmt: skip


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "qwen.yaml"
    path.write_text(SPEC)
    return path


def test_a_file_is_checked_and_then_applied(server: CannedServer, sokovan: Sokovan, spec: Path) -> None:
    server.says("POST deployments/plan", PLANNED)
    server.says("POST deployments/apply", AppliedDeploymentView(outcome="created", deployment=DEPLOYMENT))
    assert sokovan("apply", "-f", str(spec)) == (0, "", "qwen created\n")
    assert [line.split("?")[0] for line, _ in server.asked] == ["POST deployments/plan", "POST deployments/apply"]
    assert server.body("POST deployments/apply") == {"name": "qwen", "revision": {"engine": "toy"}, "replicas_min": 2}
    assert json.loads(sokovan("apply", "-f", str(spec), "--json")[1])["outcome"] == "created"


def test_a_dry_run_changes_nothing(server: CannedServer, sokovan: Sokovan, spec: Path) -> None:
    server.says("POST deployments/plan", PLANNED)
    assert sokovan("apply", "-f", str(spec), "--dry-run")[0] == 0
    assert [line for line, _ in server.asked] == ["POST deployments/plan"]


def test_what_the_server_refuses_is_shown_with_its_position(server: CannedServer, sokovan: Sokovan, spec: Path) -> None:
    wrong = {"where": "replicas_min", "problem": "must be at most 1"}
    server.refuses("POST deployments/plan", 422, "invalid-spec", problems=[wrong])
    status, _, err = sokovan("apply", "-f", str(spec))
    assert status == 2
    assert f"{spec}:5:11: replicas_min: must be at most 1" in err
