"""Starts the container of a kernel: once, or not at all."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sokovan.adapters.docker.confinement import ContainerConfinement
from sokovan.adapters.docker.container_spec import container_body, container_name
from sokovan.adapters.docker.engine.client import (
    CONFLICT,
    NOT_FOUND,
    EngineClient,
    EngineRefusal,
    EngineUnavailable,
    path_of,
)
from sokovan.adapters.docker.engine.images import EngineImages, checked_reference
from sokovan.adapters.docker.kernel_records import KernelRecords
from sokovan.adapters.docker.work_folders import prepared_folders
from sokovan.adapters.process.launch.environment import RUNTIME, marks_of
from sokovan.adapters.process.launch.launch_plan import check_launch, record_of
from sokovan.adapters.process.launch.starter import KernelTombstoned
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
from sokovan.adapters.process.shim.processes import boot_id, look_up
from sokovan.adapters.process.shim.state_files import write_record
from sokovan.domain.ids import KernelId
from sokovan.ports.environment import Clock
from sokovan.ports.runtime import ImageUnavailable, KernelRemains, ProgramNotFound, RuntimeFailure
from sokovan.wire.frames import CreateKernel

PAUSE_S = 0.02
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class ContainerStarter:
    """Starts containers; `hidden` are folders that no container may be given."""

    engine: EngineClient
    layout: KernelLayout
    images: EngineImages
    confinement: ContainerConfinement
    hidden: Sequence[Path]
    clock: Clock

    async def start(self, launch: CreateKernel) -> str:
        """Start a kernel unless it was started already, and return its traces.

        Raises RuntimeFailure, or KernelRemains if something of a failed start still runs.
        """
        check_launch(launch)
        checked_reference(launch.image)
        name = folder_name(KernelId(launch.kernel_id), launch.attempt)
        traces = traces_of(self.layout.root, launch.kernel_id, launch.attempt)
        try:
            lock = await self._locked_folder(launch, name)
            try:
                if KernelRecords(self.layout).state(name) is None:
                    await self._start_locked(launch, name, traces)
            finally:
                os.close(lock)
        except OSError as error:
            raise RuntimeFailure(f"kernel {launch.kernel_id} cannot be started: {error}") from error
        return traces

    async def _locked_folder(self, launch: CreateKernel, name: str) -> int:
        """The lock of the kernel's folder, which is created if missing."""
        while True:
            if self.layout.is_forgotten(name):
                raise KernelTombstoned(
                    f"attempt {launch.attempt} of kernel {launch.kernel_id} ran here and was forgotten"
                )
            try:
                return open_lock(self.layout.kernels / name, wait=False)
            except BlockingIOError:
                await self.clock.sleep(PAUSE_S)
            except FileNotFoundError:
                self._create_folder(launch, name)

    def _create_folder(self, launch: CreateKernel, name: str) -> None:
        """Create the folder with the record of the launch, complete or not at all."""
        record = record_of(launch, self.layout.kernels / name, confinement=self.confinement.in_words(), groups={})
        fresh = self.layout.fresh(name)
        fresh.mkdir(mode=PRIVATE)
        try:
            for below in (WORK, TEMPORARY):
                (fresh / below).mkdir(mode=PRIVATE)
            with opened(fresh) as folder:
                write_record(folder, LAUNCH, {**record, "log_bytes_max": launch.log_bytes_max})
            fresh.rename(self.layout.kernels / name)
        except OSError:
            shutil.rmtree(fresh, ignore_errors=True)
            if not (self.layout.kernels / name).exists():
                raise

    async def _start_locked(self, launch: CreateKernel, name: str, traces: str) -> None:
        try:
            await self._create(launch, name, container_of(traces))
            await self._run(name, container_of(traces))
        except BaseException as problem:
            # Nothing may run after a refusal, and the next attempt starts clean.
            left = await remains_of(self.engine, container_of(traces))
            if left:  # its folder is kept: observations list the kernel until it has ended
                cause = problem.message if isinstance(problem, RuntimeFailure) else str(problem)
                raise KernelRemains(f"{cause}; {left}") from problem
            await asyncio.to_thread(self.layout.discard, name)
            raise

    def _body(self, launch: CreateKernel, name: str) -> dict[str, Any]:
        account = self.confinement.account_of(launch)
        folders = prepared_folders(launch, self.layout, name, hidden=self.hidden, account=account)
        return container_body(
            launch,
            policy=self.confinement.policy,
            folders=folders,
            user=self.confinement.user_of(account),
            runtime=runtime_mark(self.layout.root),
        )

    async def _create(self, launch: CreateKernel, name: str, container: str) -> None:
        image = await self.images.found(launch.image)
        if image is None:
            raise ImageUnavailable(image=launch.image, problem="the container engine does not have it")
        body = await asyncio.to_thread(self._body, launch, name)
        try:
            await self.engine.call("POST", "/containers/create", query={"name": container}, body=body)
        except EngineRefusal as problem:
            if problem.status != CONFLICT:
                raise
            # Of a start that was abandoned before its state was written.
            await self.engine.call("DELETE", path_of("containers", container), query={"force": "1"})
            await self.engine.call("POST", "/containers/create", query={"name": container}, body=body)
        await self._require_program(launch, container, image)

    async def _run(self, name: str, container: str) -> None:
        began_ms = self.clock.now_ms()
        await self.engine.call("POST", path_of("containers", container, "start"))
        about = await self.engine.call("GET", path_of("containers", container, "json"))
        KernelRecords(self.layout).write_state(name, started_state(about, began_ms))

    async def _require_program(self, launch: CreateKernel, container: str, image: Mapping[str, Any]) -> None:
        """Fail early if the program is missing: the init process of a container would only exit."""
        program = launch.command[0]
        if "/" in program and not program.startswith("/"):
            return
        folders = launch.environment.get("PATH") or _image_path(image)
        tried = [program] if program.startswith("/") else [f"{one}/{program}" for one in folders.split(":") if one]
        for path in tried:
            try:
                await self.engine.call("HEAD", path_of("containers", container, "archive"), query={"path": path})
            except EngineRefusal as problem:
                if problem.status == NOT_FOUND:
                    continue
                return  # the engine cannot tell
            else:
                return
        raise ProgramNotFound(f"{program!r} was not found in image {launch.image!r}")


