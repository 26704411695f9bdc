"""The server of a folder is ended by its pid and start time, and nothing else is."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from sokovan.adapters.process.shim.processes import look_up
from sokovan.entrypoints.background.server_process import StillRunning, stop_server
from sokovan.entrypoints.embedded.data_folder import DataFolder

PATIENT = ("/bin/sh", "-c", "trap '' TERM; echo; while :; do sleep 0.05; done")


def recorded(root: Path, pid: int, *, older: int = 0) -> DataFolder:
    """A folder whose address file names a process; `older` shifts its start time."""
    found = look_up(pid)
    assert found is not None
    folder = DataFolder(root)
    about = {"url": "http://127.0.0.1:7700", "pid": pid, "start": found.start - older}
    folder.write_private("up.json", json.dumps(about))
    return folder


def test_the_recorded_process_is_asked_to_stop(tmp_path: Path) -> None:
    said: list[str] = []
    with subprocess.Popen(["/bin/sleep", "600"]) as process, recorded(tmp_path, process.pid).locked():
        about = stop_server(tmp_path, timeout_s=10, echo=said.append)
    assert about is not None
    assert process.returncode == -15
    assert said == [f"stopping the server at http://127.0.0.1:7700 (pid {process.pid})"]


def test_a_process_that_started_later_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(["/bin/sleep", "600"]) as process:
        with recorded(tmp_path, process.pid, older=1).locked():
            assert stop_server(tmp_path, timeout_s=1, echo=lambda _: None) is None
        assert process.poll() is None
        process.kill()


def test_a_server_that_does_not_end_in_time_is_an_error(tmp_path: Path) -> None:
    said: list[str] = []
    with subprocess.Popen(PATIENT, stdout=subprocess.PIPE) as process, recorded(tmp_path, process.pid).locked():
        assert process.stdout is not None
        process.stdout.readline()  # it ignores the signal from here on
        with pytest.raises(StillRunning, match=r"still runs 0\.1 s after"):
            stop_server(tmp_path, timeout_s=0.1, echo=said.append)
        process.kill()
    assert said[-1].startswith("still stopping")


def test_without_a_server_there_is_nothing_to_stop(tmp_path: Path) -> None:
    assert stop_server(tmp_path, timeout_s=1, echo=lambda _: None) is None
