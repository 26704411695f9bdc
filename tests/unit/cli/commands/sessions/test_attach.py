"""A session that somebody waits for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sokovan.cli.commands.sessions import attach
from sokovan.cli.commands.sessions.attach import AttachedSession
from sokovan.sdk.core.followers import LogPiece
from sokovan.wire.api.sessions import SessionBody
from tests.unit.cli.canned_server import CannedServer, Sokovan
from tests.unit.cli.commands.sessions.test_logs import chunk
from tests.unit.sdk.views import ended, pending, session


def ends_with(server: CannedServer, exit_code: int, *, size: int = 1, **changes: str) -> None:
    """A server at which a session waits, runs and ends."""
    server.says("POST sessions", pending(size=size), status=201)
    server.streams(
        "GET sessions/s-1/events",
        ("session", pending(size=size)),
        ("session", pending(size=size, reason="NOT_ENOUGH_FREE", reason_detail="all are busy")),
        ("session", session(size=size)),
    )
    server.streams("GET sessions/s-1/events", ("session", ended(exit_code=exit_code, size=size, **changes)), later=True)
    silent = [chunk(kernel, 0, "", end=True) for kernel in range(1, size)]
    server.streams("GET sessions/s-1/log", chunk(0, 0, "hello\n", end=True), *silent)


def test_output_is_ours_and_every_change_is_a_line_of_talk(server: CannedServer, sokovan: Sokovan) -> None:
    ends_with(server, 0)
    status, out, err = sokovan("run", "--", "python")
    assert (status, out) == (0, "hello\n")
    assert err.splitlines() == [
        "ddp  PENDING",
        "ddp  PENDING  all are busy",
        "ddp  RUNNING  a1",
        "ddp  finished, exit 0, 4.0 s",
    ]


@pytest.mark.parametrize(("exit_code", "status"), [(7, 7), (137, 137), (255, 255), (-1, 1), (256, 1)])
def test_the_exit_status_of_the_command_is_ours(
    server: CannedServer, sokovan: Sokovan, exit_code: int, status: int
) -> None:
    ends_with(server, exit_code)
    assert sokovan("run", "--", "python")[0] == status


def test_memory_that_ran_out_is_told_with_the_exit_code(server: CannedServer, sokovan: Sokovan) -> None:
    ends_with(server, 137, reason="out-of-memory", reason_detail="kernel 0 ran out of memory: its limit was 1Gi")
    last = sokovan("run", "--", "python")[2].splitlines()[-1]
    assert last == "ddp  finished, exit 137, 4.0 s: kernel 0 ran out of memory: its limit was 1Gi"


def test_a_time_limit_that_ended_it_is_told_with_the_exit_code(server: CannedServer, sokovan: Sokovan) -> None:
    ends_with(server, 143, reason="time-limit", reason_detail="it ran for 60 s")
    last = sokovan("run", "--", "python")[2].splitlines()[-1]
    assert last == "ddp  finished, exit 143, 4.0 s: time limit exceeded; it ran for 60 s"


@pytest.mark.parametrize(
    ("reason", "detail", "status"),
    [
        ("pending-timeout", "it waited for 60 s", 6),
        ("creation-refused", "'x' is not a program on this machine [program-not-found]", 127),
        ("creation-refused", "no room [runtime-failure]", 125),
    ],
)
def test_the_status_tells_why_it_never_ran(
    server: CannedServer, sokovan: Sokovan, *, reason: str, detail: str, status: int
) -> None:
    server.says("POST sessions", pending(), status=201)
    over = session(status="terminated", result="failure", kernels=[], reason=reason, reason_detail=detail)
    server.streams("GET sessions/s-1/events", ("session", over))
    found, _, err = sokovan("run", "--", "x")
    assert found == status
    assert detail in err


def test_the_lines_of_a_gang_begin_with_their_rank(server: CannedServer, sokovan: Sokovan) -> None:
    ends_with(server, 0, size=4)
    assert sokovan("run", "--size", "4", "--", "python")[1] == "[0] hello\n"


def test_what_still_waits_when_patience_ends_is_taken_back(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("POST sessions", pending())
    server.streams("GET sessions/s-1/events", ("session", pending()))
    server.says("DELETE sessions/s-1", pending(status="cancelled"))
    status, _, err = sokovan("run", "--timeout", "0.1", "--", "python")
    assert status == 6
    assert "ddp had not started after 0.1 s and was cancelled" in err
    assert server.lines[-1] == "DELETE sessions/s-1"


def test_what_can_never_be_placed_is_told_at_once(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("POST sessions", pending())
    server.streams("GET sessions/s-1/events", ("session", pending(reason="NEVER_FITS", reason_detail="too big")))
    server.says("DELETE sessions/s-1", pending(status="cancelled"))
    status, _, err = sokovan("run", "--", "python")
    assert status == 6
    assert "cannot be placed: too big" in err
    assert "[never-fits]" in err


def test_a_folder_that_no_machine_can_move_is_told_with_what_helps(server: CannedServer, sokovan: Sokovan) -> None:
    told = "none of 1 agents has the labels sokovan.mounts=anywhere"
    server.says("POST sessions", pending())
    server.streams("GET sessions/s-1/events", ("session", pending(reason="NO_LABEL_MATCH", reason_detail=told)))
    server.says("DELETE sessions/s-1", pending(status="cancelled"))
    status, _, err = sokovan("run", "--mount", "/srv:/data", "--", "python")
    assert status == 6
    assert f"cannot be placed: {told}" in err
    assert "mount it at its own path (SOURCE:SOURCE), or install bubblewrap" in err


def test_how_far_an_image_is_stands_beside_the_state(server: CannedServer, sokovan: Sokovan) -> None:
    pulling = {"status": "pulling", "reason": "pulling"}
    server.says("POST sessions", pending())
    server.streams(
        "GET sessions/s-1/events",
        ("session", pending(**pulling, reason_detail="venv:tiny: Collecting numpy")),
        ("session", pending(**pulling, reason_detail="venv:tiny: Collecting numpy")),
        ("session", pending(status="cancelled")),
    )
    _, _, err = sokovan("run", "--", "python")
    assert err.count("ddp  PULLING  venv:tiny: Collecting numpy") == 1


def waits_for_a_limit(server: CannedServer, verdict: str) -> None:
    """A server at which a session is kept back by a limit, and then runs out of patience."""
    server.says("POST sessions", pending())
    server.streams("GET sessions/s-1/events", ("session", pending(reason="QUOTA_USER", reason_detail="1 of 0.5")))
    told = {"session": "s-1", "status": "pending", "verdict": verdict, "code": "QUOTA_USER", "summary": "above it"}
    server.says("GET sessions/s-1/why", told)
    server.says("DELETE sessions/s-1", pending(status="cancelled"))


def test_what_is_above_a_limit_itself_is_told_at_once(server: CannedServer, sokovan: Sokovan) -> None:
    waits_for_a_limit(server, "CHANGE")
    status, _, err = sokovan("run", "--", "python")
    assert status == 6
    assert "cannot be placed: above it" in err
    assert "ask an administrator to raise the quota [never-fits]" in err


def test_a_limit_that_is_only_full_is_waited_for(server: CannedServer, sokovan: Sokovan) -> None:
    waits_for_a_limit(server, "WAIT")
    status, _, err = sokovan("run", "--timeout", "0.1", "--", "python")
    assert status == 6
    assert "had not started after 0.1 s" in err
    assert server.lines.count("GET sessions/s-1/why") == 1


def test_what_ended_without_running_is_a_failure_of_ours(server: CannedServer, sokovan: Sokovan) -> None:
    failed = pending(status="terminated", reason="image-unavailable", reason_detail="no such venv", version=7)
    server.says("POST sessions", pending())
    server.streams("GET sessions/s-1/events", ("session", pending()), ("session", failed))
    status, _, err = sokovan("run", "--", "python")
    assert status == 125
    assert "has no exit code: no such venv" in err


class Interrupted(AttachedSession):
    """Somebody who presses Ctrl-C when the first output comes."""

    pressed = False

    def _output(self, view: object) -> Iterator[LogPiece]:
        for piece in super()._output(view):  # type: ignore[arg-type]  # what the parent gives
            if not self.pressed:
                type(self).pressed = True
                raise KeyboardInterrupt
            yield piece


@pytest.mark.parametrize(("answer", "status", "stops"), [("s", 130, True), ("d", 130, False), ("c", 0, False)])
def test_ctrl_c_asks_what_is_meant(
    server: CannedServer, monkeypatch: pytest.MonkeyPatch, answer: str, status: int, *, stops: bool
) -> None:
    ends_with(server, 0)
    server.says("DELETE sessions/s-1", session(status="terminating"))
    monkeypatch.setattr(attach, "is_interactive", lambda: True)
    monkeypatch.setattr(attach, "ask", lambda _prompt: answer)
    from sokovan.sdk.sync.client import Client  # noqa: PLC0415  # after the environment is made

    Interrupted.pressed = False
    with Client() as client:
        assert Interrupted(client).run(SessionBody(command=["x"])) == status
    assert ("DELETE sessions/s-1" in server.lines) is stops


def test_ctrl_c_at_the_question_leaves_the_session_and_says_so(
    server: CannedServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def pressed_again(_prompt: str) -> str:
        raise KeyboardInterrupt

    ends_with(server, 0)
    monkeypatch.setattr(attach, "is_interactive", lambda: True)
    monkeypatch.setattr(attach, "ask", pressed_again)
    from sokovan.sdk.sync.client import Client  # noqa: PLC0415  # after the environment is made

    Interrupted.pressed = False
    with Client() as client:
        assert Interrupted(client).run(SessionBody(command=["x"])) == 130
    assert "ddp keeps running; see sokovan logs -f ddp" in capsys.readouterr().err
    assert "DELETE sessions/s-1" not in server.lines


def test_ctrl_c_where_nobody_can_answer_stops_the_session(
    server: CannedServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ends_with(server, 143)
    server.says("DELETE sessions/s-1", session(status="terminating"))
    monkeypatch.setattr(attach, "AttachedSession", Interrupted)
    monkeypatch.setattr("sokovan.cli.commands.sessions.run.AttachedSession", Interrupted)
    from sokovan.cli.main import run  # noqa: PLC0415  # beside its one use

    Interrupted.pressed = False
    assert run(["run", "--", "x"]) == 130
    assert "stopping ddp" in capsys.readouterr().err
    assert "DELETE sessions/s-1" in server.lines
