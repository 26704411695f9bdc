"""Chooses how an agent runs kernels: as processes, or as containers of an engine."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from sokovan.adapters.process.files.disk_usage import DiskUsage
from sokovan.adapters.process.launch.upload_folders import UploadFolders
from sokovan.adapters.process.layout import KernelLayout
from sokovan.adapters.process.runtime import ProcessRuntime
from sokovan.agent.watcher import WatchOptions
from sokovan.domain.cluster.agent import DOCKER_RUNTIME, NO_ACCOUNTS, PROCESS_RUNTIME
from sokovan.ports.environment import Clock
from sokovan.ports.runtime import KernelRuntime


class AgentRuntime(KernelRuntime, Protocol):
    """A runtime with what an agent needs besides its port."""

    async def installed_images(self) -> tuple[str, ...]:
        """The images that kernels can start in at once."""

    def close(self) -> None:
        """Free what it holds; kernels keep running."""


class KernelIsolation(Protocol):
    """The isolation of the kernels of an agent."""

    def in_words(self) -> str:
        """A description for people."""

    def labels(self) -> dict[str, str]:
        """The same as agent labels."""


@dataclass(frozen=True, slots=True)
class RuntimeOptions:
    """Options of a runtime; `root` is the folder of its kernels.

    `engine` is the socket of a container engine, found if empty. `slices` are the names in
    /dev of slices of devices.
    """

    root: Path
    hidden: tuple[Path, ...] = ()
    accounts: range = NO_ACCOUNTS
    runtime: str = PROCESS_RUNTIME
    engine: str = ""
    read_only_root: bool = True
    session_networks: str = ""
    slices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class BuiltRuntime(NamedTuple):
    """A runtime, with its isolation, its observation and its disk limits."""

    runtime: AgentRuntime
    isolation: KernelIsolation
    watch: WatchOptions
    disk: DiskUsage


async def built_runtime(
    options: RuntimeOptions, clock: Clock, uploads: UploadFolders, *, log: Callable[[str], None]
) -> BuiltRuntime:
    """Build the runtime of an agent.

    Raises RuntimeFailure, and EngineUnavailable without an engine.
    """
    if options.runtime == DOCKER_RUNTIME:
        return await _containers(options, clock, uploads, log)
    runtime = ProcessRuntime(options.root, clock, hidden=options.hidden, uploads=uploads)
    runtime.accounts, runtime.slices = options.accounts, options.slices
    watch = WatchOptions(changes=runtime.changes, ended=runtime.ended)
    return BuiltRuntime(runtime, await runtime.confinement(), watch, DiskUsage.of_kernels(options.root, clock, log))


async def _containers(
    options: RuntimeOptions, clock: Clock, uploads: UploadFolders, log: Callable[[str], None]
) -> BuiltRuntime:
    from sokovan.adapters.docker.container_spec import ContainerPolicy  # noqa: PLC0415  # only for containers
    from sokovan.adapters.docker.engine.client import EngineClient  # noqa: PLC0415  # only for containers
    from sokovan.adapters.docker.engine.sockets import engine_socket  # noqa: PLC0415  # only for containers
    from sokovan.adapters.docker.runtime import DockerRuntime  # noqa: PLC0415  # only for containers

    socket = engine_socket(options.engine, os.environ)
    engine = EngineClient(socket)
    # Access to the socket is access to everything on the machine.
    hidden = (*options.hidden, socket)
    policy = ContainerPolicy(read_only_root=options.read_only_root, session_networks=options.session_networks)
    runtime = DockerRuntime(options.root, clock, engine, policy=policy, hidden=hidden, uploads=uploads)
    runtime.accounts = options.accounts
    loop = asyncio.get_running_loop()

    def end(name: str, reason: str) -> None:
        """End a kernel from the thread that measures disk space."""
        asyncio.run_coroutine_threadsafe(runtime.end(name, reason), loop)

    disk = DiskUsage(KernelLayout(options.root.absolute()), clock, end, log)
    return BuiltRuntime(runtime, await runtime.confinement(), WatchOptions(changes=runtime.changes), disk)


def first_commands(runtime: str) -> list[str]:
    """Commands to try first; containers need an image of the catalog."""
    if runtime == DOCKER_RUNTIME:
        return [
            "  sokovan image set python:3.12                 allow an image of the engine or its registry",
            "  sokovan run --image python:3.12 -- python -V  run a command in a container of it",
            "  sokovan ps                                    list sessions",
        ]
    return [
        "  sokovan run -- python -c \"print('hello')\"     run a command",
        "  sokovan shell                                 start an interactive session",
        "  sokovan ps                                    list sessions",
    ]
