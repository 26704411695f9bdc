"""Programs start with exactly the given environment, limits and streams."""

from __future__ import annotations

import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from sokovan.adapters.process.shim import children as children_module
from sokovan.adapters.process.shim.children import Child, NotStarted
from sokovan.adapters.process.shim.control_groups import ControlGroups

PYTHON = sys.executable


def child(*arguments: str, **changes: Any) -> Child:
    plan = {"arguments": list(arguments), "environment": {"PATH": "/usr/bin:/bin"}, "folder": "/", "rlimits": []}
    return Child({**plan, "sandbox": None, **changes}, ControlGroups(0, {}))


def run(started: Child) -> tuple[int, bytes]:
    """Its exit status and its output."""
    reader, writer = os.pipe()
    pid = started.start_kernel(writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        text = stream.read()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), text


def test_a_kernel_has_its_variables_its_folder_and_a_session_of_its_own() -> None:
    script = "import os; print(os.environ['A'], os.getcwd(), os.getsid(0) == os.getpid())"
    started = child(PYTHON, "-c", script, environment={"A": "b c"}, folder="/usr")
    assert run(started) == (0, b"b c /usr True\n")


def test_a_program_is_found_by_the_path_of_its_own_environment() -> None:
    assert run(child("true", environment={"PATH": "/there/is/nothing:/usr/bin:/bin"})) == (0, b"")
    with pytest.raises(NotStarted, match="not on PATH"):
        run(child("true", environment={"PATH": "/there/is/nothing"}))


# Says what a sandbox gets: its options once all of them are there, limits, session and signals.
SANDBOX = """#!/bin/sh
while test "$1" = --args; do tr '\\0' ' ' < /proc/self/fd/$2; shift 2; done
umask; ulimit -n; cat /proc/self/oom_score_adj
grep SigIgn /proc/self/status
test "$(cut -d ' ' -f 6 /proc/$$/stat)" = $$ && shift && echo "$A in $B runs $*"
"""


# Programs with rights of their own are started by a copy of the shim, as is what an older agent asked for.
STARTS = pytest.mark.parametrize(
    "start", [{"spawned": True}, {"spawned": False}, {}], ids=["spawned", "forked", "unsaid"]
)


def sandboxed(folder: Path, start: dict[str, bool], **changes: Any) -> Child:
    """A child whose sandbox is the script above."""
    program = folder / "sandbox"
    program.write_text(SANDBOX)
    program.chmod(0o755)
    sandbox = {"program": str(program), "options": ["--die", "x"], "filter": "", "separate": False, **start}
    variables = {"PATH": "/usr/bin:/bin", "B": "sandbox"}
    return child("a", "b", environment={"A": "kernel"}, sandbox={**sandbox, "environment": variables}, **changes)


@STARTS
def test_a_sandbox_gets_its_options_in_its_own_session_with_limits_and_default_signals(
    start: dict[str, bool], tmp_path: Path
) -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        started = sandboxed(tmp_path, start, rlimits=[[resource.RLIMIT_NOFILE, 99, 99]])
        status, said = run(started)
    finally:
        signal.signal(signal.SIGTERM, before)
    os.close(started.sandbox_status)
    assert status == 0
    options = f"--die x --setenv A kernel --json-status-fd {started._status_end} "
    first, files, score, ignored, last = said.decode().splitlines()
    assert (first, files, score, last) == (f"{options}0022", "99", "500", " in sandbox runs a b")
    # The C library ignores two signals that it keeps for itself, 32 and 33.
    assert int(ignored.removeprefix("SigIgn:"), 16) & 0x7FFFFFFF == 0
    assert os.umask(0o022) == 0o022, "the shim has its own again"


def test_a_sandbox_whose_shim_was_killed_before_it_was_confined_has_no_valid_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Child, "_confine", killed)
    reader, writer = os.pipe()
    with pytest.raises(KeyboardInterrupt):
        sandboxed(tmp_path, {"spawned": True}).start_kernel(writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        assert stream.read().startswith(b"-?die x ")
    os.wait()


@STARTS
def test_a_sandbox_that_cannot_be_confined_is_killed(start: dict[str, bool], tmp_path: Path) -> None:
    before = children()
    started = sandboxed(tmp_path, start)
    started.groups = ControlGroups(2, {"cpu": str(tmp_path / "missing")})
    with pytest.raises(NotStarted, match="No such file"):
        run(started)
    assert children() <= before


def children() -> set[str]:
    """The children of this process, also those that have ended and wait to be noticed."""
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arguments": ["/etc/passwd"]}, "Permission denied"),
        ({"folder": "/there/is/nothing"}, "No such file"),
        ({"arguments": ["true", "\0"]}, "null"),
    ],
)
def test_what_cannot_start_says_why_and_leaves_no_process(changes: dict[str, Any], message: str) -> None:
    before = children()
    with pytest.raises(NotStarted, match=message):
        run(child("true", **changes))
    assert children() <= before


@pytest.mark.parametrize("name", ["PIPE", "HUP", "INT", "QUIT", "TERM", "USR1"])
def test_signals_are_as_a_program_expects_them(name: str) -> None:
    # Python ignores SIGPIPE, and `nohup` or a shell ignore others; a kernel must not inherit that.
    number = signal.Signals[f"SIG{name}"]
    before = signal.signal(number, signal.SIG_IGN)
    try:
        ended, output = run(child("sh", "-c", f"kill -{name} $$; echo still here"))
    finally:
        signal.signal(number, before)
    assert (ended, output) == (-number, b"")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("Name:\tx\nSigIgn:\t0000000000001001\n", {signal.SIGHUP, signal.SIGPIPE}),
        ("", {*range(1, signal.NSIG)} - {signal.SIGKILL, signal.SIGSTOP}),
    ],
)
def test_signals_that_are_ignored_are_reset_and_all_if_the_system_does_not_say(
    status: str, expected: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children_module, "read_text", lambda _path: status)
    assert set(children_module._ignored_signals()) == expected


def test_limits_hold_in_the_program() -> None:
    limits = [[resource.RLIMIT_CORE, 0, 0], [resource.RLIMIT_NOFILE, 100, 100]]
    script = (
        "import resource; print(resource.getrlimit(resource.RLIMIT_CORE), resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    assert run(child(PYTHON, "-c", script, rlimits=limits)) == (0, b"(0, 0) (100, 100)\n")


def test_a_command_uses_the_given_streams() -> None:
    input_reader, input_writer = os.pipe()
    reader, writer = os.pipe()
    pid = child("cat").start_command(["cat"], (input_reader, writer, writer), terminal=False, inside=0)
    for handle in (input_reader, writer):
        os.close(handle)
    os.write(input_writer, b"text")
    os.close(input_writer)
    with os.fdopen(reader, "rb") as stream:
        assert stream.read() == b"text"
    os.waitpid(pid, 0)


def test_a_command_on_a_terminal_has_it_as_its_own() -> None:
    local, terminal_end = os.openpty()
    pid = child("x").start_command(["tty"], (terminal_end,) * 3, terminal=True, inside=0)
    name = os.ttyname(terminal_end).encode()
    os.close(terminal_end)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert os.read(local, 100).strip() == name
    os.close(local)
