"""The process runtime: kernels as processes of this machine."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sokovan.adapters.process.exit_watcher import ExitWatcher
from sokovan.adapters.process.images import ProcessImages
from sokovan.adapters.process.isolation.confinement import BUBBLEWRAP, Confinement, confinement
from sokovan.adapters.process.launch.starter import Starter
from sokovan.adapters.process.launch.upload_folders import UploadFolders
from sokovan.adapters.process.layout import KernelLayout, folder_name, opened
from sokovan.adapters.process.observer import Observer
from sokovan.adapters.process.ports.port_connection import ProcessStreams
from sokovan.adapters.process.shim.log_ring import read_from
from sokovan.adapters.process.shim.main import LOG
from sokovan.adapters.process.stopper import RemainsEnder, Stopper
from sokovan.adapters.process.threads import Work
from sokovan.domain.ids import KernelId
from sokovan.ports.environment import Clock
from sokovan.ports.runtime import KernelState, LogPart, Observation, RuntimeFailure
from sokovan.wire.frames import CreateKernel

TOMBSTONE_AGE_MS = 7 * 24 * 3600 * 1000
COLLECT_EVERY_MS = 60 * 1000


class ProcessRuntime(RemainsEnder, ProcessStreams):
    """KernelRuntime port on processes, each kernel under its own shim.

    All state is below `root`; several runtimes on one root share the same kernels.
    `requirements` are those of `venv:` images by name, besides the lists in `root/images`;
    `uploads` fetches the uploads of sessions;
    `hidden` are folders that sandboxed kernels cannot see; an empty `bubblewrap` disables
    the sandbox. An agent that is root runs kernels under `accounts`, one per user.
    """

    # Numbers of accounts for kernels, set before the first use.
    accounts = range(0)
    # The names in /dev of slices of devices, set before the first use.
    slices: Mapping[str, tuple[str, ...]] = {}

    def __init__(
        self,
        root: Path,
        clock: Clock,
        *,
        requirements: Mapping[str, Sequence[str]] | None = None,
        hidden: Sequence[Path] = (),
        bubblewrap: str = BUBBLEWRAP,
        uploads: UploadFolders | None = None,
    ) -> None:
        if not sys.platform.startswith("linux"):
            raise RuntimeFailure("kernels run as processes on Linux only", hint="run the agent on Linux")
        super().__init__(root.absolute())
        self._layout = KernelLayout(root.absolute())
        try:
            self._layout.prepare()
        except OSError as error:
            raise RuntimeFailure(f"{root} cannot be used for kernels: {error}") from error
        self._clock = clock
        self._images = ProcessImages(self._layout, clock, requirements or {})
        self._observer = Observer.measuring(self._layout, clock)
        self._stopper = Stopper(self._layout, self._observer)
        self._ends = ExitWatcher(self._observer.shim)
        self._hidden = tuple(folder.resolve() for folder in (root, *hidden))
        self._bubblewrap = bubblewrap
        self._uploads, self._collected_ms = uploads or UploadFolders(self._layout.root), 0
        self._confinement: Confinement | None = None

    async def confinement(self) -> Confinement:
        """The isolation of kernels on this machine, probed once."""
        if self._confinement is None:
            self._confinement = await self._threads.run(
                Work.START,
                confinement,
                hidden=self._hidden,
                bubblewrap=self._bubblewrap,
                accounts=self.accounts,
                root=self._layout.root,
                slices=self.slices,
            )
        return self._confinement

    async def has_image(self, image: str) -> bool:
        """Whether kernels of this image can start at once."""
        return await self._threads.run(Work.LOOK, self._images.is_ready, image)

    async def installed_images(self) -> tuple[str, ...]:
        """The images that kernels can start in at once."""
        return await self._threads.run(Work.LOOK, self._images.installed)

    async def prepare_image(self, image: str, progress: Callable[[str], None]) -> None:
        """Prepare an image; `progress` takes lines for the operator."""
        await self._images.prepare(image, progress)

    async def create(self, launch: CreateKernel) -> str:
        """Start a kernel, once per (kernel, attempt), and return its traces."""
        starter = Starter(self._layout, self._images, await self.confinement())
        if launch.upload:
            await self._uploads.prepare(launch.session_id, launch.upload)
        # The thread finishes the start even if the caller is cancelled.
        traces = await self._threads.run(Work.START, starter.start, launch)
        self._ends.follow_started(folder_name(KernelId(launch.kernel_id), launch.attempt), traces)
        return traces

    async def stop(self, kernel_id: KernelId, attempt: int, *, grace_s: float, notice: str = "") -> None:
        """Stop a kernel with a notice, by force after `grace_s`."""
        name = folder_name(kernel_id, attempt)
        await self._threads.run(Work.END, self._stopper.stop, name, grace_s, notice=notice)

    async def observe(self) -> Sequence[Observation]:
        """Every kernel of this machine that was not forgotten, by id."""
        followed = self._ends.followed()
        self._ends.taken()  # the listing shows these ends
        found = await self._threads.run(Work.LOOK, self._observer.all)
        running = (one for one in found if one.state in {KernelState.RUNNING, KernelState.STOPPING})
        self._ends.follow([folder_name(one.kernel_id, one.attempt) for one in running], before=followed)
        return found

    async def ended(self) -> Sequence[Observation]:
        """The kernels whose ends `changes` has signalled since the last observation."""
        names = self._ends.taken()
        return await self._threads.run(Work.LOOK, self._observer.some, names) if names else []

    async def changes(self) -> None:
        """Return when an observed kernel has ended since the last call."""
        await self._ends.next()

    async def forget(self, kernel_id: KernelId, attempt: int) -> None:
        """Remove what is kept of an ended kernel."""
        await self._threads.run(Work.END, self._forget, folder_name(kernel_id, attempt))

    def _forget(self, name: str) -> None:
        found = next(iter(self._observer.some([name])), None)
        if found is None or found.state is not KernelState.EXITED:
            return
        now_ms = self._clock.now_ms()
        self._layout.note_end(name, found.ended_ms or now_ms)
        # The tombstone first: after a crash in between, the next observation removes the folder.
        self._layout.add_tombstone(name, now_ms)
        self._observer.remove(name)
        if now_ms - self._collected_ms > COLLECT_EVERY_MS:
            self._collected_ms = now_ms
            self._layout.remove_tombstones(now_ms - TOMBSTONE_AGE_MS)
            self._uploads.collect(self._observer.sessions(), now_ms)

    async def read_log(self, kernel_id: KernelId, attempt: int, *, offset: int, limit: int) -> LogPart:
        """Output from `offset` on, at most `limit` bytes."""
        return await self._threads.run(Work.LOOK, self._read_log, folder_name(kernel_id, attempt), offset, limit)

    def _read_log(self, name: str, offset: int, limit: int) -> LogPart:
        # Observed before reading: output in between must not be taken for the end.
        found = self._observer.one(name)
        if found is None:
            raise RuntimeFailure(f"no kernel is kept in {name}", hint="it never ran here, or was forgotten")
        ended = found.state is KernelState.EXITED
        at, piece, total = max(0, offset), b"", 0
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            opened(self._layout.kernels / name / LOG) as log,
        ):
            at, piece, total = read_from(log, max(0, offset), max(0, limit))
        return LogPart(at, piece, end=ended and at + len(piece) >= total)

    def close(self) -> None:
        """Stop the threads; kernels keep running."""
        self._threads.close()
        if self._confinement is not None and self._confinement.accounts is not None:
            self._confinement.accounts.close()
