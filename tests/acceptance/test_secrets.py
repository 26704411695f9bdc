"""Secret variables: the kernels have them, and nothing that is stored or shown does."""

from __future__ import annotations

import json

from sokovan.adapters.local.secret_box import SecretKeyFile
from tests.acceptance.embedded import Embedded, until

VALUE = "known-to-one-user-alone"
LITTLE = ("--cpus", "0.2", "--mem", "64MiB")
PROVES = 'test "$TOKEN" = known-to-one-user-"alone" && test "$PLAIN" = open'


def files_with(server: Embedded, text: str) -> list[str]:
    """The files of the server, its agent and its kernels that contain a text."""
    files = [path for path in server.data.rglob("*") if path.is_file() and not path.is_symlink()]
    return [str(path.relative_to(server.data)) for path in files if text.encode() in path.read_bytes()]


def test_a_secret_reaches_the_kernels_and_is_neither_stored_nor_shown(server: Embedded) -> None:
    session = server.api(
        "POST",
        "/sessions",
        headers={"Idempotency-Key": "with-a-secret"},
        json={
            "name": "guarded",
            "type": "interactive",
            "command": ["sh", "-c", f"{PROVES} && echo known && exec sleep 600"],
            "environment": {"PLAIN": "open"},
            "secrets": {"TOKEN": VALUE},
            "resources": {"cpu": 0.2, "mem": "64MiB"},
        },
    )
    assert session.status_code == 201, session.text
    until(lambda: "known" in server.cli("logs", "guarded").stdout, what="the kernel has its secret")
    shown = [server.cli("session", "show", "guarded").stdout]
    assert "TOKEN" in shown[0]
    shown += [session.text]
    for path in ("", "/why", "/history", "/kernels"):
        shown.append(server.api("GET", f"/sessions/guarded{path}").text)
    shown += [server.api("GET", path).text for path in ("/sessions", "/audit")]
    assert not [text for text in shown if VALUE in text]
    assert server.session("guarded")["secrets"] == ["TOKEN"]
    assert files_with(server, VALUE) == []
    assert server.cli("exec", "guarded", "--", "sh", "-c", PROVES).returncode == 0
    assert server.cli("stop", "guarded").returncode == 0


def test_a_secret_is_taken_from_the_callers_environment_or_a_spec_file(server: Embedded) -> None:
    done = server.cli("run", *LITTLE, "--secret-env", f"TOKEN={VALUE}", "-e", "PLAIN=open", "--", "sh", "-c", PROVES)
    assert done.returncode == 0, done.stderr
    words = ("run", *LITTLE, "--secret-env", "TOKEN", "-e", "PLAIN=open", "--", "sh", "-c", PROVES)
    assert server.cli(*words, TOKEN=VALUE).returncode == 0
    done = server.cli(*words)
    assert done.returncode == 2
    assert "'TOKEN' is not set" in done.stderr
    spec = server.folder / "secret.yaml"
    spec.write_text(
        "apiVersion: sokovan/v1\nkind: Session\ncommand: [sh, -c, '" + PROVES + "']\n"
        f"environment: {{PLAIN: open}}\nsecrets: {{TOKEN: {VALUE}}}\nresources: {{cpu: 0.2, mem: 64MiB}}\n"
    )
    assert server.cli("run", "-f", str(spec)).returncode == 0
    planned = server.cli("plan", "-f", str(spec), "--json")
    assert VALUE not in planned.stdout + planned.stderr
    json.loads(planned.stdout)


def test_a_new_key_takes_effect_and_earlier_secrets_are_still_read(server: Embedded) -> None:
    held = server.api(
        "POST",
        "/sessions",
        json={
            "name": "keyed", "command": ["sh", "-c", 'test "$TOKEN" = old'], "secrets": {"TOKEN": "old"},
            "gates": ["later"], "resources": {"cpu": 0.2, "mem": "64MiB"},
        },
    )  # fmt: skip
    assert held.status_code == 201, held.text
    assert server.cli("db", "rotate-key").returncode == 0
    assert len(SecretKeyFile(server.data / "secret-keys").keys()) >= 2
    assert (
        server.cli("run", *LITTLE, "--secret-env", "TOKEN=new", "--", "sh", "-c", 'test "$TOKEN" = new').returncode == 0
    )
    assert server.cli("session", "release", "keyed").returncode == 0
    assert server.cli("wait", "keyed").returncode == 0


def test_wrong_secrets_are_refused_without_their_value(server: Embedded) -> None:
    for secrets, environment in (
        ({"SOKOVAN_X": VALUE}, {}),
        ({"RANK": VALUE}, {}),
        ({"TOKEN": f"{VALUE}\0"}, {}),
        ({"TOKEN": VALUE}, {"TOKEN": "open"}),
        ({"TOKEN": VALUE * 4000}, {}),
        ({"TOKEN": [VALUE]}, {}),
    ):
        body = {"command": ["true"], "secrets": secrets, "environment": environment}
        refused = server.api("POST", "/sessions", json=body)
        assert refused.status_code == 422, refused.text
        assert "secrets" in refused.text
        assert VALUE not in refused.text


def test_a_session_runs_again_from_its_own_spec_with_its_secrets_given_again(server: Embedded) -> None:
    words = ("--size", "2", "-e", "PLAIN=open", "-l", "team=a", "--time-limit", "20m", "--attempts", "2")
    secret = ("--secret-env", f"TOKEN={VALUE}")
    done = server.cli("run", "-n", "original", *LITTLE, *words, *secret, "--", "sh", "-c", PROVES)
    assert done.returncode == 0, done.stderr
    exported = server.cli("session", "spec", "original")
    assert exported.returncode == 0, exported.stderr
    assert VALUE not in exported.stdout + exported.stderr
    assert "--secret-env TOKEN" in exported.stderr
    done = server.cli("run", "-f", "-", "-n", "repeated", *secret, stdin=exported.stdout)
    assert done.returncode == 0, done.stderr
    again = server.cli("session", "spec", "repeated", "--json")
    first = server.cli("session", "spec", "original", "--json")
    assert json.loads(again.stdout) == {**json.loads(first.stdout), "name": "repeated"}
    assert server.session("repeated")["kernels"][1]["slots"] == server.session("original")["kernels"][1]["slots"]
