"""Starts the container of a kernel: once, or not at all."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sokovan.adapters.docker.confinement import ContainerConfinement
from sokovan.adapters.docker.container_spec import container_body
from sokovan.adapters.docker.container_traces import (
    container_of,
    remains_of,
    runtime_mark,
    started_state,
    traces_of,
)
from sokovan.adapters.docker.engine.client import (
    CONFLICT,
    NOT_FOUND,
    EngineClient,
    EngineRefusal,
    path_of,
)
from sokovan.adapters.docker.engine.images import EngineImages, checked_reference, exact_launch
from sokovan.adapters.docker.engine.session_networks import SessionNetwork, SessionNetworks
from sokovan.adapters.docker.kernel_records import KernelRecords
from sokovan.adapters.docker.work_folders import locked_folder, prepared_folders
from sokovan.adapters.process.launch.launch_plan import check_launch
from sokovan.adapters.process.layout import (
    KernelLayout,
    folder_name,
)
from sokovan.domain.ids import KernelId
from sokovan.ports.environment import Clock
from sokovan.ports.runtime import ImageUnavailable, KernelRemains, ProgramNotFound, RuntimeFailure
from sokovan.wire.frames import CreateKernel

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
    networks: SessionNetworks

    async def start(self, launch: CreateKernel) -> str:
        """Start a kernel unless it was started already, and return its traces.

        Raises RuntimeFailure, or KernelRemains if something of a failed start still runs.
        """
        check_launch(launch, in_image=True)
        checked_reference(launch.image)
        name = folder_name(KernelId(launch.kernel_id), launch.attempt)
        traces = traces_of(self.layout.root, launch.kernel_id, launch.attempt)
        try:
            lock = await locked_folder(launch, self.layout, self.clock, confinement=self.confinement.in_words())
            try:
                if KernelRecords(self.layout).state(name) is None:
                    await self._start_locked(launch, name, traces)
            finally:
                os.close(lock)
        except OSError as error:
            raise RuntimeFailure(f"kernel {launch.kernel_id} cannot be started: {error}") from error
        return traces

    async def _start_locked(self, launch: CreateKernel, name: str, traces: str) -> None:
        try:
            async with self.networks.used(launch) as network:
                own = launch if network is None else network.named(launch)
                await self._create(own, name, container_of(traces), network)
                await self._run(name, container_of(traces))
        except BaseException as problem:
            # Nothing may run after a refusal, and the next attempt starts clean.
            left = await remains_of(self.engine, container_of(traces))
            if left:  # its folder is kept: observations list the kernel until it has ended
                cause = problem.message if isinstance(problem, RuntimeFailure) else str(problem)
                raise KernelRemains(f"{cause}; {left}") from problem
            await asyncio.to_thread(self.layout.discard, name)
            raise

    def _body(
        self, launch: CreateKernel, name: str, image: Mapping[str, Any], network: SessionNetwork | None
    ) -> dict[str, Any]:
        account = self.confinement.account_of(launch)
        volumes = tuple((image.get("Config") or {}).get("Volumes") or {})
        folders = prepared_folders(launch, self.layout, name, hidden=self.hidden, account=account, volumes=volumes)
        return container_body(
            launch,
            policy=self.confinement.policy,
            folders=folders,
            user=self.confinement.user_of(account),
            runtime=runtime_mark(self.layout.root),
            network=network,
        )

    async def _create(self, launch: CreateKernel, name: str, container: str, network: SessionNetwork | None) -> None:
        image = await self.images.found(launch.image)
        if image is None:
            raise ImageUnavailable(image=launch.image, problem="the container engine does not have it")
        body = await asyncio.to_thread(self._body, exact_launch(launch, image), name, image, network)
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
        if not launch.command:
            return  # the engine refuses an image without a command of its own
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
                return  # the engine does not know
            else:
                return
        raise ProgramNotFound(f"{program!r} was not found in image {launch.image!r}")


def _image_path(image: Mapping[str, Any]) -> str:
    variables = (image.get("Config") or {}).get("Env") or ()
    found = [str(one).removeprefix("PATH=") for one in variables if str(one).startswith("PATH=")]
    return found[0] if found else _PATH
