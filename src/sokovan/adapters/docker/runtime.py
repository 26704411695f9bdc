"""The Docker runtime: kernels as containers of an engine of this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from sokovan.adapters.docker.confinement import ContainerConfinement, probed
from sokovan.adapters.docker.container_spec import RUNTIME_LABEL, ContainerPolicy
from sokovan.adapters.docker.container_traces import container_of, remains_of, runtime_mark, traces_of
from sokovan.adapters.docker.engine.client import EngineClient
from sokovan.adapters.docker.engine.events import EngineEvents
from sokovan.adapters.docker.engine.images import EngineImages
from sokovan.adapters.docker.starter import ContainerStarter
from sokovan.adapters.docker.streams import ContainerStreams
from sokovan.adapters.process.isolation.accounts import Accounts
from sokovan.adapters.process.launch.upload_folders import UploadFolders
from sokovan.adapters.process.layout import KernelLayout, folder_name
from sokovan.adapters.process.runtime import COLLECT_EVERY_MS, TOMBSTONE_AGE_MS
from sokovan.domain.ids import KernelId
from sokovan.ports.environment import Clock
from sokovan.ports.runtime import LogPart, Observation, RuntimeFailure
from sokovan.wire.frames import CreateKernel


class DockerRuntime(ContainerStreams):
    """KernelRuntime port on containers, one for each attempt of a kernel.

    The files of kernels are below `root`, as those of the process runtime; the engine keeps the
    containers, so that they go on without the agent. `hidden` are folders that no container may
    be given; an agent that is root runs containers under `accounts`, one per user.
    """

    # Numbers of accounts for containers, set before the first use.
    accounts = range(0)

    def __init__(
        self,
        root: Path,
        clock: Clock,
        engine: EngineClient,
        *,
        policy: ContainerPolicy | None = None,
        hidden: Sequence[Path] = (),
        uploads: UploadFolders | None = None,
    ) -> None:
        layout = KernelLayout(root.absolute())
        try:
            layout.prepare()
        except OSError as error:
            raise RuntimeFailure(f"{root} cannot be used for kernels: {error}") from error
        super().__init__(engine, layout, clock)
        self._policy = policy or ContainerPolicy()
        self._networks.pool = self._policy.session_networks
        self._hidden = tuple(folder.resolve() for folder in (root, *hidden))
        self._images = EngineImages(engine, Path.home())
        self._uploads, self._collected_ms = uploads or UploadFolders(layout.root), 0
        self._confinement: ContainerConfinement | None = None
        self._starts: set[asyncio.Task[str]] = set()
        self._events = EngineEvents(engine, f"{RUNTIME_LABEL}={runtime_mark(layout.root)}", clock)

    async def confinement(self) -> ContainerConfinement:
        """The isolation of containers on this machine, asked for once."""
        if self._confinement is None:
            accounts = Accounts(self._layout.root, self.accounts) if self.accounts else None
            self._confinement = await probed(self._engine, self._policy, accounts)
        return self._confinement

    async def has_image(self, image: str) -> bool:
        """Whether the engine has this image."""
        return await self._images.is_ready(image)

    async def installed_images(self) -> tuple[str, ...]:
        """The images that kernels can start in at once."""
        return await self._images.installed()

    async def prepare_image(self, image: str, progress: Callable[[str], None]) -> None:
        """Pull an image unless the engine has it."""
        await self._images.pull(image, progress)

    async def create(self, launch: CreateKernel) -> str:
        """Start a kernel, once per (kernel, attempt), and return its traces."""
        confinement = await self.confinement()
        starter = ContainerStarter(
            self._engine, self._layout, self._images, confinement, self._hidden, self._clock, self._networks
        )
        if launch.upload:
            await self._uploads.prepare(launch.session_id, launch.upload)
        # A start is finished even if the caller is cancelled.
        traces = await asyncio.shield(self._started(starter.start(launch)))
        name = folder_name(KernelId(launch.kernel_id), launch.attempt)
        record, state = self._records.launch(name), self._records.state(name)
        if record is not None and state is not None and "ended_ms" not in state:
            self._copies.follow(name, record, state)
        return traces

    def _started(self, start: Coroutine[Any, Any, str]) -> asyncio.Task[str]:
        task = asyncio.ensure_future(start)
        self._starts.add(task)
        task.add_done_callback(self._starts.discard)
        return task

    async def stop(self, kernel_id: KernelId, attempt: int, *, grace_s: float, notice: str = "") -> None:
        """Stop a kernel with a notice, by force after `grace_s`."""
        await self._stopper.stop(folder_name(kernel_id, attempt), grace_s, notice=notice)

    async def end(self, name: str, reason: str) -> None:
        """End the kernel of a folder at once, for a reason of the agent's own."""
        await self._stopper.stop(name, 0.0, reason=reason)

    async def observe(self) -> Sequence[Observation]:
        """Every kernel of this machine that was not forgotten, by id.

        Raises EngineUnavailable.
        """
        return await self._observer.all()

    async def changes(self) -> None:
        """Return when a container may have ended since the last call."""
        await self._events.next()

    async def forget(self, kernel_id: KernelId, attempt: int) -> None:
        """Remove the container and the files of an ended kernel."""
        name = folder_name(kernel_id, attempt)
        state = self._records.state(name)
        if state is None or "ended_ms" not in state:
            return
        now_ms = self._clock.now_ms()
        self._layout.note_end(name, int(state["ended_ms"]))
        # The tombstone first: after a crash in between, the next observation removes the rest.
        await asyncio.to_thread(self._layout.add_tombstone, name, now_ms)
        if not await remains_of(self._engine, container_of(traces_of(self._layout.root, kernel_id, attempt))):
            await asyncio.to_thread(self._layout.discard, name)
        if now_ms - self._collected_ms > COLLECT_EVERY_MS:
            self._collected_ms = now_ms
            await asyncio.to_thread(self._collect, now_ms)

    def _collect(self, now_ms: int) -> None:
        self._layout.remove_tombstones(now_ms - TOMBSTONE_AGE_MS)
        self._uploads.collect(self._records.sessions(), now_ms)

    async def read_log(self, kernel_id: KernelId, attempt: int, *, offset: int, limit: int) -> LogPart:
        """Output from `offset` on, at most `limit` bytes."""
        name = folder_name(kernel_id, attempt)
        # Read before the log: output in between must not be taken for the end.
        state = self._records.state(name)
        if state is None or self._layout.is_forgotten(name):
            raise RuntimeFailure(f"no kernel is kept in {name}", hint="it never ran here, or was forgotten")
        at, piece, total = await asyncio.to_thread(self._records.log, name, max(0, offset), max(0, limit))
        return LogPart(at, piece, end="ended_ms" in state and at + len(piece) >= total)

    def close(self) -> None:
        """Stop following containers; they keep running."""
        self._copies.close()
        self._stopper.close()
        self._threads.close()
