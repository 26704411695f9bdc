"""Following a session to its end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sokovan.cli.commands.sessions import attach
from sokovan.cli.commands.sessions.attach import AttachedSession
from sokovan.cli.commands.sessions.interrupts import SignalledToStop
from sokovan.sdk.core.streams.followers import LogPiece
from sokovan.wire.api.sessions import SessionBody
from tests.unit.cli.canned_server import CannedServer, Sokovan
from tests.unit.cli.commands.sessions.test_logs import chunk
from tests.unit.sdk.views import ended, pending, session


def ends_with(server: CannedServer, exit_code: int, *, size: int = 1, **changes: str) -> None:
    """Let the session wait, run and end."""
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


@pytest.mark.slow
def test_output_and_states_are_printed(server: CannedServer, sokovan: Sokovan) -> None:
    ends_with(server, 0)
    status, out, err = sokovan("run", "--", "python")
    assert (status, out) == (0, "hello\n")
    assert err.splitlines() == [
        "ddp  PENDING",
        "ddp  PENDING  all are busy",
        "ddp  RUNNING  a1, cpu 1, mem 1GiB (mem by default; --mem changes it)",
        "ddp  finished, exit 0, 4.0 s",
    ]


@pytest.mark.slow
def test_a_session_that_ends_before_it_is_seen_running_says_where_it_ran(
    server: CannedServer, sokovan: Sokovan
) -> None:
    server.says("POST sessions", pending(), status=201)
    server.streams("GET sessions/s-1/events", ("session", pending()), ("session", ended(exit_code=0)))
    server.streams("GET sessions/s-1/events", ("session", ended(exit_code=0)), later=True)
    server.streams("GET sessions/s-1/log", chunk(0, 0, "hello\n", end=True))
    status, out, err = sokovan("run", "--mem", "1GiB", "--", "python")
    assert (status, out) == (0, "hello\n")
    assert err.splitlines() == [
        "ddp  PENDING",
        "ddp  RUNNING  a1, cpu 1, mem 1GiB",
        "ddp  finished, exit 0, 4.0 s",
    ]


def failed_start(attempt: int, agent: str) -> dict[str, object]:
    """A failed attempt to start the session."""
    at = "2026-11-16T09:00:00.000Z"
    detail = f"{agent} has no space left"
    return {
        "attempt": attempt, "agent": agent, "code": "creation-refused", "detail": detail, "at": at, "avoided_until": at
    }  # fmt: skip


@pytest.mark.slow
def test_each_failed_attempt_and_the_place_of_the_next_one_are_printed(server: CannedServer, sokovan: Sokovan) -> None:
    first, second = failed_start(1, "a1"), failed_start(2, "a2")
    server.says("POST sessions", pending(), status=201)
    server.streams(
        "GET sessions/s-1/events",
        ("session", pending()),
        ("session", pending(failed_starts=[first], attempt=2)),
        ("session", session(status="creating", failed_starts=[first], attempt=2)),
        ("session", session(failed_starts=[first, second], attempt=3)),
    )
    server.streams("GET sessions/s-1/events", ("session", ended(exit_code=0, attempt=3)), later=True)
    server.streams("GET sessions/s-1/log", chunk(0, 0, "", end=True))
    assert sokovan("run", "--mem", "1GiB", "--", "python")[2].splitlines() == [
        "ddp  PENDING",
        "ddp  attempt 1 of 3 failed on a1: a1 has no space left",
        "ddp  attempt 2 of 3 on a1",
        "ddp  CREATING",
        "ddp  attempt 2 of 3 failed on a2: a2 has no space left",
        "ddp  attempt 3 of 3 on a1",
        "ddp  RUNNING  a1, cpu 1, mem 1GiB",
        "ddp  finished, exit 0, 4.0 s",
    ]


def test_the_failure_of_an_only_attempt_is_printed_once(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("POST sessions", pending(), status=201)
    over = session(
        status="terminated", result="failure", kernels=[], reason="creation-refused", reason_detail="no space left",
        failed_starts=[failed_start(1, "a1")], retry={"attempts": 1},
    )  # fmt: skip
    server.streams("GET sessions/s-1/events", ("session", over))
    assert sokovan("run", "--", "x")[2].count("no space left") == 1


@pytest.mark.slow
def test_the_slots_of_each_kernel_are_printed(server: CannedServer, sokovan: Sokovan) -> None:
    ends_with(server, 0, size=2)
    err = sokovan("run", "--size", "2", "--mem", "1GiB", "--", "python")[2]
    assert "ddp  RUNNING  a1, cpu 1, mem 1GiB per kernel\n" in err


@pytest.mark.slow
@pytest.mark.parametrize(("exit_code", "status"), [(7, 7), (137, 137), (255, 255), (-1, 1), (256, 1)])
def test_the_exit_code_of_the_command_is_returned(
    server: CannedServer, sokovan: Sokovan, exit_code: int, status: int
) -> None:
    ends_with(server, exit_code)
    assert sokovan("run", "--", "python")[0] == status


@pytest.mark.slow
def test_out_of_memory_is_printed_with_the_exit_code(server: CannedServer, sokovan: Sokovan) -> None:
    ends_with(server, 137, reason="out-of-memory", reason_detail="kernel 0 ran out of memory: its limit was 1GiB")
    last = sokovan("run", "--", "python")[2].splitlines()[-1]
    assert last == "ddp  finished, exit 137, 4.0 s: kernel 0 ran out of memory: its limit was 1GiB"


@pytest.mark.slow
def test_an_exceeded_time_limit_is_printed_with_the_exit_code(server: CannedServer, sokovan: Sokovan) -> None:
    ends_with(server, 143, reason="time-limit", reason_detail="it ran for 1m")
    last = sokovan("run", "--", "python")[2].splitlines()[-1]
    assert last == "ddp  finished, exit 143, 4.0 s: time limit exceeded; it ran for 1m"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reason", "detail", "status"),
    [
        ("pending-timeout", "it waited for 60 s", 6),
        ("creation-refused", "'x' is not a program on this machine [program-not-found]", 127),
        ("creation-refused", "no room [runtime-failure]", 125),
    ],
)
def test_the_exit_code_depends_on_why_it_never_ran(
    server: CannedServer, sokovan: Sokovan, *, reason: str, detail: str, status: int
) -> None:
    server.says("POST sessions", pending(), status=201)
    over = session(status="terminated", result="failure", kernels=[], reason=reason, reason_detail=detail)
    server.streams("GET sessions/s-1/events", ("session", over))
    found, _, err = sokovan("run", "--", "x")
    assert found == status
    assert detail in err


@pytest.mark.slow
def test_the_lines_of_a_gang_begin_with_their_rank(server: CannedServer, sokovan: Sokovan) -> None:
    ends_with(server, 0, size=4)
    assert sokovan("run", "--size", "4", "--", "python")[1] == "[0] hello\n"


@pytest.mark.slow
def test_a_session_pending_at_the_timeout_is_cancelled(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("POST sessions", pending())
    server.streams("GET sessions/s-1/events", ("session", pending()))
    server.says("DELETE sessions/s-1", pending(status="cancelled"))
    status, _, err = sokovan("run", "--timeout", "0.1", "--", "python")
    assert status == 6
    assert "ddp had not started after 0.1 s and was cancelled" in err
    assert server.lines[-1] == "DELETE sessions/s-1"


@pytest.mark.slow
def test_an_unschedulable_session_fails_at_once(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("POST sessions", pending())
    server.streams("GET sessions/s-1/events", ("session", pending(reason="NEVER_FITS", reason_detail="too big")))
    server.says("DELETE sessions/s-1", pending(status="cancelled"))
    status, _, err = sokovan("run", "--", "python")
    assert status == 6
    assert "cannot be placed: too big" in err
    assert "[never-fits]" in err


@pytest.mark.slow
def test_an_unsupported_mount_fails_with_a_hint(server: CannedServer, sokovan: Sokovan) -> None:
    message = "none of 1 agents has the labels sokovan.mounts=anywhere"
    server.says("POST sessions", pending())
    server.streams("GET sessions/s-1/events", ("session", pending(reason="NO_LABEL_MATCH", reason_detail=message)))
    server.says("DELETE sessions/s-1", pending(status="cancelled"))
    status, _, err = sokovan("run", "--mount", "/srv:/data", "--", "python")
    assert status == 6
    assert f"cannot be placed: {message}" in err
    assert "mount it at its own path (SOURCE:SOURCE), or install bubblewrap" in err


@pytest.mark.slow
def test_a_session_too_large_for_its_booking_fails_with_a_hint(server: CannedServer, sokovan: Sokovan) -> None:
    message = "no agent of its booking demo could ever hold gpu=9"
    refused = pending(reason="NEVER_FITS", reason_detail=message, booking="demo")
    server.says("POST sessions", pending(booking="demo"))
    server.streams("GET sessions/s-1/events", ("session", refused))
    server.says("DELETE sessions/s-1", pending(status="cancelled"))
    status, _, err = sokovan("run", "--booking", "demo", "--gpus", "9", "--", "python")
    assert status == 6
    assert "name a booking with more agents" in err


@pytest.mark.slow
def test_pull_progress_is_printed_beside_the_state(server: CannedServer, sokovan: Sokovan) -> None:
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


def waits_for_a_quota(server: CannedServer, verdict: str) -> None:
    """Keep the session pending because of a quota."""
    server.says("POST sessions", pending())
    server.streams("GET sessions/s-1/events", ("session", pending(reason="QUOTA_USER", reason_detail="1 of 0.5")))
    message = {"session": "s-1", "status": "pending", "verdict": verdict, "code": "QUOTA_USER", "summary": "above it"}
    server.says("GET sessions/s-1/why", message)
    server.says("DELETE sessions/s-1", pending(status="cancelled"))


@pytest.mark.slow
def test_a_request_above_the_quota_fails_at_once(server: CannedServer, sokovan: Sokovan) -> None:
    waits_for_a_quota(server, "CHANGE")
    status, _, err = sokovan("run", "--", "python")
    assert status == 6
    assert "cannot be placed: above it" in err
    assert "ask an administrator to raise the quota [never-fits]" in err


@pytest.mark.slow
def test_a_quota_in_use_is_waited_for(server: CannedServer, sokovan: Sokovan) -> None:
    waits_for_a_quota(server, "WAIT")
    status, _, err = sokovan("run", "--timeout", "0.1", "--", "python")
    assert status == 6
    assert "had not started after 0.1 s" in err
    assert server.lines.count("GET sessions/s-1/why") == 1


@pytest.mark.slow
def test_a_session_that_never_ran_is_a_client_failure(server: CannedServer, sokovan: Sokovan) -> None:
    failed = pending(status="terminated", reason="image-unavailable", reason_detail="no such venv", version=7)
    server.says("POST sessions", pending())
    server.streams("GET sessions/s-1/events", ("session", pending()), ("session", failed))
    status, _, err = sokovan("run", "--", "python")
    assert status == 125
    assert "has no exit code: no such venv" in err


class Interrupted(AttachedSession):
    """Raises KeyboardInterrupt at the first output, like Ctrl-C."""

    pressed = False

    def _output(self, view: object) -> Iterator[LogPiece]:
        for piece in super()._output(view):  # type: ignore[arg-type]  # what the parent gives
            if not self.pressed:
                type(self).pressed = True
                raise KeyboardInterrupt
            yield piece


@pytest.mark.parametrize(("answer", "status", "stops"), [("s", 130, True), ("d", 130, False), ("c", 0, False)])
def test_ctrl_c_prompts_on_a_terminal(
    server: CannedServer, monkeypatch: pytest.MonkeyPatch, answer: str, status: int, *, stops: bool
) -> None:
    ends_with(server, 0)
    server.says("DELETE sessions/s-1", session(status="terminating"))
    monkeypatch.setattr(attach, "is_interactive", lambda: True)
    monkeypatch.setattr(attach, "ask", lambda _prompt: answer)
    from sokovan.sdk.sync.client import Client  # noqa: PLC0415  # after the environment is set

    Interrupted.pressed = False
    with Client() as client:
        assert Interrupted(client).run(SessionBody(command=["x"])) == status
    assert ("DELETE sessions/s-1" in server.lines) is stops


def test_a_signal_stops_the_session_without_a_prompt(server: CannedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    class Signalled(AttachedSession):
        def _output(self, view: object) -> Iterator[LogPiece]:
            if not self._stopping:
                raise SignalledToStop
            yield from super()._output(view)  # type: ignore[arg-type]  # what the parent gives

    ends_with(server, 0)
    server.says("DELETE sessions/s-1", session(status="terminating"))
    monkeypatch.setattr(attach, "is_interactive", lambda: True)
    from sokovan.sdk.sync.client import Client  # noqa: PLC0415  # after the environment is set

    with Client() as client:
        assert Signalled(client).run(SessionBody(command=["x"])) == 130
    assert "DELETE sessions/s-1" in server.lines


def test_ctrl_c_at_the_prompt_detaches(
    server: CannedServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def pressed_again(_prompt: str) -> str:
        raise KeyboardInterrupt

    ends_with(server, 0)
    monkeypatch.setattr(attach, "is_interactive", lambda: True)
    monkeypatch.setattr(attach, "ask", pressed_again)
    from sokovan.sdk.sync.client import Client  # noqa: PLC0415  # after the environment is set

    Interrupted.pressed = False
    with Client() as client:
        assert Interrupted(client).run(SessionBody(command=["x"])) == 130
    assert "ddp keeps running; see sokovan logs -f ddp" in capsys.readouterr().err
    assert "DELETE sessions/s-1" not in server.lines


@pytest.mark.slow
def test_ctrl_c_without_a_terminal_stops_the_session(
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
