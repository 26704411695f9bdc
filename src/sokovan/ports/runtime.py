"""What runs kernels on a machine: processes, or containers.

A kernel belongs to the runtime, not to whoever started it: it goes on when the
agent dies, and a new agent finds it again by `observe`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Protocol, Self

from sokovan.domain.errors import SokovanError, quoted
from sokovan.domain.ids import KernelId
from sokovan.wire.frames import CreateKernel

# The reason of a kernel that the machine ended because it needed more memory than it may have.
OUT_OF_MEMORY = "out-of-memory"


class RuntimeFailure(SokovanError):
    """A kernel or its image could not be handled on this machine."""

    code = "runtime-failure"
    hint = "the detail says what the machine refused; mend it there, or let the session try another agent"


class ProgramNotFound(RuntimeFailure):
    """The program of a command is not there, where the command would run."""

    code = "program-not-found"
    hint = "check the command and PATH of the session, or choose an image that has the program"


class ImageUnavailable(RuntimeFailure):
    """An image cannot be had: it is not known here, or its installation failed."""

    code = "image-unavailable"
    hint = "check its name and its list of requirements; docs/howto/images.md tells how images are made"

    def __init__(self, *, image: str, problem: str) -> None:
        self.image, self.problem = image, problem
        super().__init__(f"image {quoted(image)}: {problem}")


class KernelState(StrEnum):
    """Where a kernel is, as the machine sees it."""

    STARTING = auto()
    RUNNING = auto()
    STOPPING = auto()
    EXITED = auto()


@dataclass(frozen=True, slots=True)
class Observation:
    """One kernel as it is now.

    `exit_code` is the process's own, or 128 + the signal that ended it. `confinement`
    says in words what holds it (sandbox, limits), and what does not.
    """

    kernel_id: KernelId
    attempt: int
    state: KernelState
    started_ms: int | None = None
    ended_ms: int | None = None
    exit_code: int | None = None
    reason: str = ""  # "", OUT_OF_MEMORY, "signal 9", "log disk full", ...
    confinement: str = ""


@dataclass(frozen=True, slots=True)
class LogPart:
    """A piece of a kernel's output.

    `offset` counts bytes since the kernel's start; the oldest are dropped first.
    """

    offset: int
    data: bytes
    end: bool = False  # the kernel has ended, and this is all there will be


class KernelRuntime(Protocol):
    """Runs kernels. Every call may be repeated without harm."""

    async def has_image(self, image: str) -> bool:
        """Whether kernels of this image can start at once.

        Raises ImageUnavailable for an image that is not known here.
        """

    async def prepare_image(self, image: str, progress: Callable[[str], None]) -> None:
        """Make an image ready; `progress` gets lines for people. Raises ImageUnavailable."""

    async def create(self, launch: CreateKernel) -> None:
        """Start a kernel, once per (kernel, attempt).

        Raises RuntimeFailure, and then nothing runs. One that was forgotten is refused: it ran already.
        """

    async def stop(self, kernel_id: KernelId, attempt: int, *, grace_s: float) -> None:
        """Ask it to end, and after `grace_s` make it.

        All its processes end, also those that hid. Returns at once; `observe` tells when it
        is over. Unknown kernels are no error.
        """

    async def observe(self) -> Sequence[Observation]:
        """Every kernel of this machine that was not forgotten, by id.

        Also those of an earlier agent. EXITED is a proof: nothing of the kernel runs any more.
        """

    async def forget(self, kernel_id: KernelId, attempt: int) -> None:
        """Remove what is kept of an ended kernel. Does nothing to one that runs."""

    async def read_log(self, kernel_id: KernelId, attempt: int, *, offset: int, limit: int) -> LogPart:
        """Output from `offset` on, at most `limit` bytes.

        An offset that was dropped moves forward. Raises RuntimeFailure for a kernel that is
        not known, or was forgotten.
        """

    def execute(self, kernel_id: KernelId, attempt: int, command: Sequence[str], *, terminal: bool) -> KernelExecution:
        """Run a further command inside a running kernel.

        Raises RuntimeFailure when entered.
        """


class KernelExecution(Protocol):
    """A command that runs inside a kernel; an asynchronous context."""

    async def __aenter__(self) -> Self:
        """Start it."""

    async def __aexit__(self, *details: object) -> None:
        """End it, if it has not ended."""

    async def write(self, data: bytes) -> None:
        """Give it input; no bytes is the end of input."""

    async def resize(self, *, rows: int, columns: int) -> None:
        """Tell its terminal the size of ours."""

    def output(self) -> AsyncIterator[bytes]:
        """What it says, until it ends. One that is not listened to may have to wait."""

    async def wait(self) -> int:
        """Its exit code."""
