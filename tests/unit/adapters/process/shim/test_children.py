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
