"""The plan of a shim: a validated launch with its files and environment."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from sokovan.adapters.process.images import ProcessImages
from sokovan.adapters.process.isolation.sandbox import Sandbox, folders_of
from sokovan.adapters.process.isolation.system_call_filter import system_call_filter
from sokovan.adapters.process.launch.environment import check_command, environment_of
from sokovan.adapters.process.launch.work_files import (
    check_mounts,
    parts_below,
    require_in_place,
    require_not_hidden,
    require_workdir,
    write_files,
)
from sokovan.adapters.process.layout import TEMPORARY, WORK, KernelLayout
from sokovan.domain.errors import quoted
from sokovan.domain.ids import is_name
from sokovan.ports.runtime import ProgramNotFound, RuntimeFailure
from sokovan.wire.frames import CreateKernel


def check_launch(launch: CreateKernel) -> None:
    """Raise RuntimeFailure for a launch that is invalid on any machine."""
    for name in (launch.kernel_id, launch.session_id):
        if not is_name(name):
            raise RuntimeFailure(f"{quoted(name)} is not a valid id of a kernel or session")
    if launch.attempt < 0:
        raise RuntimeFailure(f"attempt {launch.attempt} of kernel {launch.kernel_id} is negative")
    check_command(launch.command)
    check_mounts(launch.mounts)


def plan_of(
    launch: CreateKernel, place: Path, *, sandbox: Sandbox, images: ProcessImages, marks: Mapping[str, str]
) -> dict[str, Any]:
    """Fill the work folder at `place` and return the plan for the shim.

    Limits and lock are added later. Raises RuntimeFailure.
    """
    work = Path(os.path.realpath(place)) / WORK
    output = str(KernelLayout(work.parents[2]).output_folder(place.name)) if launch.output else ""
    environment = environment_of(
        launch,
        home=str(work),
        temporary="/tmp" if sandbox.program else str(work.parent / TEMPORARY),  # noqa: S108  # private to the sandbox
        programs=images.programs(launch.image),
        marks=marks,
        output=output,
    )
    folder = _folder_of(launch, work)
    write_files(work, launch.files)
    if not sandbox.program:
        require_in_place(launch.mounts)
    require_not_hidden(launch.mounts, sandbox.hidden)
    require_workdir(launch.workdir, sandbox.hidden)
    _check_program(launch, environment, folder)
    shown = [image for image in [images.folder(launch.image)] if image is not None]
    options = sandbox.options(launch, work=work, folder=folder, shown=shown, output=output) if sandbox.program else []
    wrapped = {
        "program": sandbox.program,
        "options": options,
        "folders": folders_of(launch) if sandbox.binds_descriptors else [],
        "environment": {"PATH": os.defpath, **marks},
        "filter": system_call_filter().hex(),
    }
    return {
        "place": str(place),
        "arguments": list(launch.command),
        "environment": environment,
        "folder": folder,
        "sandbox": wrapped if sandbox.program else None,
        "log_bytes_max": launch.log_bytes_max,
    }


def _folder_of(launch: CreateKernel, work: Path) -> str:
    """The working folder: the upload, the work folder, one below it, or an absolute one."""
    if launch.upload:
        return str(KernelLayout(work.parents[2]).upload_folder(launch.session_id))
    if not launch.workdir:
        return str(work)
    if PurePosixPath(launch.workdir).is_absolute():
        return launch.workdir
    folder = work.joinpath(*parts_below(launch.workdir, what="working folder"))
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


def _check_program(launch: CreateKernel, environment: dict[str, str], folder: str) -> None:
    """Fail early if a program is missing; one in a mount is checked when it runs."""
    program = launch.command[0]
    if launch.mounts or ("/" in program and not program.startswith("/")):
        return
    if shutil.which(program, path=environment["PATH"]) is None:
        raise ProgramNotFound(f"{program!r} was not found on this machine, from {folder}")
