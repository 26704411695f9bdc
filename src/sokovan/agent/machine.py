"""Reads the resources of this machine from the operating system.

Inside a container or service, processor affinity and control groups limit what is
available. Files are read below `root`, so that tests can provide their own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

ROOT = Path("/")
MILLICORES = 1000
# No kernel starts with less free disk space than either of these.
DISK_FREE_BYTES = 2 << 30
DISK_FREE_PERCENT = 5

_CGROUPS = "sys/fs/cgroup"


def cpu_millicores(root: Path = ROOT, *, processors: int | None = None) -> int:
    """The usable processors, limited by affinity and control group."""
    usable = (processors or _processors()) * MILLICORES
    quotas = [quota for folder in _group_folders(root, "cpu") if (quota := _cpu_quota(folder))]
    return max(1, min([usable, *quotas]))


def memory_bytes(root: Path = ROOT) -> int:
    """The usable memory: that of the machine, or the limit of the control group."""
    limits = [limit for folder in _group_folders(root, "memory") if (limit := _memory_limit(folder))]
    return min([_machine_memory(root), *limits])


def boot_id(root: Path = ROOT) -> str:
    """An id of the current boot of the machine; empty if the system has none."""
    with suppress(OSError):
        return (root / "proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def disk_obstacle(folder: Path) -> str:
    """The reason why kernels may not start for lack of disk space; empty if they may."""
    try:
        usage = shutil.disk_usage(folder)
    except OSError as problem:
        return f"cannot read the free space of {folder}: {problem.strerror}"
    if usage.free >= DISK_FREE_BYTES and usage.free * 100 >= usage.total * DISK_FREE_PERCENT:
        return ""
    percent = usage.free * 100 // max(1, usage.total)
    return (
        f"the disk of {folder} has {usage.free >> 20} MiB ({percent} %) free; new kernels need"
        f" {DISK_FREE_BYTES >> 30} GiB and {DISK_FREE_PERCENT} %"
    )


def load_figures(folder: Path, root: Path = ROOT) -> dict[str, int]:
    """Load figures of the machine; values that cannot be read are left out."""
    figures: dict[str, int] = {}
    with suppress(OSError):
        figures["load_milli"] = round(os.getloadavg()[0] * 1000)
    memory = _meminfo(root)
    if {"MemTotal", "MemAvailable"} <= memory.keys():
        figures["memory_used_bytes"] = max(0, memory["MemTotal"] - memory["MemAvailable"])
    with suppress(OSError):
        figures["disk_free_bytes"] = shutil.disk_usage(folder).free
    return figures


def _processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # not on every system
        return os.cpu_count() or 1


def _machine_memory(root: Path) -> int:
    return _meminfo(root).get("MemTotal") or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _meminfo(root: Path) -> dict[str, int]:
    amounts: dict[str, int] = {}
    with suppress(OSError):
        for line in (root / "proc/meminfo").read_text().splitlines():
            name, _, rest = line.partition(":")
            fields = rest.split()
            if fields and fields[0].isdigit():
                amounts[name] = int(fields[0]) * (1024 if fields[1:] == ["kB"] else 1)
    return amounts


def _group_folders(root: Path, controller: str) -> Iterator[Path]:
    """The control group of this process and its ancestors: the smallest limit applies."""
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and controller not in controllers.split(","):
                continue
            top = root / _CGROUPS / controller if controllers else root / _CGROUPS
            # In a container the path may not be visible; then the own group is at the top.
            own = top / path.lstrip("/")
            yield from (folder for folder in (own, *own.parents) if folder.is_relative_to(top))


def _cpu_quota(folder: Path) -> int:
    """The quota in millicores; 0 if there is none."""
    fields = _fields(folder / "cpu.max") or [
        *_fields(folder / "cpu.cfs_quota_us"),
        *_fields(folder / "cpu.cfs_period_us"),
    ]
    if len(fields) != 2 or not all(field.isdigit() for field in fields) or int(fields[1]) == 0:  # "max", or -1
        return 0
    return int(fields[0]) * MILLICORES // int(fields[1])


def _memory_limit(folder: Path) -> int:
    """The limit in bytes; 0 if there is none."""
    fields = _fields(folder / "memory.max") or _fields(folder / "memory.limit_in_bytes")
    return int(fields[0]) if len(fields) == 1 and fields[0].isdigit() else 0


def _fields(path: Path) -> list[str]:
    with suppress(OSError):
        return path.read_text().split()
    return []
