"""The runtime that runs kernels on an agent's machine.

A kernel belongs to the runtime, not to the agent process: it continues when the agent
dies, and a new agent finds it again with `observe`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Protocol, Self

from sokovan.domain.errors import SokovanError, quoted
from sokovan.domain.ids import KernelId
from sokovan.domain.lifecycle.eviction import Checkpoint
from sokovan.wire.frames import CreateKernel

# The reason of a kernel that was killed because it exceeded its memory limit.
OUT_OF_MEMORY = "out-of-memory"
# The agent ended it, because it or its owner has too much on the disk; details follow the code.
DISK_LIMIT = "disk-limit"
# The reason of a kernel whose failure indicates, but does not prove, that its memory limit refused it memory.
PROBABLY_OUT_OF_MEMORY = "probably out-of-memory"
# The exit code of a kernel or command that was ended by SIGKILL.
KILLED = 137


class RuntimeFailure(SokovanError):
    """A kernel or its image could not be handled on this machine."""

    code = "runtime-failure"
    hint = "see the detail; fix the machine, or let the session run on another agent"


class SandboxFailed(RuntimeFailure):
    """The sandbox of a kernel could not be set up on this machine."""

    code = "sandbox-failed"
    hint = "the agent's machine is at fault: run `sokovan doctor` there; the session is tried on another agent"


class ProgramNotFound(RuntimeFailure):
    """The program of a command does not exist in the kernel's environment."""

    code = "program-not-found"
    hint = "check the command and PATH of the session, or choose an image that has the program"


class PathUnavailable(RuntimeFailure):
    """A folder that the session names cannot be used on this machine."""

    code = "path-unavailable"
    hint = "name a folder that every agent has, or bring your files with --upload"


class KernelRemains(SokovanError):
    """A start failed, and processes of it could not be ended."""

    code = "kernel-remains"
    hint = "its slots stay in use until the processes are gone; see the agent's log for their numbers"


class ImageUnavailable(RuntimeFailure):
    """An image is unknown on this machine, or its installation failed."""

    code = "image-unavailable"
    hint = "check its name and its list of requirements; see docs/howto/images.md"

    def __init__(self, *, image: str, problem: str) -> None:
        self.image, self.problem = image, problem
        super().__init__(f"image {quoted(image)}: {problem}")


class KernelState(StrEnum):
    """The state of a kernel on its machine."""

    STARTING = auto()
    RUNNING = auto()
    STOPPING = auto()
    EXITED = auto()


@dataclass(frozen=True, slots=True)
class Observation:
    """The current state of one kernel.

    `exit_code` is that of the process, or 128 + the signal that ended it. `confinement`
    describes the sandbox and limits in effect. `idle_s` is how long no command ran in it
    and it used no CPU; None unless its launch asks for that. `traces` identify its processes
    without its files, for `end_remains`; empty once it has ended. `checkpoint` is the last one
    that the kernel reported.
    """

    kernel_id: KernelId
    attempt: int
    state: KernelState
    started_ms: int | None = None
    ended_ms: int | None = None
    exit_code: int | None = None
    reason: str = ""  # "", OUT_OF_MEMORY, "signal 9", "log disk full", ...
    confinement: str = ""
    idle_s: int | None = None
    traces: str = ""
    checkpoint: Checkpoint | None = None


@dataclass(frozen=True, slots=True)
class LogPart:
    """A part of a kernel's output.

    `offset` counts bytes since the kernel's start; the oldest bytes are dropped first.
    """

    offset: int
    data: bytes
    end: bool = False  # the kernel has ended, and no more output follows


@dataclass(frozen=True, slots=True)
class KernelUse:
    """Measured use of a kernel; None for what cannot be measured here.

    `cpu_ms` is the CPU time of its processes since its start, that of ended ones included.
    `memory_bytes` is what they hold now, without file contents that the system can drop.
    `sampled_ms` is the time of the measurement by the clock of the agent.
    """

    sampled_ms: int
    cpu_ms: int | None = None
    memory_bytes: int | None = None
    processes: int | None = None


class UseRuntime(Protocol):
    """Measures what kernels use."""

    async def measure(self, kernel_id: KernelId, attempt: int) -> KernelUse:
        """Measure a running kernel.

        Raises RuntimeFailure for one that is unknown or has ended.
        """


class RemainsRuntime(Protocol):
    """Ends kernels whose files are gone."""

    async def end_remains(self, kernel_id: KernelId, attempt: int, traces: str) -> str:
        """End a kernel that `observe` does not list any more, by its traces.

        Returns an empty text if nothing of it runs, which is a proof; otherwise what is left.
        """


class KernelStreams(Protocol):
    """Opens commands in kernels, and connections to their ports."""

    def execute(self, kernel_id: KernelId, attempt: int, command: Sequence[str], *, terminal: bool) -> KernelExecution:
        """Run another command inside a running kernel.

        Raises RuntimeFailure on entry.
        """

    def connect(self, kernel_id: KernelId, attempt: int, port: int) -> KernelExecution:
        """Connect to a port of this machine that a running kernel listens on.

        Raises RuntimeFailure on entry, also if something else listens there.
        """


class KernelRuntime(RemainsRuntime, UseRuntime, KernelStreams, Protocol):
    """Runs kernels. Every call is idempotent."""

    async def has_image(self, image: str) -> bool:
        """Whether kernels of this image can start at once.

        Raises ImageUnavailable for an unknown image.
        """

    async def prepare_image(self, image: str, progress: Callable[[str], None]) -> None:
        """Install an image; `progress` receives lines of text. Raises ImageUnavailable."""

    async def create(self, launch: CreateKernel) -> str:
        """Start a kernel, once per (kernel, attempt), and return its traces.

        Raises RuntimeFailure if nothing runs; also for an attempt that was forgotten, which
        has run before. Raises KernelRemains if something of the start cannot be ended.
        """

    async def stop(self, kernel_id: KernelId, attempt: int, *, grace_s: float, notice: str = "") -> None:
        """Stop a kernel: SIGTERM, then SIGKILL after `grace_s`.

        A `notice` is written to a file of the kernel first; then a kernel that reports that it is
        done is killed earlier. Ends all its processes. Returns at once; `observe` shows when it is done. Unknown
        kernels are not an error.
        """

    async def observe(self) -> Sequence[Observation]:
        """Every kernel of this machine that was not forgotten, by id.

        Also those of an earlier agent process. EXITED is a proof: nothing of the kernel
        runs any more.
        """

    async def forget(self, kernel_id: KernelId, attempt: int) -> None:
        """Delete the files of an ended kernel. Does nothing to a running one."""

    async def read_log(self, kernel_id: KernelId, attempt: int, *, offset: int, limit: int) -> LogPart:
        """Output from `offset` on, at most `limit` bytes.

        An offset that was dropped moves forward. Raises RuntimeFailure for an unknown or
        forgotten kernel.
        """


class KernelExecution(Protocol):
    """A command that runs inside a kernel; an asynchronous context manager.

    A connection to a port of the kernel is one, too: its output is what the port sends, and
    its exit code is 0, or 1 if the connection was reset.
    """

    async def __aenter__(self) -> Self:
        """Start the command."""

    async def __aexit__(self, *details: object) -> None:
        """End the command, if it has not ended."""

    async def write(self, data: bytes) -> None:
        """Write input; empty bytes are the end of input."""

    async def resize(self, *, rows: int, columns: int) -> None:
        """Set the size of its terminal."""

    def output(self) -> AsyncIterator[bytes]:
        """Its output, until it ends. Output that is not read blocks the command."""

    async def wait(self) -> int:
        """Wait for its exit code."""
