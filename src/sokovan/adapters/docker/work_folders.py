"""The folders of a kernel, which its container sees at their own paths."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from sokovan.adapters.docker.container_spec import Bind, ContainerFolders
from sokovan.adapters.process.isolation.accounts import hand_over
from sokovan.adapters.process.launch.environment import environment_of, marks_of
from sokovan.adapters.process.launch.launch_plan import folder_of, record_of
from sokovan.adapters.process.launch.output_folders import OutputFolders
from sokovan.adapters.process.launch.port_probe import require_free_ports
from sokovan.adapters.process.launch.starter import KernelTombstoned
from sokovan.adapters.process.launch.work_files import (
    require_not_hidden,
    require_targets,
    require_workdir,
    write_files,
)
from sokovan.adapters.process.layout import (
    LAUNCH,
    PRIVATE,
    TEMPORARY,
    WORK,
    KernelLayout,
    folder_name,
    open_lock,
    opened,
)
from sokovan.adapters.process.shim.notices import make_folder
from sokovan.adapters.process.shim.state_files import write_record
from sokovan.domain.ids import KernelId
from sokovan.ports.environment import Clock
from sokovan.wire.frames import CreateKernel

PAUSE_S = 0.02
IN_CONTAINER = "/tmp"  # noqa: S108  # the path inside a container
# The folders for the volumes that an image declares, below the temporary one.
VOLUMES = ".volumes"


def prepared_folders(
    launch: CreateKernel,
    layout: KernelLayout,
    name: str,
    *,
    hidden: Sequence[Path],
    account: int | None,
    volumes: Sequence[str] = (),
) -> ContainerFolders:
    """Fill the folders of a kernel whose ports are free, and give them to its account.

    `volumes` are paths that its image declares as such. The engine would keep them on its own
    disk, writable and without a limit; they are folders of the kernel instead. Raises RuntimeFailure, OSError.
    """
    require_free_ports(launch.ports)
    place = Path(os.path.realpath(layout.kernels / name))
    work = place / WORK
    OutputFolders(layout).prepare(launch, name)
    output = str(KernelLayout(work.parents[2]).output_folder(name)) if launch.output else ""
    environment = environment_of(
        launch,
        home=str(work),
        temporary=IN_CONTAINER,
        programs=(),
        marks=marks_of(KernelId(launch.kernel_id), launch.attempt, root=layout.root),
        output=output,
    )
    folder = folder_of(launch, work)
    if launch.workdir and not launch.upload and not launch.workdir.startswith("/"):
        Path(folder).mkdir(parents=True, exist_ok=True)
    write_files(work, launch.files)
    with opened(place) as inside:
        make_folder(inside)
    require_not_hidden(launch.mounts, hidden)
    require_targets(launch, [work.parents[2], *hidden])
    require_workdir(launch.workdir, hidden)
    binds = _binds(launch, work, folder, output)
    binds += tuple(_volumes(place / TEMPORARY / VOLUMES, volumes, {bind.target for bind in binds}))
    if account is not None:
        for one in (work, place / TEMPORARY, *([Path(output)] if output else ())):
            hand_over(one, account)
        if launch.upload:
            hand_over(Path(folder), account)
    return ContainerFolders(environment, folder, binds)


def _volumes(inside: Path, volumes: Sequence[str], taken: Collection[str]) -> Iterator[Bind]:
    """An empty folder for each volume that nothing else is mounted on."""
    wanted = sorted({os.path.normpath(volume) for volume in volumes})
    for index, target in enumerate(one for one in wanted if one not in taken):
        (inside / str(index)).mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        yield Bind(str(inside / str(index)), target)


def _binds(launch: CreateKernel, work: Path, folder: str, output: str) -> tuple[Bind, ...]:
    own = [str(work), *([folder] if launch.upload or launch.workdir.startswith("/") else ())]
    own += [output] if output else []
    return (
        *(Bind(path, path) for path in dict.fromkeys(own)),
        Bind(str(work.parent / TEMPORARY), IN_CONTAINER),
        *(Bind(mount.source, mount.target, mount.read_only) for mount in launch.mounts),
    )


async def locked_folder(launch: CreateKernel, layout: KernelLayout, clock: Clock, *, confinement: str) -> int:
    """The lock of a kernel's folder, which is created if missing.

    Raises KernelTombstoned for a kernel that was forgotten, OSError.
    """
    name = folder_name(KernelId(launch.kernel_id), launch.attempt)
    while True:
        if layout.is_forgotten(name):
            raise KernelTombstoned(f"attempt {launch.attempt} of kernel {launch.kernel_id} ran here and was forgotten")
        try:
            return open_lock(layout.kernels / name, wait=False)
        except BlockingIOError:
            await clock.sleep(PAUSE_S)
        except FileNotFoundError:
            _create_folder(launch, layout, name, confinement)


def _create_folder(launch: CreateKernel, layout: KernelLayout, name: str, confinement: str) -> None:
    """Create the folder with the record of the launch, complete or not at all."""
    record = record_of(launch, layout.kernels / name, confinement=confinement, groups={})
    fresh = layout.fresh(name)
    fresh.mkdir(mode=PRIVATE)
    try:
        for below in (WORK, TEMPORARY):
            (fresh / below).mkdir(mode=PRIVATE)
        with opened(fresh) as folder:
            write_record(folder, LAUNCH, {**record, "log_bytes_max": launch.log_bytes_max})
        fresh.rename(layout.kernels / name)
    except OSError:
        shutil.rmtree(fresh, ignore_errors=True)
        if not (layout.kernels / name).exists():
            raise
