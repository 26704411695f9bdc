"""Resource limits of kernels: control groups where available, else rlimits."""

from __future__ import annotations

import contextlib
import os
import resource
from dataclasses import dataclass, field
from pathlib import Path

from sokovan.adapters.process.isolation.cgroup_hierarchies import Hierarchies
from sokovan.adapters.process.shim.control_groups import ControlGroups
from sokovan.adapters.process.shim.processes import MARK_LIMIT, all_processes
from sokovan.ports.runtime import RuntimeFailure
from sokovan.wire.frames import CreateKernel

CPU_PERIOD_US = 100_000
CPU_QUOTA_US_MIN = 1_000
OPEN_FILES_MAX = 65_536
_OPTIONAL = ("memory.swap.max", "memory.memsw.limit_in_bytes", "memory.oom.group")


@dataclass(frozen=True, slots=True)
class KernelLimits:
    """The limits of one kernel, as its shim needs them."""

    version: int = 0
    folders: dict[str, str] = field(default_factory=dict)
    rlimits: tuple[tuple[int, int, int], ...] = ()


def set_limits(
    launch: CreateKernel, hierarchies: Hierarchies, *, name: str, account: int | None = None
) -> KernelLimits:
    """Create the control groups of a kernel with its limits; raises RuntimeFailure.

    `account` is the number under which it runs, if not that of the agent.
    """
    folders = hierarchies.folders(name)
    try:
        hierarchies.make(name)
        for file, text in _settings(launch, hierarchies.version, folders):
            _set(file, text)
    except OSError as error:
        ControlGroups(hierarchies.version, folders).remove()
        raise RuntimeFailure(f"the limits of {launch.kernel_id} cannot be set: {error}") from error
    return KernelLimits(hierarchies.version, folders, rlimits_for(launch, hierarchies, account))


def _settings(launch: CreateKernel, version: int, folders: dict[str, str]) -> list[tuple[str, str]]:
    memory, cpu = launch.slots.get("mem", 0), launch.slots.get("cpu", 0)
    quota = max(CPU_QUOTA_US_MIN, cpu * CPU_PERIOD_US // 1000)
    by_version = {
        1: {
            "memory": [("memory.limit_in_bytes", str(memory)), ("memory.memsw.limit_in_bytes", str(memory))],
            "cpu": [("cpu.cfs_period_us", str(CPU_PERIOD_US)), ("cpu.cfs_quota_us", str(quota))],
        },
        2: {
            "memory": [("memory.max", str(memory)), ("memory.swap.max", "0"), ("memory.oom.group", "1")],
            "cpu": [("cpu.max", f"{quota} {CPU_PERIOD_US}")],
        },
    }
    limits = {"pids": [("pids.max", str(launch.processes_max))]}
    if memory > 0:
        limits["memory"] = by_version.get(version, {}).get("memory", [])
    if cpu > 0:
        limits["cpu"] = by_version.get(version, {}).get("cpu", [])
    return [
        (f"{folders[controller]}/{file}", text)
        for controller, files in limits.items()
        if controller in folders
        for file, text in files
    ]


def _set(file: str, text: str) -> None:
    # Systems without swap accounting lack these files.
    optional = file.endswith(_OPTIONAL)
    with contextlib.suppress(*((OSError,) if optional else ())):
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(handle, text.encode())
        finally:
            os.close(handle)


def rlimits_for(
    launch: CreateKernel, hierarchies: Hierarchies, account: int | None = None
) -> tuple[tuple[int, int, int], ...]:
    """Limits per process: general ones, and those without a control group."""
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_NOFILE: OPEN_FILES_MAX, MARK_LIMIT: 0}
    memory = launch.slots.get("mem", 0)
    if memory > 0 and "memory" not in hierarchies.controllers:
        # Not RLIMIT_AS: accelerator libraries reserve far more address space than they use.
        limits[resource.RLIMIT_DATA] = memory
    number = os.geteuid() if account is None else account
    if "pids" not in hierarchies.controllers and number != 0:
        # It counts the threads of the whole account, and does not apply to root.
        limits[resource.RLIMIT_NPROC] = launch.processes_max + _thread_count(number)
    return tuple((kind, limit, limit) for kind, limit in _capped(limits).items())


def open_files_limit() -> int:
    """The most files that a process of a kernel may have open on this machine."""
    return _capped({resource.RLIMIT_NOFILE: OPEN_FILES_MAX})[resource.RLIMIT_NOFILE]


def _capped(limits: dict[int, int]) -> dict[int, int]:
    hard_limits = {kind: resource.getrlimit(kind)[1] for kind in limits}
    return {
        kind: limit if hard_limits[kind] == resource.RLIM_INFINITY else min(limit, hard_limits[kind])
        for kind, limit in limits.items()
    }


def _thread_count(account: int) -> int:
    found = 0
    for process in all_processes():
        with contextlib.suppress(OSError):
            found += process.threads if Path(f"/proc/{process.pid}").stat().st_uid == account else 0
    return found


def limits_in_words(hierarchies: Hierarchies, *, accounts: bool = False) -> str:
    """A description of what limits a kernel on this machine, and what does not.

    With `accounts`, each user has an account on it.
    """
    held = hierarchies.controllers
    parts = [f"limits by cgroup v{hierarchies.version}: {', '.join(held)}"] if held else ["no cgroup is writable"]
    if "memory" not in held:
        parts.append("memory by rlimit, per process")
    if "pids" not in held:
        is_root = os.geteuid() == 0 and not accounts
        parts.append("processes not limited (the agent is root)" if is_root else "processes by rlimit, per account")
    if "cpu" not in held:
        parts.append("cpu not limited")
    return "; ".join(parts)
