"""The packages are really built and installed, and the command line finds their plugins."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import AgentId, KernelId, ScalingGroupName, SessionId
from sokovan.domain.slot_notation import parse_slots
from sokovan.scheduling.codec import snapshot_to_json
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload, SystemSnapshot
from tests.examples.package import FILES, HOWTO, PACKAGE

Command = subprocess.CompletedProcess[str]
Run = Callable[..., Command]

# `some/file`: on a line of its own, and the fenced block that follows it; "Add to" appends.
_FILE = re.compile(r"^ *(?:Add to )?`(?P<path>[\w./-]+)`:\n\n *```\w+\n(?P<text>.*?)\n *```$", re.MULTILINE | re.DOTALL)
_PIP = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-compile"]


def _files_of_the_how_to() -> dict[str, str]:
    files: dict[str, str] = {}
    for found in _FILE.finditer(HOWTO.read_text(encoding="utf-8")):
        text = textwrap.dedent(found["text"]) + "\n"
        files[found["path"]] = files.get(found["path"], "") + text
    return files


@pytest.fixture(scope="module")
def how_to(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the how-to, written as it says."""
    folder = tmp_path_factory.mktemp("how-to")
    for name, text in _files_of_the_how_to().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def python(how_to: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs Python where the example package and that of the how-to are installed, and nothing of the source tree."""
    target = tmp_path_factory.mktemp("installed")

    def run(*arguments: str, cwd: Path = how_to) -> Command:
        environment = {**os.environ, "PYTHONPATH": str(target), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)

    packages = (str(PACKAGE), str(how_to / "my-plugins"))
    installed = run(*_PIP, "--no-build-isolation", "--target", str(target), *packages)
    assert installed.returncode == 0, installed.stderr
    return run


def test_an_installed_package_serves_the_command_line(python: Run, tmp_path: Path) -> None:
    text = re.findall(r"```yaml\n(.*?)```", (PACKAGE / "README.md").read_text(encoding="utf-8"), re.DOTALL)[0]
    scenario = tmp_path / "cluster.yaml"
    scenario.write_text(text, encoding="utf-8")

    ran = python("-m", "sokovan", "simulate", str(scenario), "--json")

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "selector: image-affinity" in text
    assert json.loads(ran.stdout)[0]["placed"] == {"n1": "a3"}


def test_an_installed_selector_finds_the_image(python: Run, tmp_path: Path) -> None:
    image = "python:3.12"
    agents = tuple(
        AgentInfo(AgentId(name), parse_slots("cpu=4"), cached_images=frozenset(images))
        for name, images in {"a1": (), "a2": (), "a3": (image,)}.items()
    )
    session = SessionWorkload(SessionId("s"), (KernelWorkload(KernelId("k"), parse_slots("cpu=1"), image=image),))
    group = ScalingGroup(ScalingGroupName("default"), scheduler_opts={"agent_selector": "image-affinity"})
    file = tmp_path / "snapshot.json"
    file.write_text(snapshot_to_json(SystemSnapshot(agents, (session,), scaling_group=group)), encoding="utf-8")

    ran = python("-m", "sokovan", "simulate", "--snapshot", str(file), "--json")

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert '"agent_id": "a3"' in ran.stdout


def test_every_scenario_of_the_package_holds_where_it_is_installed(python: Run) -> None:
    ran = python("-m", "sokovan", "simulate", *map(str, FILES), "--json")

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert {scenario["ok"] for scenario in json.loads(ran.stdout)} == {True}


def test_the_files_of_the_how_to_do_what_it_says(python: Run, how_to: Path) -> None:
    ran = python("-m", "sokovan", "simulate", "cluster.yaml")
    shown = "ok      1       0        a notebook goes to an agent that stays"

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert shown in ran.stdout
    assert shown in HOWTO.read_text(encoding="utf-8")
    assert ran.stdout.count("\nok ") == 3
    assert (how_to / "test_spot_last.py").is_file()


def test_the_scenario_of_the_how_to_fails_with_another_selector(python: Run, how_to: Path, tmp_path: Path) -> None:
    text = (how_to / "cluster.yaml").read_text(encoding="utf-8").partition("---")[0]
    other = tmp_path / "other.yaml"
    other.write_text(text.replace("spot-last", "concentrated"), encoding="utf-8")

    ran = python("-m", "sokovan", "simulate", str(other))

    assert ran.returncode == 1
    assert "n1 is on a1, expected a2" in ran.stdout


def test_the_test_of_the_how_to_passes(python: Run) -> None:
    ran = python("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_spot_last.py")

    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_without_the_package_the_name_is_unknown(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("scenario: s\nprofile: {selector: image-affinity}\nagents: {a1: {slots: {cpu: 1}}}\n")
    command = [sys.executable, "-m", "sokovan", "simulate", str(file)]

    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert ran.returncode != 0
    assert "there is no selector 'image-affinity'" in ran.stderr
