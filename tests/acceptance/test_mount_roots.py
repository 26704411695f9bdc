"""Folders of the machine are open to sessions only beneath the roots of a scaling group."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.embedded import SMALL, Embedded, sokovan_in
from tests.kernels import needs_sandbox

pytestmark = needs_sandbox


def refused(server: Embedded, **body: Any) -> dict[str, Any]:
    """The problem of a session that is refused, of which nothing is stored."""
    before = len(server.sessions())
    answer = server.api("POST", "/sessions", json={"command": ["true"], "resources": SMALL, **body})
    assert answer.status_code == 422, answer.text
    assert len(server.sessions()) == before
    problem: dict[str, Any] = answer.json()
    return problem


def mount(source: str) -> dict[str, Any]:
    return {"mounts": [{"source": source, "target": "/data"}]}


@pytest.mark.parametrize("source", ["/var/run", "/etc", "/root/.ssh", "/root/.config/sokovan", "/", "/run"])
def test_the_system_and_keys_are_refused_even_to_the_only_user(own_server: Embedded, source: str) -> None:
    for body in (mount(source), {"workdir": source}):
        problem = refused(own_server, **body)
        assert problem["code"] == "folder-refused"
        assert "scaling-group set" in problem["hint"]


def test_the_keys_and_the_data_of_the_server_are_mounted_by_no_path(own_server: Embedded, tmp_path: Path) -> None:
    (tmp_path / "around").symlink_to(own_server.data)
    (tmp_path / "system").symlink_to("/etc")
    config = own_server.folder / "config"
    for source in (own_server.data, own_server.data.parent, config, tmp_path / "around", tmp_path / "system"):
        options = ("--workdir", "none", "--attempts", "1", "--mount", f"{source}:/data")
        done = own_server.cli("run", *options, "--", "ls", "/data")
        assert done.returncode != 0
        assert done.stdout == ""
        assert any(word in done.stderr for word in ("hidden", "system folder")), done.stderr
    # A client that resolves no links is refused by the agent.
    body = {"command": ["ls", "/data"], "resources": SMALL, "retry": {"attempts": 1}, **mount(str(tmp_path / "system"))}
    held = own_server.api("POST", "/sessions", json=body).json()["id"]
    own_server.cli("wait", held)
    assert "symbolic link" in own_server.cli("session", "show", held).stdout


def test_with_a_second_user_folders_need_a_root(own_server: Embedded, open_path: Path) -> None:
    (open_path / "data.txt").write_text("forty-two")
    run = ("run", "--", "cat", "data.txt")
    assert sokovan_in(open_path, own_server, *run).stdout == "forty-two"
    assert json.loads(own_server.cli("whoami", "--json").stdout)["folders"] == ["/"]

    assert own_server.cli("user", "set", "bob").returncode == 0
    problem = refused(own_server, **mount(str(open_path)))
    assert problem["code"] == "folder-refused"
    assert "allows: none" in problem["detail"]
    elsewhere = sokovan_in(open_path, own_server, *run)
    assert elsewhere.returncode == 1
    assert "--upload" in elsewhere.stderr

    allowed = own_server.cli("scaling-group", "set", "default", "--mount-root", str(open_path))
    assert allowed.returncode == 0, allowed.stderr
    assert str(open_path) in own_server.cli("scaling-group", "ls").stdout
    assert sokovan_in(open_path, own_server, *run).stdout == "forty-two"
    assert refused(own_server, **mount(str(open_path.parent)))["code"] == "folder-refused"
    bad = own_server.cli("scaling-group", "set", "default", "--mount-root", "/etc")
    assert bad.returncode == 2
    assert "system folder" in bad.stderr
