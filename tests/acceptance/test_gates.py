"""Scheduling gates on a running server: a session is submitted held, and released."""

from __future__ import annotations

from tests.acceptance.embedded import Embedded, until

LITTLE = ("--cpus", "0.2", "--mem", "64MiB", "--workdir", "none")


def held(server: Embedded, name: str, *options: str) -> None:
    """Submit a held session by the command line, and wait for its reason."""
    done = server.cli("run", "--detach", "-n", name, *LITTLE, *options, "--", "true")
    assert done.returncode == 0, done.stderr
    until(lambda: server.session(name)["reason"] == "HELD", what=f"{name} is held")


def test_a_held_session_waits_until_it_is_released(server: Embedded) -> None:
    held(server, "held", "--hold")
    assert "HELD" in next(line for line in server.cli("ps").stdout.splitlines() if line.startswith("held"))
    assert "user" in next(
        line for line in server.cli("session", "show", "held").stdout.splitlines() if "held by" in line
    )
    assert server.cli("ps", "--reason", "HELD", "-o", "name").stdout.split() == ["held"]
    assert server.cli_json("ps", "--reason", "HELD", "--count-by", "status") == [{"value": "pending", "count": 1}]
    why = server.cli("why", "held").stdout
    assert "held by user" in why
    assert "sokovan session release held" in why
    assert "would start now once it is released" in why
    for _ in range(2):
        released = server.cli("session", "release", "held")
        assert released.returncode == 0, released.stderr
    assert server.settles("held")["result"] == "success"
    assert "released" in [line["code"] for line in server.history("held")]


def test_each_gate_of_a_spec_file_is_released_alone(server: Embedded) -> None:
    spec = "apiVersion: sokovan/v1\nkind: Session\nname: gated\nrun: 'true'\ngates: [data, budget]\n"
    (server.folder / "gated.yaml").write_text(spec, encoding="utf-8")
    held(server, "gated", "-f", "gated.yaml")
    assert "held by budget" in server.cli("session", "release", "gated", "--gate", "data").stderr
    assert server.session("gated")["gates"] == ["budget"]
    assert server.cli("session", "release", "gated", "--gate", "budget").returncode == 0
    assert server.settles("gated")["result"] == "success"


def test_a_bad_gate_is_refused_and_nothing_is_stored(server: Embedded) -> None:
    for gates in (("--hold", "my data"), ("--hold", "a", "--hold", "a"), *[[f"--hold=g{n}" for n in range(9)]]):
        refused = server.cli("run", "-d", "-n", "refused", *LITTLE, *gates, "--", "true")
        assert refused.returncode == 2, refused.stdout
        assert "gate" in refused.stderr
    assert all(one["name"] != "refused" for one in server.sessions())
    assert server.cli("session", "release", "no-such-session").returncode == 3
    assert server.cli("session", "release").returncode == 2


def test_a_session_cancelled_while_held_cannot_be_released(server: Embedded) -> None:
    held(server, "given-up", "--hold", "data")
    assert server.cli("cancel", "given-up").returncode == 0
    refused = server.cli("session", "release", "given-up")
    assert refused.returncode == 5, refused.stdout
    assert "only a pending session can be released" in refused.stderr


def test_the_name_of_an_array_releases_all_of_its_sessions(server: Embedded) -> None:
    done = server.cli("run", "--detach", "-n", "held-sweep", "--array", "0-2", *LITTLE, "--hold", "data", "--", "true")
    assert done.returncode == 0, done.stderr
    released = server.cli("session", "release", "held-sweep")
    assert released.returncode == 0, released.stderr
    assert server.cli("wait", "held-sweep").stderr.strip() == "held-sweep  TERMINATED: 3 succeeded"
