"""Tab in a shell, and lines for every request, against a real server."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cli_rig import Rig, server_up


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A server with an agent on this machine, and one session that waits for ever."""
    with server_up(tmp_path_factory.mktemp("home")) as up:
        up.environment["XDG_CACHE_HOME"] = str(up.home / "cache")
        # Nothing here is about how busy this machine is: what came too late once is asked for again.
        assert up.sokovan("run", "-d", "--name", "waits-long", "--gpus", "800", "--", "true").returncode == 0
        yield up


def tab(rig: Rig, *words: str) -> list[str]:
    """The completions offered; retries when the server was too slow, as a user would."""
    for _ in range(20):
        done = rig.sokovan("__complete", *words)
        assert done.stderr == ""
        if done.stdout:
            return [line.partition("\t")[0] for line in done.stdout.splitlines()]
    return []


def test_names_of_what_there_is_are_offered(rig: Rig) -> None:
    assert tab(rig, "cancel", "wai") == ["waits-long"]
    assert tab(rig, "why", "") == ["waits-long"]
    assert tab(rig, "run", "--queue", "") == ["default"]
    [machine] = rig.sokovan("agent", "ls", "-o", "name").stdout.split()
    assert tab(rig, "agent", "drain", "") == [machine]
    assert tab(rig, "user", "show", "") == ["admin"]


def test_bash_offers_them(rig: Rig) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    assert tab(rig, "logs", "wai") == ["waits-long"]
    script = rig.sokovan("completion", "bash").stdout
    press = 'COMP_WORDS=(sokovan logs wai); COMP_CWORD=2; _sokovan sokovan; echo "${COMPREPLY[@]}"'
    environment = {**rig.environment, "PATH": f"{Path(sys.executable).parent}:{rig.environment['PATH']}"}
    words = [bash, "-c", f"{script}\n{press}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, cwd=rig.home)
    assert (done.stdout, done.stderr) == ("waits-long\n", "")


def test_bash_offers_what_comes_after_a_colon(rig: Rig) -> None:
    assert rig.sokovan("image", "set", "python:3.11").returncode == 0
    assert tab(rig, "image", "show", "py") == ["python:3.11"]
    script = rig.sokovan("completion", "bash").stdout
    press = 'COMP_WORDS=(sokovan image show python : 3); COMP_CWORD=5; _sokovan sokovan; echo "${COMPREPLY[@]}"'
    environment = {**rig.environment, "PATH": f"{Path(sys.executable).parent}:{rig.environment['PATH']}"}
    words = ["bash", "-c", f"{script}\n{press}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, cwd=rig.home)
    assert (done.stdout, done.stderr) == ("3.11\n", "")


def test_cached_names_are_offered_without_a_server(rig: Rig) -> None:
    assert tab(rig, "queue", "show", "") == ["default"]
    [kept] = (rig.home / "cache" / "sokovan").glob("names-*-queue.json")
    assert kept.read_text(encoding="utf-8") == '[["default", ""]]'
    done = rig.sokovan("__complete", "queue", "show", "--url", "http://127.0.0.1:1", "")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")  # another server has a memory of its own


def test_every_request_has_a_line_for_who_wants_to_see_it(rig: Rig) -> None:
    rig.environment["SOKOVAN_DEBUG"] = "api"
    try:
        done = rig.sokovan("session", "show", "nobody")
    finally:
        del rig.environment["SOKOVAN_DEBUG"]
    assert done.returncode == 3
    asked, *complaint = done.stderr.splitlines()
    method, path, status, spent, unit, request_id = asked.split()
    assert (method, path, status, unit) == ("GET", "/api/v1/sessions/nobody", "404", "ms")
    assert spent.isdecimal()
    assert request_id.startswith("req-")
    assert complaint[0].startswith("error: ")
