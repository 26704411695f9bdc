"""The environment of a kernel: built from an allow-list, never inherited."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from sokovan.adapters.process.isolation.devices import cuda_devices
from sokovan.adapters.process.isolation.system_files import look
from sokovan.adapters.process.shim import notices
from sokovan.domain.errors import quoted
from sokovan.domain.ids import KernelId
from sokovan.ports.runtime import RuntimeFailure
from sokovan.wire.frames import CreateKernel

KERNEL_ID = "SOKOVAN_KERNEL_ID"
SESSION_ID = "SOKOVAN_SESSION_ID"
ATTEMPT = "SOKOVAN_ATTEMPT"
RUNTIME = "SOKOVAN_RUNTIME"
HOSTFILE = "SOKOVAN_HOSTFILE"
OUTPUT = "SOKOVAN_OUTPUT"
# The file that a kernel finds before it is evicted, and the one that it writes after it has saved its work.
NOTICE = "SOKOVAN_NOTICE"
CHECKPOINT = "SOKOVAN_CHECKPOINT"
CUDA_VARIABLE = "CUDA_VISIBLE_DEVICES"

_INHERITED = frozenset({"LANG", "TZ"})
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def marks_of(kernel_id: KernelId, attempt: int, *, root: Path) -> dict[str, str]:
    """Variables that identify the processes of one kernel on the machine.

    Runtimes with different roots may have kernels of the same id.
    """
    digest = hashlib.sha256(os.fsencode(resolved(root))).hexdigest()[:16]
    return {KERNEL_ID: kernel_id, ATTEMPT: str(attempt), RUNTIME: digest}


def resolved(folder: Path) -> Path:
    """A folder of the agent without links in its path, read at most once a second."""
    return _resolved(folder, look())


@lru_cache(maxsize=64)
def _resolved(folder: Path, _number: int) -> Path:
    return Path(os.path.realpath(folder))


def environment_of(
    launch: CreateKernel,
    *,
    home: str,
    temporary: str,
    programs: tuple[str, ...],
    marks: Mapping[str, str],
    output: str = "",
) -> dict[str, str]:
    """The variables of a kernel; raises RuntimeFailure for an invalid one.

    `programs` are folders to prepend to its PATH; `output` is the folder that outlives it.
    """
    variables = {name: value for name, value in os.environ.items() if name in _INHERITED or name.startswith("LC_")}
    variables |= {"HOME": home, "TMPDIR": temporary}
    variables |= _checked(launch.environment)
    if HOSTFILE in variables:
        # Given relative to the work folder; made absolute for programs that change their folder.
        variables[HOSTFILE] = str(Path(home) / variables[HOSTFILE])
    found = launch.environment.get("PATH") or os.environ.get("PATH") or _SYSTEM_PATH
    # The agent's own programs come last: its `python` is used where the machine has none.
    variables["PATH"] = os.pathsep.join((*programs, found, str(Path(sys.executable).parent)))
    variables |= _device_variables(launch)
    files = Path(home) / notices.PARTS[-1]
    variables |= {NOTICE: str(files / notices.NOTICE), CHECKPOINT: str(files / notices.CHECKPOINT)}
    return {**variables, **marks, SESSION_ID: launch.session_id, **({OUTPUT: output} if output else {})}


def _device_variables(launch: CreateKernel) -> dict[str, str]:
    granted = cuda_devices(launch)
    # Without the variable a program would use every device it finds.
    return {CUDA_VARIABLE: ",".join(granted)} if granted or has_cuda_devices() else {}


def has_cuda_devices() -> bool:
    """Whether this machine has accelerators that a kernel could find by itself."""
    names = os.listdir("/dev")  # noqa: PTH208  # for every kernel, and a glob takes ten times as long
    return any(name.startswith("nvidia") and name.removeprefix("nvidia").isdigit() for name in names)


def _checked(variables: Mapping[str, str]) -> dict[str, str]:
    for name, value in variables.items():
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise RuntimeFailure(
                f"variable {quoted(name)} cannot be set: a name has neither = nor NUL, a value no NUL",
                hint="fix the environment of the session",
            )
    return dict(variables)


def check_command(command: tuple[str, ...]) -> None:
    """Raise RuntimeFailure for a command that cannot be executed."""
    if not command or not command[0]:
        raise RuntimeFailure("the command is empty", hint="give a program and its arguments")
    if any("\0" in argument for argument in command):
        raise RuntimeFailure("the command contains a NUL character", hint="fix the command of the session")
