"""A kernel's variables come from an allow-list and its launch, and from nowhere else."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from sokovan.adapters.process.launch import environment
from sokovan.adapters.process.launch.environment import check_command, environment_of, marks_of
from sokovan.domain.ids import KernelId
from sokovan.ports.runtime import RuntimeFailure
from tests.kernels import launch

MARKS = {"SOKOVAN_KERNEL_ID": "k", "SOKOVAN_ATTEMPT": "1", "SOKOVAN_RUNTIME": "r"}


def variables(programs: tuple[str, ...] = (), **changes: Any) -> dict[str, str]:
    return environment_of(launch("k", "pass", **changes), home="/w", temporary="/t", programs=programs, marks=MARKS)


def test_of_the_agent_only_harmless_variables_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LD_PRELOAD", "PYTHONPATH", "AWS_SECRET_ACCESS_KEY", "SOKOVAN_TOKEN", "SHELL"):
        monkeypatch.setenv(name, "agent")
    for name in ("LANG", "LC_ALL", "TZ"):
        monkeypatch.setenv(name, "kept")
    found = variables()
    assert {name for name, value in found.items() if value == "agent"} == set()
    assert [found[name] for name in ("LANG", "LC_ALL", "TZ", "HOME", "TMPDIR")] == ["kept"] * 3 + ["/w", "/t"]


def test_the_launch_has_its_say_but_not_over_what_the_runtime_knows() -> None:
    found = variables(environment={"HOME": "/mine", "LD_LIBRARY_PATH": "/mine", "SOKOVAN_KERNEL_ID": "another"})
    assert (found["HOME"], found["LD_LIBRARY_PATH"]) == ("/mine", "/mine")
    assert (found["SOKOVAN_KERNEL_ID"], found["SOKOVAN_SESSION_ID"]) == ("k", "s")


def test_the_host_file_is_found_from_every_folder() -> None:
    assert variables(environment={"SOKOVAN_HOSTFILE": "hostfile"})["SOKOVAN_HOSTFILE"] == "/w/hostfile"
    assert "SOKOVAN_HOSTFILE" not in variables()


def test_notices_and_checkpoints_have_paths_that_no_launch_changes() -> None:
    found = variables(environment={"SOKOVAN_NOTICE": "/etc/passwd"})
    assert found["SOKOVAN_NOTICE"] == "/w/.sokovan/notice.json"
    assert found["SOKOVAN_CHECKPOINT"] == "/w/.sokovan/checkpoint.json"


def test_programs_of_the_image_come_first_and_those_of_the_agent_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/of/the/agent")
    own = str(Path(sys.executable).parent)
    assert variables(("/image/bin",))["PATH"] == f"/image/bin:/of/the/agent:{own}"
    assert variables(("/image/bin",), environment={"PATH": "/mine"})["PATH"] == f"/image/bin:/mine:{own}"


@pytest.mark.parametrize("bad", [{"": "x"}, {"A=B": "x"}, {"A\0": "x"}, {"A": "x\0"}])
def test_a_variable_that_cannot_be_is_refused(bad: dict[str, str]) -> None:
    with pytest.raises(RuntimeFailure, match="cannot be set"):
        variables(environment=bad)


@pytest.mark.parametrize(
    ("granted", "machine_has_some", "expected"),
    [((), False, None), ((), True, ""), (("0", "3"), True, "0,3"), (("GPU-1",), False, "GPU-1")],
)
def test_a_kernel_sees_the_devices_it_was_granted(
    monkeypatch: pytest.MonkeyPatch, granted: tuple[str, ...], machine_has_some: bool, expected: str | None
) -> None:
    monkeypatch.setattr(environment, "has_cuda_devices", lambda: machine_has_some)
    found = variables(devices={"cuda.device": granted}, environment={"CUDA_VISIBLE_DEVICES": "all"})
    assert found["CUDA_VISIBLE_DEVICES"] == ("all" if expected is None else expected)


def test_runtimes_on_different_roots_mark_their_kernels_differently(tmp_path: Path) -> None:
    marks = [marks_of(KernelId("k"), 1, root=tmp_path / name) for name in ("a", "b", "a/../a")]
    assert marks[0] != marks[1]
    assert marks[0] == marks[2]


@pytest.mark.parametrize("command", [(), ("",), ("a", "b\0")])
def test_a_command_that_cannot_be_is_refused(command: tuple[str, ...]) -> None:
    with pytest.raises(RuntimeFailure):
        check_command(command)


def test_a_shared_device_is_visible_like_a_whole_one() -> None:
    found = variables(devices={"cuda.device": ("0",), "cuda.shares": ("1",)}, environment={})
    assert found["CUDA_VISIBLE_DEVICES"] == "0,1"
