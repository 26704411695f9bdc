"""Everyday commands: run, list, follow the output, execute, stop."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sokovan.adapters.local.clock import SystemClock
from tests.acceptance.claims import shows
from tests.acceptance.embedded import SMALL, SOKOVAN, Embedded, until

SLEEPS = "import time; print('up', flush=True); time.sleep(600)"


@shows(
    session="pending:allocated scheduled:images_ready prepared:creation_requested creating:kernels_running "
    "running:kernel_exited terminating:kernels_gone",
    kernel="pending:allocated scheduled:image_ready prepared:creation_requested creating:started "
    "running:exited terminating:gone",
)
def test_a_session_goes_its_way_and_its_history_tells_every_step(server: Embedded) -> None:
    server.settles(server.python("pass"))  # now the manager knows that the agent has the image, and need not ask
    # It lasts until it has been seen to run.
    session = server.python("import pathlib, time\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)", name="way")
    server.reaches(session, "running")
    assert server.cli("exec", "way", "--", "touch", "go").returncode == 0
    assert server.settles(session)["result"] == "success"
    shown = server.cli("session", "history", "way")
    assert shown.returncode == 0
    steps = ["SCHEDULED", "PREPARED", "CREATING", "RUNNING", "TERMINATING", "TERMINATED"]
    places = [shown.stdout.index(f"→ {step}") for step in steps]
    assert places == sorted(places)


def test_audit_finds_every_invariant_kept_on_a_running_server(server: Embedded) -> None:
    server.settles(server.python("pass"))
    checked = server.cli("audit")
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize(
    ("script", "exit_code", "result"),
    [
        ("pass", 0, "success"),
        ("raise SystemExit(3)", 3, "failure"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137, "failure"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", 139, "failure"),
    ],
)
def test_how_a_command_ends_is_how_its_session_ends(server: Embedded, script: str, exit_code: int, result: str) -> None:
    ended = server.settles(server.python(script))
    assert (ended["exit_code"], ended["result"]) == (exit_code, result)
    assert ended["kernels"][0]["exit_code"] == exit_code


def test_run_hands_on_output_and_exit_code(server: Embedded) -> None:
    done = server.cli("run", "--", "python", "-c", "print('out'); raise SystemExit(4)")
    assert (done.stdout, done.returncode) == ("out\n", 4)


def test_an_interactive_session_runs_until_its_user_stops_it(server: Embedded) -> None:
    session = server.python(SLEEPS, type="interactive", name="desk")
    server.reaches(session, "running")
    assert server.cli("stop", "desk").returncode == 0
    ended = server.settles(session)
    # Its user put it down, so it has ended well; what its command made of the signal is the kernel's.
    assert (ended["reason"], ended["result"], ended["exit_code"]) == ("user-requested", "success", 0)
    assert ended["kernels"][0]["exit_code"] == 143
    assert "stop_requested" in server.moves(session)


def test_logs_are_followed_while_they_are_written_and_end_with_the_session(server: Embedded) -> None:
    talks = "import pathlib, time\nfor n in range(3):\n    print('line', n, flush=True)\n"
    talks += "    while not pathlib.Path(str(n)).exists(): time.sleep(0.01)\n"
    session = server.python(talks, name="talks")
    server.reaches(session, "running")
    with subprocess.Popen(
        [SOKOVAN, "logs", "talks", "--follow"],
        env=server.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as follows:
        assert follows.stdout is not None
        for number in range(3):
            assert follows.stdout.readline() == f"line {number}\n"
            assert server.cli("exec", "talks", "--", "touch", str(number)).returncode == 0
        assert follows.stdout.read() == ""
        assert follows.wait(timeout=60) == 0
    assert server.cli("logs", "talks", "--tail", "1").stdout == "line 2\n"


def test_a_command_in_a_running_session_has_its_output_input_and_exit_code(server: Embedded) -> None:
    server.reaches(server.python(SLEEPS, name="entered", environment={"COLOUR": "green"}), "running")
    echoes = server.cli("exec", "entered", "--", "sh", "-c", "echo $COLOUR; echo to stderr >&2; exit 5")
    assert (echoes.returncode, "green\n" in echoes.stdout) == (5, True)
    reads = server.cli("exec", "-i", "entered", "--", "tr", "a-z", "A-Z", stdin="shout\n")
    assert (reads.returncode, reads.stdout) == (0, "SHOUT\n")
    assert server.cli("exec", "entered", "--", "/no/such/program").returncode != 0
    server.end("entered")


def test_a_user_sees_what_a_session_uses_and_other_users_do_not(server: Embedded) -> None:
    server.reaches(server.python("while True: sum(range(10_000))", name="burns"), "running")

    def burning() -> dict[str, Any] | None:
        [kernel] = server.cli_json("session", "stats", "burns")
        return dict(kernel) if kernel["cpu_cores"] and kernel["processes"] else None

    seen = until(burning, what="its CPU time grows", tell=lambda: server.cli("session", "stats", "burns").stdout)
    assert seen["cpu_ms"] > 0
    assert seen["memory_bytes"] > 0
    assert (seen["kernel"], seen["slots"]["cpu"], seen["error"]) == (0, 200, None)
    assert server.cli("user", "set", "onlooker", "--group", "default").returncode == 0
    key = server.cli_json("key", "add", "onlooker")["token"]
    theirs = {"SOKOVAN_URL": str(server.about["url"]), "SOKOVAN_TOKEN": key}
    assert server.cli("session", "stats", "burns", **theirs).returncode == 3
    server.end("burns", forced=True)
    server.settles("burns")
    [ended] = server.cli_json("session", "stats", "burns")
    assert (ended["cpu_ms"], ended["error"]) == (None, "the kernel has ended")


def test_a_session_that_waits_says_so_in_every_way_there_is(server: Embedded) -> None:
    session = server.python("pass", name="waits", resources={**SMALL, "cuda.device": 3})
    until(lambda: server.session(session)["reason"], what="the scheduler has looked at it")
    [listed] = [one for one in server.cli_json("ps") if one["name"] == "waits"]
    assert listed["status"] == "pending"
    why = server.cli("why", "waits")
    assert why.returncode == 0
    assert "cuda.device" in why.stdout
    assert server.cli_json("why", "waits")["verdict"]
    history = server.cli("session", "history", "waits")
    assert "PENDING" in history.stdout
    assert "waits" in server.cli("ps", "--status", "PENDING").stdout
    assert server.cli("wait", "waits", "--for", "RUNNING", "--timeout", "1s").returncode == 6
    assert server.cli("cancel", "waits").returncode == 0
    assert server.session(session)["status"] == "cancelled"


def test_a_session_with_a_time_to_start_does_not_start_before(server: Embedded) -> None:
    now = datetime.fromtimestamp(SystemClock().now_ms() / 1000, tz=UTC)
    starts = now + timedelta(seconds=2)
    session = server.python("import time; print(time.time())", starts_at=starts.isoformat())
    # A busy machine may not look at that one before its time has come.
    later = server.python("pass", name="later", starts_at=(now + timedelta(hours=1)).isoformat())
    until(lambda: server.session(later)["reason"] == "NOT_YET_BEGIN", what="the scheduler has looked at it")
    assert server.cli("cancel", "later").returncode == 0
    ended = server.settles(session)
    assert ended["result"] == "success"
    assert float(server.output(session)) >= starts.timestamp()


@shows(
    session="preparing:pull_started pulling:images_ready",
    kernel="preparing:pull_started pulling:image_ready",
)
def test_a_virtual_environment_is_installed_with_progress_and_then_run_in(server: Embedded) -> None:
    listed = server.kernels / "images" / "tiny.txt"
    listed.write_text("", encoding="utf-8")
    script = "import sys; print(sys.prefix != sys.base_prefix, sys.prefix)"
    first = server.submit("python", "-c", script, image="venv:tiny")["id"]
    server.reaches(first, "pulling")
    assert server.settles(first)["result"] == "success"
    assert server.output(first).startswith(f"True {server.kernels / 'venvs' / 'tiny-'}")
    details = [line["detail"] for line in server.history(first) if line["code"] == "pulling"]
    assert details, "nothing was said while the image was installed"
    # The first may come before the agent says what it does: it names the image alone.
    assert all(line == "venv:tiny" or line.startswith("venv:tiny:") for line in details), details
    # It is installed now: no session waits for it again.
    second = server.submit("python", "-c", script, image="venv:tiny")["id"]
    assert server.settles(second)["result"] == "success"
    assert "pull_started" not in server.moves(second)
