"""The command line of a server in the background, and the end of its output."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sokovan.entrypoints.background.detached import ServerNotStarted, program, start_detached
from sokovan.sdk.environment import SystemEnvironment


def test_it_runs_this_interpreter_without_the_working_directory() -> None:
    assert program(["--port", "0"]) == [sys.executable, "-P", "-m", "sokovan", "up", "--port", "0"]


@pytest.mark.slow
def test_a_server_that_fails_is_an_error_with_what_it_said_this_time(tmp_path: Path) -> None:
    root = tmp_path / "data"
    words = ["--port", "web"]
    for _ in range(2):
        with pytest.raises(ServerNotStarted, match=r"did not start \(exit code 2\)") as caught:
            start_detached(words, root, wait=SystemEnvironment())
        assert caught.value.tail.count("error:") == 1
    assert (root / "logs" / "up.out").stat().st_mode & 0o077 == 0
