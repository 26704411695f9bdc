"""A launch becomes what a shim needs to know, or is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.process.images import ProcessImages
from sokovan.adapters.process.isolation.sandbox import Sandbox
from sokovan.adapters.process.launch.launch_plan import check_launch, plan_of
from sokovan.adapters.process.layout import KernelLayout
from sokovan.ports.runtime import ProgramNotFound, RuntimeFailure
from sokovan.wire.frames import CreateKernel, MountEntry
from tests.kernels import launch

MARKS = {"SOKOVAN_KERNEL_ID": "k"}


def plan(tmp_path: Path, asked: CreateKernel, sandbox: Sandbox | None = None) -> dict[str, Any]:
    layout = KernelLayout(tmp_path / "root")
    layout.prepare()
    place = layout.kernels / "k-1"
    (place / "work").mkdir(parents=True)
    images = ProcessImages(layout, SystemClock(), {})
    return plan_of(asked, place, sandbox=sandbox or Sandbox(absence="none"), images=images, marks=MARKS)


def test_without_a_sandbox_a_program_runs_as_it_is(tmp_path: Path) -> None:
    made = plan(tmp_path, launch("k", "sh", "-c", "exit", files={"f": "x"}, mounts=(MountEntry("/usr", "/usr"),)))
    work = tmp_path / "root" / "kernels" / "k-1" / "work"
    assert made["arguments"] == ["sh", "-c", "exit"]
    assert made["sandbox"] is None
    assert made["folder"] == str(work)
    assert made["environment"]["TMPDIR"] == str(work.parent / "tmp")
    assert (work / "f").read_text() == "x"


def test_in_a_sandbox_variables_are_not_among_its_options(tmp_path: Path) -> None:
    asked = launch("k", "sh", "-c", "exit", environment={"TOKEN": "secret"}, mounts=(MountEntry("/usr", "/data"),))
    made = plan(tmp_path, asked, Sandbox("/usr/bin/bwrap"))
    assert made["sandbox"]["program"] == "/usr/bin/bwrap"
    assert "secret" not in str(made["sandbox"])
    assert made["sandbox"]["environment"].keys() == {"PATH", "SOKOVAN_KERNEL_ID"}
    assert made["environment"]["TMPDIR"] == "/tmp"  # noqa: S108  # the sandbox's own


@pytest.mark.parametrize("workdir", ["", "a/b", "/var/lib"])
def test_a_kernel_starts_where_it_asks_to(tmp_path: Path, workdir: str) -> None:
    made = plan(tmp_path, launch("k", "pass", workdir=workdir))
    work = tmp_path / "root" / "kernels" / "k-1" / "work"
    assert made["folder"] == str(work / workdir)


def test_a_missing_program_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(ProgramNotFound, match="was not found"):
        plan(tmp_path, launch("k", "there-is-no-such-program", "x"))


def test_a_program_that_a_mount_may_bring_is_left_to_be_seen(tmp_path: Path) -> None:
    plan(tmp_path, launch("k", "/data/run", "x", mounts=(MountEntry("/usr", "/data"),)), Sandbox("/usr/bin/bwrap"))


@pytest.mark.parametrize(
    "asked",
    [
        launch("", "pass"),
        launch("../k", "pass"),
        launch("k", "pass", attempt=-1),
        launch("k"),
        launch("k", "pass", mounts=(MountEntry("/there/is/nothing", "/data"),)),
    ],
)
def test_what_no_machine_could_start_is_refused(asked: CreateKernel) -> None:
    with pytest.raises(RuntimeFailure):
        check_launch(asked)


def test_only_an_image_may_have_a_command_of_its_own() -> None:
    check_launch(launch("k"), in_image=True)
    with pytest.raises(RuntimeFailure, match="the command is empty"):
        check_launch(launch("k"))
