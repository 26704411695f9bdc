"""`run --upload`: a folder comes along to any server, safely and only once."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.embedded import SMALL, Embedded, sokovan_in

LITTLE = ("--cpus", "0.2", "--mem", "64MiB")
GIT = "/usr/bin/git"


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def put_blob(server: Embedded, content: bytes, **changes: Any) -> Any:
    query = {"size": len(content), "offset": 0, **{name: changes[name] for name in changes if name != "digest"}}
    return server.api(
        "PUT",
        f"/uploads/blobs/{changes.get('digest', digest_of(content))}",
        params=query,
        content=content,
        headers={"Content-Type": "application/octet-stream"},
    )


def put_manifest(server: Embedded, *files: dict[str, Any]) -> Any:
    text = json.dumps({"files": files}).encode()
    assert put_blob(server, text).status_code == 200
    return server.api("PUT", f"/uploads/{digest_of(text)}")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with files that git ignores and files that .sokovanignore excludes."""
    folder = tmp_path / "project"
    (folder / "lib").mkdir(parents=True)
    (folder / "train.py").write_text("import lib.model, os; print(lib.model.NAME, sorted(os.listdir('.')))")
    # Tests share a server, which keeps what it has: each test has content of its own.
    (folder / "lib" / "model.py").write_text(f"NAME = 'resnet'  # {tmp_path.name}")
    (folder / "train.py").write_text((folder / "train.py").read_text() + f"  # {tmp_path.name}")
    (folder / "run.sh").write_text("#!/bin/sh\necho started\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "secret.env").write_text("KEY=1")
    (folder / "notes.txt").write_text("draft")
    (folder / ".gitignore").write_text("*.env\n")
    (folder / ".sokovanignore").write_text("/notes.txt\n.git*\n.sokovanignore\n")
    subprocess.run([GIT, "init", "-q"], cwd=folder, check=True)
    return folder


def test_a_folder_comes_along_without_what_is_ignored_and_is_sent_once(server: Embedded, project: Path) -> None:
    words = ("run", *LITTLE, "--upload", "--", "python3", "train.py")
    first = sokovan_in(project, server, *words)
    assert first.returncode == 0, first.stderr
    assert first.stdout == "resnet ['lib', 'run.sh', 'train.py']\n"
    assert "3 files" in first.stderr
    assert "the server had all of it" not in first.stderr
    again = sokovan_in(project.parent, server, "run", *LITTLE, "-n", "sent", "--upload", "project", "--", "./run.sh")
    assert (again.returncode, again.stdout) == (0, "started\n"), again.stderr
    assert "the server had all of it" in again.stderr
    shown = server.cli("session", "show", "sent").stdout
    assert server.session("sent")["upload"] in shown


def test_the_kernels_of_a_gang_share_one_copy_and_the_next_session_gets_its_own(
    server: Embedded, project: Path
) -> None:
    script = "echo $SOKOVAN_RANK >> ranks; while [ $(wc -l < ranks) -lt 3 ]; do sleep 0.02; done; sort ranks"
    gang = sokovan_in(project, server, "run", *LITTLE, "--size", "3", "--upload", "--", "sh", "-c", script)
    assert gang.returncode == 0, gang.stderr
    assert sorted(gang.stdout.splitlines()) == [f"[{rank}] {line}" for rank in range(3) for line in range(3)]
    assert not (project / "ranks").exists()
    alone = sokovan_in(project, server, "run", *LITTLE, "--upload", "--", "ls")
    assert "ranks" not in alone.stdout


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "lib"])
def test_links_out_of_the_folder_are_refused_and_nothing_is_sent(server: Embedded, project: Path, target: str) -> None:
    (project.parent / "outside").write_text("private")
    (project / "link").symlink_to(target)
    before = len(server.sessions())
    done = sokovan_in(project, server, "run", *LITTLE, "--upload", "--", "true")
    assert done.returncode in {2, 125}
    assert "link is a link" in done.stderr
    assert ".sokovanignore" in done.stderr
    assert len(server.sessions()) == before


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", "a//x", ".", "", "a/\x00", "a\nb", "x" * 2000])
def test_a_manifest_with_a_path_out_of_the_folder_is_refused(server: Embedded, path: str) -> None:
    answer = put_manifest(server, {"path": path, "digest": digest_of(b""), "size": 0})
    assert answer.status_code == 422, answer.text


def test_a_manifest_whose_files_exclude_each_other_is_refused(server: Embedded) -> None:
    one = {"digest": digest_of(b""), "size": 0}
    assert put_manifest(server, {"path": "a", **one}, {"path": "a", **one}).status_code == 422
    assert put_manifest(server, {"path": "a", **one}, {"path": "a/b", **one}).status_code == 422
    huge = put_manifest(server, {"path": "a", "digest": digest_of(b"?"), "size": 1 << 45})
    assert huge.status_code == 409
    assert huge.json()["code"] == "upload-refused"


def test_content_that_does_not_have_its_digest_is_not_kept(server: Embedded) -> None:
    wrong = put_blob(server, b"wrong", digest=digest_of(b"right"))
    assert wrong.status_code == 422
    assert put_blob(server, b"right").json()["received"] == 5
    assert put_blob(server, b"xx", digest="../../etc").status_code in {404, 422}
    assert put_blob(server, b"part", size=2).status_code == 409


def test_an_upload_belongs_to_its_owner(server: Embedded, project: Path) -> None:
    done = sokovan_in(project, server, "run", *LITTLE, "-n", "mine", "--upload", "--", "true")
    assert done.returncode == 0, done.stderr
    upload = server.session("mine")["upload"]
    assert server.cli("user", "set", "other", "--group", "default").returncode == 0
    key = server.cli_json("key", "add", "other")["token"]
    body = {"command": ["true"], "resources": SMALL, "upload": upload}
    theirs = {"Authorization": f"Bearer {key}"}
    assert server.api("POST", "/sessions", json=body, headers=theirs).status_code == 404
    assert server.api("PUT", f"/uploads/{upload}", headers=theirs).status_code == 404
    unknown = server.api("POST", "/sessions", json={**body, "upload": "0" * 64})
    assert unknown.status_code == 404
    both = server.api("POST", "/sessions", json={**body, "workdir": "/srv"})
    assert both.status_code == 422
