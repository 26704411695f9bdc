"""`run` and `shell` work in the caller's folder on a server of the same user and machine."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from sokovan.sdk.sync.client import Client
from tests.acceptance.embedded import LIMIT_S, SMALL, SOKOVAN, Embedded, sokovan_in
from tests.kernels import needs_sandbox

LITTLE = ("--cpus", "0.2", "--mem", "64MiB")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a program that reads a file beside it and writes another."""
    folder = tmp_path / "my project"
    folder.mkdir()
    (folder / "data.txt").write_text("forty-two")
    (folder / "train.py").write_text("print(open('data.txt').read()); open('result.txt', 'w').write('done')")
    return folder


def test_a_program_in_the_current_folder_is_found_and_writes_its_files_there(server: Embedded, project: Path) -> None:
    done = sokovan_in(project, server, "run", "-n", "here", *LITTLE, "--", "python3", "train.py")
    assert (done.returncode, done.stdout) == (0, "forty-two\n"), done.stderr
    assert (project / "result.txt").read_text() == "done"
    assert server.session("here")["workdir"] == str(project)
    shown = server.cli("session", "show", "here").stdout.splitlines()
    assert [line.split(maxsplit=1)[1] for line in shown if line.startswith("workdir ")] == [str(project)]


def test_a_program_of_the_sdk_works_in_its_current_folder(
    server: Embedded, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    token = (server.data / "token").read_text(encoding="ascii").strip()
    with Client(server.about["url"], token) as client:
        here = client.run(["python3", "train.py"], cpus=0.2, mem="64MiB")
        off = client.run(["pwd"], cpus=0.2, mem="64MiB", workdir="none")
        assert here.wait().result == "success"
        assert off.wait().workdir == ""
    assert (project / "result.txt").read_text() == "done"


def test_a_shell_begins_in_the_current_folder(server: Embedded, project: Path) -> None:
    done = subprocess.run(
        [SOKOVAN, "shell", *LITTLE],
        env=server.environment,
        cwd=project,
        input="cat data.txt\n",
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "forty-two" in done.stdout


def test_a_working_directory_is_chosen_or_switched_off(server: Embedded, project: Path, tmp_path: Path) -> None:
    words = ("--", "cat", "data.txt")
    assert sokovan_in(tmp_path, server, "run", *LITTLE, "--workdir", "my project", *words).stdout == "forty-two"
    spec = tmp_path / "one.yaml"
    spec.write_text(json.dumps({"apiVersion": "sokovan/v1", "kind": "Session", "workdir": str(project)}))
    assert sokovan_in(tmp_path, server, "run", *LITTLE, "-f", "one.yaml", *words).stdout == "forty-two"
    off = sokovan_in(project, server, "run", "-n", "off", *LITTLE, "--workdir", "none", *words)
    assert off.returncode == 1
    assert server.session("off")["workdir"] == ""


def test_in_a_system_folder_the_session_has_its_own_folder(server: Embedded) -> None:
    done = sokovan_in(Path("/usr"), server, "run", *LITTLE, "--", "pwd")
    assert done.returncode == 0, done.stderr
    assert str(server.data) in done.stdout
    assert "--workdir" in done.stderr


@pytest.mark.parametrize(
    ("path", "problem"),
    [("/etc", "system folder"), ("/", "system folder"), ("/a/../b", "absolute path"), ("relative", "absolute path")],
)
def test_a_working_directory_that_is_not_allowed_is_refused(server: Embedded, path: str, problem: str) -> None:
    before = len(server.sessions())
    answer = server.api("POST", "/sessions", json={"command": ["true"], "resources": SMALL, "workdir": path})
    assert answer.status_code == 422
    assert "workdir" in answer.text
    assert problem in answer.text
    assert len(server.sessions()) == before


def test_a_missing_or_hidden_folder_fails_with_its_reason(server: Embedded, tmp_path: Path) -> None:
    missing = sokovan_in(tmp_path, server, "run", *LITTLE, "--attempts", "1", "--workdir", "not/there", "--", "true")
    assert missing.returncode == 125
    assert "does not exist" in missing.stderr


@needs_sandbox
def test_the_keys_of_the_server_stay_hidden_in_a_home_that_is_the_working_directory(server: Embedded) -> None:
    look = f"ls {server.data} {server.folder}/config/sokovan; touch made-here"
    done = sokovan_in(server.folder, server, "run", *LITTLE, "--", "sh", "-c", look)
    assert done.returncode == 0, done.stderr
    assert (server.folder / "made-here").exists()
    assert "token" not in done.stdout
    assert "config.toml" not in done.stdout
    inside = sokovan_in(server.data, server, "run", *LITTLE, "--attempts", "1", "--", "true")
    assert inside.returncode == 125
    assert "hidden" in inside.stderr


def test_a_key_that_is_used_from_elsewhere_selects_no_folder(server: Embedded, project: Path) -> None:
    """The address of the server alone proves nothing; see also the unit tests of the mark."""
    shown = json.loads(sokovan_in(project, server, "whoami", "--json").stdout)
    assert len(shown["machine"]) == 32
