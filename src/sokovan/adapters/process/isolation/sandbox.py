"""The bubblewrap sandbox, if it is installed and works."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sokovan.domain.ids import KernelId, SessionId
from sokovan.domain.slots import CUDA_SHARES_SLOT, CUDA_SLOT
from sokovan.wire.frames import CreateKernel

# System folders that programs need. Homes, data, sockets and everything else are absent unless mounted.
SYSTEM_FOLDERS = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "opt", "nix", "gnu")
# Readable for root even without capabilities, and therefore hidden.
SECRET_FILES = ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers")
_PROBE_LIMIT_S = 10.0
_CUDA_CONTROL = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")


@dataclass(frozen=True, slots=True)
class Sandbox:
    """How bubblewrap is run on this machine; without a program there is no sandbox."""

    program: str = ""
    absence: str = ""
    hidden: tuple[Path, ...] = ()

    def options(
        self, launch: CreateKernel, *, work: Path, folder: str, shown: Sequence[Path], output: str = ""
    ) -> list[str]:
        """The bubblewrap options of one kernel; `shown` is readable besides the system."""
        # A working directory above a hidden folder is bound first, and the hidden folder hidden in it.
        bound_workdir = ["--bind", launch.workdir, launch.workdir] if launch.workdir.startswith("/") else []
        return [
            *_namespaces(),
            *_system(),
            *(bound_workdir if _is_above(launch.workdir, self.hidden) else []),
            *_shown([Path(sys.base_prefix), Path(sys.prefix), *shown], self.hidden),
            *([] if _is_above(launch.workdir, self.hidden) else bound_workdir),
            *["--bind", str(work), str(work)],
            *(["--bind", folder, folder] if launch.upload else []),
            *(["--bind", output, output] if output else []),
            *_devices(launch),
            *_mounts(launch),
            *[part for place in ("/", *map(str, self.hidden)) for part in ("--remount-ro", place)],
            *["--chdir", folder, "--clearenv"],
        ]

    def in_words(self) -> str:
        """Whether there is a sandbox, and if not, the reason and the consequences."""
        if self.program:
            return "sandbox by bubblewrap, network shared"
        return f"no sandbox: {self.absence}, and folders can be mounted only at their own path"


def probe_sandbox(*, hidden: Sequence[Path], program: str | None = None) -> Sandbox:
    """The sandbox of this machine, probed once; `program` is the one to look for.

    The first of `hidden` is the folder that contains the kernels' folders.
    """
    found = shutil.which(program or "bwrap")
    if found is None:
        return Sandbox(absence="bubblewrap is not installed")
    sandbox = Sandbox(found, hidden=_outermost(hidden))
    try:
        done = _probe(sandbox, next(iter(hidden), None))
    except (OSError, subprocess.TimeoutExpired) as error:
        return Sandbox(absence=f"bubblewrap does not run here ({error})")
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        return Sandbox(absence=f"bubblewrap does not work here ({lines[-1]})")
    return sandbox


def _outermost(folders: Sequence[Path]) -> tuple[Path, ...]:
    """`folders` without those below another one: they are hidden with it.

    A mount inside a hidden folder is covered by it, and can then not be remounted.
    """
    return tuple(folder for folder in dict.fromkeys(folders) if not _is_below(folder.parent, folders))


def _probe(sandbox: Sandbox, kernels: Path | None) -> subprocess.CompletedProcess[bytes]:
    """Run `true` with exactly the options of a kernel, in a work folder below `kernels`.

    Its parent folders may belong to another account.
    """
    command = (shutil.which("true") or "/bin/true",)
    launch = CreateKernel(KernelId("probe"), 0, SessionId("probe"), "host", command)
    with TemporaryDirectory(dir=kernels, prefix=".probe-") as folder:
        work = Path(os.path.realpath(folder))
        options = sandbox.options(launch, work=work, folder=str(work), shown=())
        return subprocess.run(  # noqa: S603  # an argv list, built here
            [sandbox.program, *options, "--", *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_LIMIT_S,
            check=False,
            env={},
        )


def _namespaces() -> list[str]:
    return [
        *["--die-with-parent", "--cap-drop", "ALL"],
        *["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"],
    ]


def _system() -> list[str]:
    options: list[str] = []
    for name in SYSTEM_FOLDERS:
        path = Path("/") / name
        if path.is_symlink():
            options += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            options += ["--ro-bind", str(path), str(path)]
    for secret in SECRET_FILES:
        if Path(secret).exists():
            options += ["--ro-bind", os.devnull, secret]
    # resolv.conf is often a link out of /etc.
    resolver = os.path.realpath("/etc/resolv.conf")
    if not resolver.startswith("/etc/"):
        options += ["--ro-bind-try", resolver, resolver]
    return [*options, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/var/tmp"]  # noqa: S108  # private to the sandbox


def _shown(folders: Sequence[Path], hidden: Sequence[Path]) -> list[str]:
    """Hide first, then show: a shown folder may be inside a hidden one."""
    options: list[str] = []
    for folder in hidden:
        options += ["--tmpfs", str(folder)]
    for folder in dict.fromkeys(Path(os.path.realpath(folder)) for folder in folders):
        is_system = len(folder.parts) > 1 and folder.parts[1] in SYSTEM_FOLDERS
        if folder.is_dir() and len(folder.parts) > 1 and (not is_system or _is_below(folder, hidden)):
            options += ["--ro-bind", str(folder), str(folder)]
    return options


def _is_above(workdir: str, hidden: Sequence[Path]) -> bool:
    return any(Path(os.path.realpath(workdir)) in folder.parents for folder in hidden)


def _is_below(folder: Path, others: Sequence[Path]) -> bool:
    return any(other in (folder, *folder.parents) for other in others)


def cuda_devices(launch: CreateKernel) -> tuple[str, ...]:
    """The NVIDIA devices of a kernel: those it has as a whole, and those it shares."""
    return (*launch.devices.get(CUDA_SLOT, ()), *launch.devices.get(CUDA_SHARES_SLOT, ()))


def _devices(launch: CreateKernel) -> list[str]:
    granted = cuda_devices(launch)
    if not granted:
        return []
    # A device without a number cannot be identified here; then all are visible.
    numbered = all(name.isdigit() for name in granted)
    found = sorted(path.name for path in Path("/dev").glob("nvidia*") if path.name.removeprefix("nvidia").isdigit())
    names = [f"nvidia{name}" for name in granted] if numbered else found
    options = ["--ro-bind", "/sys", "/sys"]  # libraries read the device topology there
    for name in (*names, *_CUDA_CONTROL):
        options += ["--dev-bind-try", f"/dev/{name}", f"/dev/{name}"]
    return options


def _mounts(launch: CreateKernel) -> list[str]:
    options: list[str] = []
    for mount in launch.mounts:
        options += ["--ro-bind" if mount.read_only else "--bind", mount.source, mount.target]
    return options
