"""`sokovan run`: a command in a session of its own."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sokovan.wire.api.sessions import ArrayMemberView
from tests.unit.cli.canned_server import CannedServer, Sokovan
from tests.unit.sdk.views import ARRAY, session

SPEC = "apiVersion: sokovan/v1\nkind: Session\nname: {name}\nrun: python train.py\n"

PLAN = {
    "would_start": "now", "verdict": "ALLOC", "code": "PLACED", "summary": "s", "session": "", "size": 1, "queue": "q",
    "scaling_group": "default", "image": "host", "slots": {},
}  # fmt: skip


@pytest.mark.slow
def test_a_detached_run_prints_its_name(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("POST sessions", session(name="brave-heron-7"), status=201)
    assert sokovan("run", "-d", "--gpus", "8", "--", "python", "-c", "x --y") == (0, "brave-heron-7\n", "")
    assert server.body("POST sessions") == {"command": ["python", "-c", "x --y"], "resources": {"cuda.device": "8"}}


@pytest.mark.slow
def test_a_detached_run_for_programs_is_the_session_itself(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("POST sessions", session(name="a"), status=201)
    status, out, _ = sokovan("run", "-d", "--json", "--", "x")
    assert (status, json.loads(out)["name"]) == (0, "a")
    status, _, err = sokovan("run", "--json", "--", "x")
    assert (status, json.loads(err)["code"]) == (2, "invalid-setting")


@pytest.mark.slow
def test_several_sessions_of_a_file_are_started_detached_only(
    server: CannedServer, sokovan: Sokovan, tmp_path: Path
) -> None:
    (tmp_path / "f.yaml").write_text(f"{SPEC.format(name='a')}---\n{SPEC.format(name='b')}", encoding="utf-8")
    server.says("POST sessions/plan", PLAN)
    server.says("POST sessions", session(name="a"), session(name="b"))
    status, _, err = sokovan("run", "-f", "f.yaml")
    assert (status, server.asked) == (2, [])
    assert "submit them with -d" in err
    assert sokovan("run", "-d", "-f", "f.yaml") == (0, "a\nb\n", "")


@pytest.mark.slow
def test_nothing_of_a_file_is_submitted_if_one_session_of_it_cannot_be(
    server: CannedServer, sokovan: Sokovan, tmp_path: Path
) -> None:
    (tmp_path / "f.yaml").write_text(f"{SPEC.format(name='a')}---\n{SPEC.format(name='b')}size: 0\n", encoding="utf-8")
    server.refuses("POST sessions/plan", 422, "invalid-request", problems=[{"where": "size", "problem": "0 kernels"}])
    status, out, err = sokovan("run", "-d", "-f", "f.yaml")
    assert (status, out, set(server.lines)) == (2, "", {"POST sessions/plan"})
    assert err.startswith("error: f.yaml:")


@pytest.mark.slow
def test_a_session_may_depend_on_an_earlier_one_of_its_file(
    server: CannedServer, sokovan: Sokovan, tmp_path: Path
) -> None:
    two = f"{SPEC.format(name='a')}---\n{SPEC.format(name='b')}dependsOn: [a, old]\n"
    (tmp_path / "f.yaml").write_text(two, encoding="utf-8")
    server.says("POST sessions/plan", PLAN)
    server.says("POST sessions", session(name="a"), session(name="b"))
    assert sokovan("run", "-d", "-f", "f.yaml")[0] == 0
    asked = [body.get("depends_on") for _, body in server.asked]
    assert asked == [None, ["old"], None, ["a", "old"]]


@pytest.mark.slow
def test_a_late_failure_names_the_sessions_already_submitted(
    server: CannedServer, sokovan: Sokovan, tmp_path: Path
) -> None:
    (tmp_path / "f.yaml").write_text(f"{SPEC.format(name='a')}---\n{SPEC.format(name='b')}", encoding="utf-8")
    server.refuses("POST sessions/plan", 500, "internal")  # a check that cannot be had is left out
    server.refuses("POST sessions", 409, "conflict")
    refusal = server.answers["POST sessions"]
    server.says("POST sessions", session(name="a"))
    server.answers["POST sessions"] += refusal
    status, out, err = sokovan("run", "-d", "-f", "f.yaml")
    assert (status, out) == (5, "a\n")
    assert "a had been submitted; this session and those after it were not" in err


@pytest.mark.slow
def test_two_sessions_of_a_file_have_two_names(server: CannedServer, sokovan: Sokovan, tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(f"{SPEC.format(name='a')}---\n{SPEC.format(name='a')}", encoding="utf-8")
    server.says("POST sessions/plan", PLAN)
    status, _, err = sokovan("run", "-d", "-f", "f.yaml")
    assert (status, "POST sessions" in server.lines) == (2, False)
    assert "two sessions have the name a" in err


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("-d",)])
def test_a_name_that_is_taken_is_a_conflict(server: CannedServer, sokovan: Sokovan, words: tuple[str, ...]) -> None:
    server.refuses("POST sessions", 409, "name-taken")
    assert sokovan("run", *words, "-n", "a", "--", "x")[0] == 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "no command given"),
        (("--timeout", "soon", "--", "x"), "--timeout: 'soon' is not a duration"),
        (("-f", "no-such.yaml"), "cannot read no-such.yaml"),
        (("--mount", "/a", "--", "x"), "'/a' is not a mount"),
        (("--env", "A", "--", "x"), "--env 'A' is not NAME=VALUE"),
        (("--size", "x", "--", "x"), 'unable to convert "x"'),
        (("python", "-c", "x"), "Unknown option: -c"),
    ],
)
def test_invalid_options_are_a_usage_error_and_nothing_is_sent(
    server: CannedServer, sokovan: Sokovan, words: tuple[str, ...], message: str
) -> None:
    status, out, err = sokovan("run", *words)
    assert (status, out, server.asked) == (2, "", [])
    assert message in err
    assert "hint:" in err


@pytest.mark.slow
@pytest.mark.parametrize(("status", "code"), [(500, "internal"), (401, "unauthenticated"), (409, "conflict")])
def test_a_client_failure_exits_with_125(server: CannedServer, sokovan: Sokovan, status: int, code: str) -> None:
    server.refuses("POST sessions", status, code)
    found, _, err = sokovan("run", "--", "x")
    assert found == 125
    assert f"[{code}]" in err


@pytest.mark.slow
def test_a_request_that_the_server_rejects_is_a_usage_error(server: CannedServer, sokovan: Sokovan) -> None:
    server.refuses("POST sessions", 422, "invalid-request")
    found, out, err = sokovan("run", "--size", "0", "--", "x")
    assert (found, out) == (2, "")
    assert "[invalid-request]" in err


@pytest.mark.parametrize(("status", "code", "exit_code"), [(422, "invalid-request", 2), (401, "unauthenticated", 4)])
def test_a_detached_run_fails_like_every_other_command(
    server: CannedServer, sokovan: Sokovan, status: int, code: str, *, exit_code: int
) -> None:
    server.refuses("POST sessions", status, code)
    assert sokovan("run", "-d", "--", "x")[0] == exit_code


@pytest.mark.slow
def test_an_array_is_waited_for_or_named_with_detach(server: CannedServer, sokovan: Sokovan) -> None:
    member = ArrayMemberView(id="a-1", name="sweep", index=0, size=10)
    server.says("POST sessions", session(name="sweep[0]", array=member), status=201)
    server.says("GET arrays/a-1", ARRAY, replace(ARRAY, status="terminated", result="failure"))
    server.says("GET sessions", {"items": []})
    assert sokovan("run", "-d", "--array", "0-9", "--", "true") == (0, "sweep\n", "")
    assert server.body("POST sessions") == {"command": ["true"], "array": "0-9"}
    status, out, err = sokovan("run", "--array", "0-9", "--", "true")
    assert (status, out) == (1, "")
    assert err.startswith("sweep: 10 sessions")
