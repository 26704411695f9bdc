"""The plan of a shim: a validated launch with its files and environment."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from sokovan.adapters.process.images import ProcessImages
from sokovan.adapters.process.isolation.accounts import Account, hand_over
from sokovan.adapters.process.isolation.sandbox import Sandbox
from sokovan.adapters.process.launch.environment import check_command, environment_of, resolved
from sokovan.adapters.process.launch.port_probe import require_free_ports
from sokovan.adapters.process.launch.work_files import (
    check_mounts,
    parts_below,
    require_in_place,
    require_not_hidden,
    require_targets,
    require_workdir,
    write_files,
)
from sokovan.adapters.process.layout import PRIVATE, TEMPORARY, WORK, KernelLayout, opened
from sokovan.adapters.process.shim.notices import make_folder
from sokovan.adapters.process.shim.processes import boot_id
from sokovan.domain.errors import quoted
from sokovan.domain.ids import is_name
from sokovan.ports.runtime import ProgramNotFound, RuntimeFailure, SandboxFailed
from sokovan.wire.frames import CreateKernel


def check_launch(launch: CreateKernel, *, in_image: bool = False) -> None:
    """Raise RuntimeFailure for a launch that is invalid on any machine.

    `in_image` is set if an image has a command of its own for one that is empty.
    """
    for name in (launch.kernel_id, launch.session_id):
        if not is_name(name):
            raise RuntimeFailure(f"{quoted(name)} is not a valid id of a kernel or session")
    if launch.attempt < 0:
        raise RuntimeFailure(f"attempt {launch.attempt} of kernel {launch.kernel_id} is negative")
    if launch.command or not in_image:
        check_command(launch.command)
    check_mounts(launch.mounts)


def record_of(launch: CreateKernel, place: Path, *, confinement: str, groups: Mapping[str, Any]) -> dict[str, Any]:
    """The record that identifies a kernel; without variables, which may be secret.

    It names the control groups before they exist, so that none is left by a start that is
    abandoned, and the boot in which the kernel runs. Raises RuntimeFailure.
    """
    return {
        "kernel_id": launch.kernel_id,
        "attempt": launch.attempt,
        "session_id": launch.session_id,
        "image": launch.image,
        "watch_idle": launch.watch_idle,
        "confinement": confinement,
        "groups": dict(groups),
        "folder": folder_of(launch, _work_of(place)),
        "mounts": [[mount.target, mount.source, mount.read_only] for mount in launch.mounts],
        "boot": boot_id(),
    }


def plan_of(
    launch: CreateKernel,
    place: Path,
    *,
    sandbox: Sandbox,
    images: ProcessImages,
    marks: Mapping[str, str],
    account: Account | None = None,
) -> dict[str, Any]:
    """Fill the work folder at `place` and return the plan for the shim.

    Limits and lock are added later. Raises RuntimeFailure.
    """
    work = _work_of(place)
    output = str(KernelLayout(work.parents[2]).output_folder(place.name)) if launch.output else ""
    environment = environment_of(
        launch,
        home=str(work),
        temporary="/tmp" if sandbox.program else str(work.parent / TEMPORARY),  # noqa: S108  # private to the sandbox
        programs=images.programs(launch.image),
        marks=marks,
        output=output,
    )
    folder = folder_of(launch, work)
    if launch.workdir and not launch.upload and not launch.workdir.startswith("/"):
        Path(folder).mkdir(parents=True, exist_ok=True)
    write_files(work, launch.files)
    with opened(work.parent) as inside:
        make_folder(inside)
    if not sandbox.program:
        (work.parent / TEMPORARY).mkdir(mode=PRIVATE, exist_ok=True)
        require_in_place(launch.mounts)
        _require_network(launch)
    require_not_hidden(launch.mounts, sandbox.hidden)
    require_free_ports(launch.ports)
    if sandbox.program:
        require_targets(launch, [work.parents[2], *sandbox.hidden])
    require_workdir(launch.workdir, sandbox.hidden)
    _check_program(launch, environment, folder)
    shown = [image for image in [images.folder(launch.image)] if image is not None]
    if account is not None:
        _hand_over(launch, account.number, place=work.parent, output=output, folder=folder)
    options = (
        sandbox.options(launch, work=work, folder=folder, shown=shown, output=output, has_account=account is not None)
        if sandbox.program
        else []
    )
    return {
        "place": str(place),
        "arguments": list(launch.command),
        "environment": environment,
        "folder": folder,
        "sandbox": sandbox.plan(launch, options, marks) if sandbox.program else None,
        "account": None if account is None else account.plan(),
        "log_bytes_max": launch.log_bytes_max,
    }


def _work_of(place: Path) -> Path:
    """The work folder of a kernel, whose own folder is no link."""
    return resolved(place.parent) / place.name / WORK


def _require_network(launch: CreateKernel) -> None:
    if launch.isolated_network:
        raise SandboxFailed("kernels without a network need a sandbox, and this machine has none")


def _hand_over(launch: CreateKernel, number: int, *, place: Path, output: str, folder: str) -> None:
    """Give an account what its kernel may change: nothing else here is its own."""
    hand_over(place / WORK, number)
    hand_over(place / TEMPORARY, number)
    if output:
        hand_over(Path(output), number)
    if launch.upload:
        hand_over(Path(folder), number)


def folder_of(launch: CreateKernel, work: Path) -> str:
    """The working folder: upload, work folder, one below it, or an absolute one.

    Raises RuntimeFailure.
    """
    if launch.upload:
        return str(KernelLayout(work.parents[2]).upload_folder(launch.session_id))
    if not launch.workdir:
        return str(work)
    if PurePosixPath(launch.workdir).is_absolute():
        return launch.workdir
    return str(work.joinpath(*parts_below(launch.workdir, what="working folder")))


def _check_program(launch: CreateKernel, environment: dict[str, str], folder: str) -> None:
    """Fail early if a program is missing; one in a mount is checked when it runs."""
    program = launch.command[0]
    if launch.mounts or ("/" in program and not program.startswith("/")):
        return
    if shutil.which(program, path=environment["PATH"]) is None:
        raise ProgramNotFound(f"{program!r} was not found on this machine, from {folder}")
