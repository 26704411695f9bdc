"""The environment of a kernel: built from an allow-list, never inherited."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from sokovan.adapters.process.isolation.sandbox import CUDA_SLOT
from sokovan.domain.errors import quoted
from sokovan.domain.ids import KernelId
from sokovan.ports.runtime import RuntimeFailure
from sokovan.wire.frames import CreateKernel

KERNEL_ID = "SOKOVAN_KERNEL_ID"
SESSION_ID = "SOKOVAN_SESSION_ID"
ATTEMPT = "SOKOVAN_ATTEMPT"
RUNTIME = "SOKOVAN_RUNTIME"
HOSTFILE = "SOKOVAN_HOSTFILE"
CUDA_VARIABLE = "CUDA_VISIBLE_DEVICES"

_PASSED_ON = frozenset({"LANG", "TZ"})
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def marks_of(kernel_id: KernelId, attempt: int, *, root: Path) -> dict[str, str]:
    """Variables that tell the processes of one kernel from all others on the machine.

    Two runtimes, each with a root of its own, may well have kernels of the same name.
    """
    digest = hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:16]
    return {KERNEL_ID: kernel_id, ATTEMPT: str(attempt), RUNTIME: digest}


def environment_of(
    launch: CreateKernel, *, home: str, temporary: str, programs: tuple[str, ...], marks: Mapping[str, str]
) -> dict[str, str]:
    """Every variable of a kernel; raises RuntimeFailure for one that cannot be set.

    `programs` are folders that come first on its PATH.
    """
    variables = {name: value for name, value in os.environ.items() if name in _PASSED_ON or name.startswith("LC_")}
    variables |= {"HOME": home, "TMPDIR": temporary}
    variables |= _checked(launch.environment)
    if HOSTFILE in variables:
        # Asked for by where it lies below the work folder; a program that changes its folder must find it too.
        variables[HOSTFILE] = str(Path(home) / variables[HOSTFILE])
    found = launch.environment.get("PATH") or os.environ.get("PATH") or _SYSTEM_PATH
    # The agent's own programs come last: `python` means the agent's where the machine has none.
    variables["PATH"] = os.pathsep.join((*programs, found, str(Path(sys.executable).parent)))
    variables |= _device_variables(launch)
    return {**variables, **marks, SESSION_ID: launch.session_id}


def _device_variables(launch: CreateKernel) -> dict[str, str]:
    granted = launch.devices.get(CUDA_SLOT, ())
    # Without the variable a program takes every device that it finds.
    return {CUDA_VARIABLE: ",".join(granted)} if granted or has_cuda_devices() else {}


def has_cuda_devices() -> bool:
    """Whether this machine has accelerators that a kernel might find by itself."""
    return any(path.name.removeprefix("nvidia").isdigit() for path in Path("/dev").glob("nvidia*"))


def _checked(variables: Mapping[str, str]) -> dict[str, str]:
    for name, value in variables.items():
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise RuntimeFailure(
                f"variable {quoted(name)} cannot be set: a name has neither = nor NUL, a value no NUL",
                hint="mend the environment of the session",
            )
    return dict(variables)


def check_command(command: tuple[str, ...]) -> None:
    """Raise RuntimeFailure for a command that no program can be started with."""
    if not command or not command[0]:
        raise RuntimeFailure("the command is empty", hint="give a program and its arguments")
    if any("\0" in argument for argument in command):
        raise RuntimeFailure("the command has a NUL character in it", hint="mend the command of the session")
