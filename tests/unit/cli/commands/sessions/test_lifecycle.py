"""Commands on single sessions."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest
from msgspec import to_builtins

from sokovan.cli.commands.sessions import lifecycle
from sokovan.wire.api.batches import StopItemView, StopView
from sokovan.wire.api.sessions import SessionRowView
from sokovan.wire.api.system import ProblemView
from tests.unit.cli.canned_server import CannedServer, Sokovan
from tests.unit.sdk.views import ARRAY, KERNEL, ended, pending, session


def stopped(name: str) -> StopItemView:
    """The outcome for a session that ends."""
    return StopItemView(id=f"s-{name}", name=name, status="terminating")


def session_row(**changes: str) -> dict[str, object]:
    """A session in short."""
    known = to_builtins(session(**changes))
    return {one.name: known.get(one.name) for one in fields(SessionRowView)} | {"slots": {}, "gates": []}


def problem(code: str, status: int) -> ProblemView:
    """The outcome for a session that is refused."""
    return ProblemView(type="", title="T", status=status, detail=f"about {code}", code=code, hint="fix it")


def test_a_session_is_shown_with_its_kernels(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions/ddp", session())
    status, out, _ = sokovan("session", "show", "ddp")
    assert status == 0
    assert out.startswith("name       ddp\n")
    assert out.splitlines()[-2].split() == ["KERNEL", "RANK", "ROLE", "STATE", "AGENT", "EXIT", "SLOTS", "PORTS"]


def test_a_session_is_one_json_object(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions/ddp", session())
    assert json.loads(sokovan("session", "show", "ddp", "--json")[1])["hypernode"] is None


@pytest.mark.slow
def test_a_session_is_watched_until_it_reaches_a_state(server: CannedServer, sokovan: Sokovan) -> None:
    server.streams("GET sessions/ddp/events", ("session", pending()), ("session", session()), ("session", ended()))
    status, out, _ = sokovan("session", "show", "ddp", "--until", "running", "-o", "jsonl")
    assert status == 0
    assert [json.loads(line)["status"] for line in out.splitlines()] == ["pending", "running"]
    _, out, _ = sokovan("session", "show", "ddp", "-w", "-o", "name")
    assert out == "ddp\n" * 3


def test_a_session_that_never_reaches_the_state_is_a_failure(server: CannedServer, sokovan: Sokovan) -> None:
    server.streams("GET sessions/ddp/events", ("session", pending(status="cancelled")))
    status, _, err = sokovan("session", "show", "ddp", "--until", "RUNNING")
    assert status == 1
    assert "[never-reached]" in err


@pytest.mark.slow
def test_the_first_kernels_of_a_large_session_are_shown_and_all_on_request(
    server: CannedServer, sokovan: Sokovan
) -> None:
    server.says("GET sessions/ddp", session(size=2, kernel_counts={"running": 2}))
    kernels = [replace(KERNEL, index=index) for index in range(2)]
    server.says("GET sessions/s-1/kernels", {"items": kernels, "next": None})
    status, out, err = sokovan("session", "show", "ddp")
    assert (status, len(out.partition("\n\n")[2].splitlines())) == (0, 2)
    assert "the first 1 of 2 kernels; --all-kernels shows all" in err
    status, out, err = sokovan("session", "show", "ddp", "--all-kernels")
    assert (status, len(out.partition("\n\n")[2].splitlines()), err) == (0, 3, "")


def test_a_history_is_printed_line_by_line(server: CannedServer, sokovan: Sokovan) -> None:
    line = {"subject": "s-1", "sequence": 1, "before": None, "after": "pending", "trigger": "submitted", "who": "ada"}
    line |= {"code": "submitted", "detail": "", "at": "2030-01-01T00:00:00.000Z", "last_at": "", "times": 1}
    server.says("GET sessions/ddp/history", {"session": "s-1", "lines": [line]})
    server.says("GET sessions/s-1/kernels", {"items": session().kernels, "next": None})
    status, out, _ = sokovan("session", "history", "ddp")
    assert status == 0
    assert out.splitlines()[1].split() == ["2030-01-01T00:00:00.000Z", "session", "PENDING", "ada", "submitted"]
    assert json.loads(sokovan("session", "history", "ddp", "--json")[1]) == [line]


def test_waiting_prints_the_state_of_each_session(server: CannedServer, sokovan: Sokovan) -> None:
    server.streams("GET sessions/a/events", ("session", session(name="a")))
    server.streams("GET sessions/b/events", ("session", ended(name="b")))
    assert sokovan("wait", "a", "b", "--for", "state=running") == (0, "", "a  RUNNING\nb  TERMINATED\n")


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (("wait", "a"), "GET sessions/a/events"),
        (("stop", "a"), "DELETE sessions/a"),
        (("cancel", "a"), "POST sessions/a/cancel"),
        (("session", "release", "a"), "POST sessions/a/release"),
    ],
)
def test_the_result_is_printed_as_json(
    server: CannedServer, sokovan: Sokovan, words: tuple[str, ...], asked: str
) -> None:
    server.says(asked, ended(name="a"))
    if words[0] == "wait":
        server.streams(asked, ("session", ended(name="a")))
    status, out, err = sokovan(*words, "--json")
    assert (status, json.loads(out)["name"], err) == (0, "a", "")


@pytest.mark.slow
def test_a_timeout_is_6_and_an_unreached_state_is_1(server: CannedServer, sokovan: Sokovan) -> None:
    server.streams("GET sessions/a/events", ("session", pending(id="a", name="a")))
    status, _, err = sokovan("wait", "a", "--timeout", "0.2")
    assert status == 6
    assert "a is still PENDING after 0.2 s" in err
    server.streams("GET sessions/a/events", ("session", pending(name="a", status="cancelled")))
    assert sokovan("wait", "a", "--for", "RUNNING")[0] == 1


def test_every_given_session_is_stopped(server: CannedServer, sokovan: Sokovan) -> None:
    items = [stopped("a"), StopItemView(problem=problem("not-found", 404)), stopped("c")]
    server.says("POST sessions:stop", StopView(items=items, accepted=2, refused=1))
    status, out, err = sokovan("stop", "a", "b", "c")
    assert (status, out) == (3, "")
    assert [line.split()[0] for line in err.splitlines()] == ["a", "error:", "hint:", "c"]
    assert server.asked == [("POST sessions:stop", b'{"session":"a"}\n{"session":"b"}\n{"session":"c"}')]


def test_sessions_are_stopped_though_a_request_for_others_fails(
    server: CannedServer, sokovan: Sokovan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "TOGETHER", 1)
    line = "POST sessions:stop"
    server.refuses(line, 409, "conflict")
    [refused] = server.answers[line]
    server.says(line, *(StopView(items=[stopped(name)], accepted=1, refused=0) for name in "ac"))
    server.answers[line].insert(1, refused)
    status, _, err = sokovan("stop", "a", "b", "c")
    assert (status, [line.split()[0] for line in err.splitlines()]) == (5, ["a", "error:", "hint:", "it", "c"])
    assert "about conflict" in err
    assert "it is not known whether session b ends" in err


def test_an_array_among_several_names_is_stopped_by_a_request_of_its_own(
    server: CannedServer, sokovan: Sokovan
) -> None:
    items = [stopped("a"), StopItemView(problem=problem("array-named", 409))]
    server.says("POST sessions:stop", StopView(items=items, accepted=1, refused=1))
    server.refuses("DELETE sessions/sweep", 409, "array-named")
    server.says("DELETE arrays/sweep", ARRAY, status=202)
    status, _, err = sokovan("stop", "a", "sweep", "--force", "--yes")
    assert (status, [line.split()[0] for line in err.splitlines()]) == (0, ["a", "sweep"])
    assert server.lines == [
        "POST sessions:stop?forced=true",
        "DELETE sessions/sweep?forced=true",
        "DELETE arrays/sweep?forced=true",
    ]


def test_stopping_all_needs_a_confirmation(server: CannedServer, sokovan: Sokovan) -> None:
    rows = [session_row(id="s-1"), session_row(id="s-2", status="pending"), session_row(id="s-3")]
    server.says("GET sessions/rows", {"items": rows})
    server.says("POST sessions:stop", StopView(items=[stopped("ddp")] * 3, accepted=3, refused=0))
    status, _, err = sokovan("stop", "--all")
    assert status == 2
    assert err.startswith("error: stop 3 sessions? ")
    assert "--yes" in err
    assert sokovan("stop", "--all", "--yes")[0] == 0
    listing, stop = server.asked[-2:]
    assert "status=pending" in listing[0]
    assert "terminated" not in listing[0]
    assert "cancelled" not in listing[0]
    assert stop[1].splitlines()[0] == b'{"session":"s-2"}', "those that wait first, so that none starts meanwhile"


def test_stopping_no_sessions_needs_no_confirmation(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions/rows", {"items": []})
    assert sokovan("stop", "--all") == (0, "", "no sessions to stop\n")


def test_force_needs_a_confirmation(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("DELETE sessions/a", session(status="terminated"))
    assert sokovan("stop", "a", "--force")[0] == 2
    assert sokovan("stop", "a", "--force", "-y")[0] == 0
    assert server.lines == ["DELETE sessions/a?forced=true"]


def test_only_pending_sessions_are_cancelled(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("POST sessions/a/cancel", pending(name="a", status="cancelled"))
    assert sokovan("cancel", "a") == (0, "", "a  CANCELLED\n")
    server.refuses("POST sessions/a/cancel", 409, "conflict")
    assert sokovan("cancel", "a")[0] == 5


def test_a_release_says_which_gates_still_hold_the_session(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("POST sessions/a/release", pending(name="a", gates=["budget"]))
    assert sokovan("session", "release", "a", "--gate", "data") == (0, "", "a  PENDING  held by budget\n")
    assert server.lines == ["POST sessions/a/release?gate=data"]
    server.says("POST sessions/a/release", pending(name="a"))
    assert sokovan("session", "release", "a") == (0, "", "a  PENDING\n")


@pytest.mark.parametrize("verb", ["stop", "wait", "cancel", "session release"])
def test_no_session_name_is_a_usage_error(server: CannedServer, sokovan: Sokovan, verb: str) -> None:
    status, _, err = sokovan(*verb.split())
    assert status == 2
    assert "no session given" in err
    assert server.asked == []


@pytest.mark.slow
def test_the_name_of_an_array_stands_for_all_of_its_sessions(server: CannedServer, sokovan: Sokovan) -> None:
    refused = (
        "GET sessions/sweep",
        "DELETE sessions/sweep",
        "GET sessions/sweep/events",
        "POST sessions/sweep/release",
    )
    for line in refused:
        server.refuses(line, 409, "array-named")
    server.says("GET arrays/sweep", ARRAY)
    server.says("GET arrays/a-1", replace(ARRAY, status="terminated", result="failure"))
    server.says("DELETE arrays/sweep", ARRAY, status=202)
    server.says("POST arrays/sweep/release", ARRAY)
    server.says("GET sessions", {"items": []})
    status, out, _ = sokovan("session", "show", "sweep")
    assert status == 0
    assert "10: 5 pending, 2 running, 2 succeeded, 1 failed" in out
    assert sokovan("stop", "sweep") == (0, "", "sweep  RUNNING: 5 pending, 2 running, 2 succeeded, 1 failed\n")
    assert sokovan("session", "release", "sweep")[0] == 0
    status, _, err = sokovan("wait", "sweep")
    assert (status, err.split(":")[0]) == (0, "sweep  TERMINATED")
    status, _, err = sokovan("wait", "sweep", "--for", "RUNNING")
    assert status == 2
    assert "until ENDED" in err