def _image_path(image: Mapping[str, Any]) -> str:
    variables = (image.get("Config") or {}).get("Env") or ()
    found = [str(one).removeprefix("PATH=") for one in variables if str(one).startswith("PATH=")]
    return found[0] if found else _PATH


def started_state(about: Mapping[str, Any], began_ms: int) -> dict[str, Any]:
    """The state of a container that the engine has started."""
    pid = int((about.get("State") or {}).get("Pid") or 0)
    process = look_up(pid) if pid else None
    return {
        "started_ms": began_ms,
        "container": str(about.get("Id")),
        "pid": pid,
        "pid_start": 0 if process is None else process.start,
        "boot": boot_id(),
    }


def runtime_mark(root: Path) -> str:
    """The mark of all containers of one root."""
    return marks_of(KernelId(""), 0, root=root)[RUNTIME]


def traces_of(root: Path, kernel_id: str, attempt: int) -> str:
    """The name of a kernel's container, which identifies it without its files."""
    marks = marks_of(KernelId(kernel_id), attempt, root=root)
    return json.dumps({"container": container_name(marks, kernel_id, attempt)})


def container_of(traces: str) -> str:
    """The name of a container from its traces."""
    return str(json.loads(traces)["container"])


async def remains_of(engine: EngineClient, container: str) -> str:
    """Remove a container by force; an empty text proves that nothing of it runs."""
    try:
        await engine.call("DELETE", path_of("containers", container), query={"force": "1", "v": "1"})
        await engine.call("GET", path_of("containers", container, "json"))
    except EngineRefusal as problem:
        return "" if problem.status == NOT_FOUND else f"container {container} cannot be removed: {problem.problem}"
    except EngineUnavailable as problem:
        return f"container {container} may run: {problem.message}"
    return f"container {container} is still there"
