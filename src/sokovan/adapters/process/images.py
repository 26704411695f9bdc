"""Images of the process runtime: the machine itself, and virtual environments."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import re
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from sokovan.adapters.process.layout import KernelLayout, remove_tree, sync_folder
from sokovan.domain.cluster.image import HOST_IMAGE
from sokovan.ports.environment import Clock
from sokovan.ports.runtime import ImageUnavailable
from sokovan.wire.frames import IMAGES_MAX

VENV = "venv:"
COMPLETE = ".complete"
TROUBLE_LINES = 15
LINE_BYTES_MAX = 1 << 16
LOCK_PAUSE_S = 0.2
# The program that creates a virtual environment in the folder that it is given.
CREATOR = (sys.executable, "-m", "venv")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
# The installer may use the package indexes and credentials that are configured for the agent.
_INSTALLER_VARIABLES = re.compile(
    r"PATH|HOME|LANG|LC_\w+|TMPDIR|PIP_\w+|UV_\w+|SSL_CERT_\w+|REQUESTS_CA_BUNDLE|NETRC|(HTTPS?|NO|ALL)_PROXY",
    re.ASCII | re.IGNORECASE,
)


class ProcessImages:
    """The images that kernels can run in, and their installation."""

    def __init__(self, layout: KernelLayout, clock: Clock, requirements: Mapping[str, Sequence[str]]) -> None:
        self._layout = layout
        self._clock = clock
        self._requirements = {name: tuple(lines) for name, lines in requirements.items()}

    def is_ready(self, image: str) -> bool:
        """Whether kernels can start now; raises ImageUnavailable if unknown."""
        folder = self.folder(image)
        return folder is None or (folder / COMPLETE).exists()

    def installed(self) -> tuple[str, ...]:
        """The images that kernels can start in at once, at most IMAGES_MAX."""
        names = {*self._requirements, *(file.stem for file in self._layout.images.glob("*.txt"))}
        known = [f"{VENV}{name}" for name in sorted(names) if _NAME.fullmatch(name)]
        return (HOST_IMAGE, *(image for image in known if self._is_installed(image)))[:IMAGES_MAX]

    def _is_installed(self, image: str) -> bool:
        try:
            return self.is_ready(image)
        except ImageUnavailable:  # its list was removed meanwhile
            return False

    def programs(self, image: str) -> tuple[str, ...]:
        """Folders to prepend to the PATH of its kernels; raises ImageUnavailable."""
        folder = self.folder(image)
        if folder is None:
            return ()
        if not (folder / COMPLETE).exists():
            raise ImageUnavailable(image=image, problem="it is not installed on this machine yet")
        return (str(folder / "bin"),)

    def folder(self, image: str) -> Path | None:
        """The installation folder of an image; None for the machine itself.

        The name contains a digest of the requirements: another list is another folder.
        """
        if image == HOST_IMAGE:
            return None
        lines = self._lines(image)
        contents = "\n".join((sys.version, os.path.realpath(sys.executable), *lines))
        digest = hashlib.sha256(contents.encode()).hexdigest()[:16]
        return self._layout.venvs / f"{image.removeprefix(VENV)}-{digest}"

    def _lines(self, image: str) -> tuple[str, ...]:
        name = image.removeprefix(VENV)
        if not image.startswith(VENV) or not _NAME.fullmatch(name):
            raise ImageUnavailable(image=image, problem="processes run in `host` or in `venv:NAME` only")
        if name in self._requirements:
            return self._requirements[name]
        try:
            return tuple((self._layout.images / f"{name}.txt").read_text().splitlines())
        except (OSError, ValueError) as error:
            path = self._layout.images / f"{name}.txt"
            problem = f"it has no list of requirements; write {path} (docs/howto/images.md)"
            raise ImageUnavailable(image=image, problem=problem) from error

    async def prepare(self, image: str, progress: Callable[[str], None]) -> None:
        """Install a virtual environment, or wait for another installation of it.

        It is built in place, since its programs contain their own path, and is complete
        once its marker file exists; a failure leaves nothing. Raises ImageUnavailable.
        """
        folder = self.folder(image)
        if folder is None or await asyncio.to_thread(self.is_ready, image):
            return
        async with self._exclusive(folder, progress) as lock:
            if (folder / COMPLETE).exists():
                return
            await asyncio.to_thread(remove_tree, folder)
            try:
                await self._install(image, folder, progress, lock=lock)
            except BaseException:
                # Not awaited: a cancelled task must clean up before it ends.
                remove_tree(folder)
                raise

    @asynccontextmanager
    async def _exclusive(self, folder: Path, progress: Callable[[str], None]) -> AsyncIterator[int]:
        handle = os.open(folder.parent / f".{folder.name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            is_reported = False
            while not _locked(handle):
                if not is_reported:
                    progress("waiting for another installation of the same image")
                    is_reported = True
                await self._clock.sleep(LOCK_PAUSE_S)
            yield handle
        finally:
            os.close(handle)

    async def _install(self, image: str, folder: Path, progress: Callable[[str], None], *, lock: int) -> None:
        lines = self._lines(image)
        progress("creating a virtual environment")
        await self._run(image, [*CREATOR, str(folder)], progress, lock=lock)
        if lines:
            listed = folder / "requirements.txt"
            listed.write_text("\n".join(lines) + "\n")
            pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
            await self._run(image, [*pip, "-r", str(listed)], progress, lock=lock)
        (folder / COMPLETE).touch()
        await asyncio.to_thread(sync_folder, folder)
        progress("ready")

    async def _run(
        self, image: str, command: Sequence[str], progress: Callable[[str], None], *, lock: int | None = None
    ) -> None:
        """Run an installer, which inherits the lock: it may outlive a killed agent."""
        environment = {name: value for name, value in os.environ.items() if _INSTALLER_VARIABLES.fullmatch(name)}
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environment,
            cwd=self._layout.images,
            limit=LINE_BYTES_MAX,
            start_new_session=True,
            umask=0o022,  # kernels read it under accounts of their own
            pass_fds=() if lock is None else (lock,),
        )
        last: deque[str] = deque(maxlen=TROUBLE_LINES)
        try:
            async for line in _lines_of(process):
                last.append(line)
                progress(line)
            code = await process.wait()
        finally:
            # Child processes of the installer would otherwise keep writing into the removed folder.
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        if code != 0:
            raise ImageUnavailable(image=image, problem="\n".join(("its installation failed", *last)))


async def _lines_of(process: asyncio.subprocess.Process) -> AsyncIterator[str]:
    """The output of a process by line; overlong lines are dropped."""
    if process.stdout is None:
        return
    while True:
        try:
            line = await process.stdout.readline()
        except ValueError:  # longer than the limit
            continue
        if not line:
            return
        yield line.decode(errors="replace").rstrip()


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
