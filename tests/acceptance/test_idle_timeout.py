"""Interactive sessions that nobody uses end after their idle timeout."""

from __future__ import annotations

import subprocess

import pytest

from tests.acceptance.embedded import SOKOVAN, Embedded

SMALL_FLAGS = ("--cpus", "0.2", "--mem", "64MiB")
# Busy, so that it is not idle before a test uses it.
BUSY_UNTIL_VISITED = "import os, time\nwhile not os.path.exists('visited'): pass\ntime.sleep(600)"
BUSY = ("python3", "-c", "while True: pass")


def shell(server: Embedded, name: str, *options: str) -> None:
    """Submit an interactive session by the command line, without waiting for it."""
    given = ("run", "-d", "-n", name, "--type", "interactive", *SMALL_FLAGS, *options)
    submitted = server.cli(*given)
    assert submitted.returncode == 0, submitted.stderr


def test_only_a_session_without_shell_command_and_cpu_use_ends_after_its_idle_timeout(server: Embedded) -> None:
    shell(server, "busy", "--idle-timeout", "3s", "--", *BUSY)
    shell(server, "visited", "--idle-timeout", "3s", "--", "python3", "-c", BUSY_UNTIL_VISITED)
    server.reaches("visited", "running")
    visit = subprocess.Popen(
        [SOKOVAN, "exec", "-i", "visited", "--", "sh", "-c", "touch visited; cat"],
        env=server.environment,
        cwd=server.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert visit.stdin is not None
        assert visit.stdout is not None
        visit.stdin.write(b"here\n")
        visit.stdin.flush()
        assert visit.stdout.readline() == b"here\n"
        shell(server, "left", "--idle-timeout", "3s")
        assert "idle timeout" in server.cli("session", "show", "left").stdout
        ended = server.settles("left")
        assert (ended["reason"], ended["idle_timeout_s"]) == ("idle-timeout", 3)
        assert "IDLE_TIMEOUT" in server.cli("why", "left").stdout
        assert [server.session(name)["status"] for name in ("busy", "visited")] == ["running", "running"]
    finally:
        visit.communicate()
    assert server.settles("visited")["reason"] == "idle-timeout"
    server.end("busy")
    server.settles("busy")


def test_a_scaling_group_sets_the_default_and_the_longest_idle_timeout(server: Embedded) -> None:
    limits = server.cli("scaling-group", "set", "shells", "--idle-timeout", "1h", "--max-idle-timeout", "2h")
    assert limits.returncode == 0, limits.stderr
    wanted = ("--scaling-group", "shells")
    shell(server, "usual", *wanted)
    shell(server, "longest", "--idle-timeout", "2h", *wanted)
    assert [server.session(name)["idle_timeout_s"] for name in ("usual", "longest")] == [3600, 7200]
    refused = server.cli("run", "-d", "--type", "interactive", "--idle-timeout", "3h", *wanted, *SMALL_FLAGS)
    assert refused.returncode == 2
    assert "ends idle sessions after 2h, before the idle timeout of 3h" in refused.stderr
    for name in ("usual", "longest"):
        server.end(name)
    shell(server, "free")
    assert server.session("free")["idle_timeout_s"] is None
    server.end("free")


@pytest.mark.parametrize(
    ("kind", "timeout", "said"),
    [
        ("interactive", "-1", "idle"),
        ("interactive", "0", "idle_timeout"),
        ("interactive", "400d", "idle_timeout"),
        ("interactive", "soon", "idle_timeout"),
        ("batch", "30m", "a session of type batch has no idle timeout"),
    ],
)
def test_a_wrong_idle_timeout_is_refused_and_nothing_is_stored(
    server: Embedded, kind: str, timeout: str, said: str
) -> None:
    before = len(server.sessions())
    refused = server.cli("run", "-d", "--type", kind, f"--idle-timeout={timeout}", "--", "true")
    assert refused.returncode == 2, refused.stderr
    assert said in refused.stderr
    assert len(server.sessions()) == before
