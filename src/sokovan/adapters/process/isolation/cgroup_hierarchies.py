"""Detects where control groups can be created on this machine, by trying."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

CONTROLLERS = ("memory", "pids", "cpu")
FREEZER = "freezer"
OWN_FOLDER = "sokovan"
_PROBE_PIDS = "64"
_MKDIR_ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """Parent folders of the kernels' control groups, by controller."""

    version: int = 0
    parents: Mapping[str, Path] = field(default_factory=dict)

    @property
    def controllers(self) -> tuple[str, ...]:
        """The controllers that can be used here."""
        return tuple(name for name in CONTROLLERS if name in self.parents)

    def folders(self, name: str) -> dict[str, str]:
        """The control groups of one kernel, by controller."""
        return {controller: f"{parent}/{OWN_FOLDER}/{name}" for controller, parent in self.parents.items()}

    def make(self, name: str) -> None:
        """Create the control groups of one kernel; raises OSError."""
        for folder in dict.fromkeys(self.folders(name).values()):
            self._make_one(folder)

    def _make_one(self, folder: str) -> None:
        parent = os.path.dirname(folder)  # noqa: PTH120  # for every kernel and controller
        for _ in range(_MKDIR_ATTEMPTS):
            try:
                if self.version == 2:
                    _enable(Path(parent))
                os.mkdir(folder)  # noqa: PTH102  # for every kernel and controller
            except FileExistsError:
                return
            except FileNotFoundError:  # the first kernel, or the last one has just removed the parent folder
                with contextlib.suppress(FileExistsError):
                    os.mkdir(parent)  # noqa: PTH102  # for every kernel and controller
                continue
            return
        raise OSError(errno.ENOENT, f"cannot create {folder}")


def probe_hierarchies() -> Hierarchies:
    """The hierarchies this process can use; version 2 if it has all controllers."""
    mounts, own = _mounts(Path("/proc/self/mountinfo").read_text()), _own(Path("/proc/self/cgroup").read_text())
    unified = _version_2(mounts, own)
    if unified is not None:
        return unified
    parents = {
        name: _inside(mounts[name], own[name]) for name in (*CONTROLLERS, FREEZER) if name in mounts.keys() & own
    }
    usable = {name: folder for name, folder in parents.items() if _can_make(folder)}
    return Hierarchies(1, usable) if usable.keys() - {FREEZER} else Hierarchies()


@dataclass(frozen=True, slots=True)
class MountedHierarchy:
    """A mounted hierarchy: its mount point, and the part of it that is mounted."""

    place: Path
    root: str


def _mounts(mountinfo: str) -> dict[str, MountedHierarchy]:
    """Mounted hierarchies by controller; version 2 under the empty name."""
    found: dict[str, MountedHierarchy] = {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or len(kind) < 3:
            continue
        mounted = MountedHierarchy(Path(fields[4].replace("\\040", " ")), fields[3])
        if kind[0] == "cgroup2":
            found.setdefault("", mounted)
        elif kind[0] == "cgroup":
            for name in kind[2].split(","):
                found.setdefault(name, mounted)
    return found


def _own(text: str) -> dict[str, str]:
    """The control groups of this process; version 2 under the empty name."""
    found = {}
    for line in text.splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            found[name] = path
    return found


def _inside(mounted: MountedHierarchy, own: str) -> Path:
    """The folder of this process; a container mounts only a part of the hierarchy."""
    root = mounted.root.rstrip("/")
    inner = own[len(root) :] if root and (own == root or own.startswith(f"{root}/")) else own
    return mounted.place / inner.strip("/")


def _version_2(mounts: Mapping[str, MountedHierarchy], own: Mapping[str, str]) -> Hierarchies | None:
    if "" not in mounts or "" not in own:
        return None
    parent = _inside(mounts[""], own[""])
    try:
        if not set(CONTROLLERS) <= set((parent / "cgroup.controllers").read_text().split()):
            return None
        _move_to_leaf(parent)
        _enable(parent)
    except OSError:
        return None
    if not _can_make(parent):
        return None
    return Hierarchies(2, dict.fromkeys((*CONTROLLERS, FREEZER), parent))


def _move_to_leaf(parent: Path) -> None:
    """Move a lone agent into a leaf: version 2 allows processes only in leaves."""
    if (parent / "cgroup.procs").read_text().split() == [str(os.getpid())]:
        leaf = parent / "agent"
        leaf.mkdir(exist_ok=True)
        (leaf / "cgroup.procs").write_text(str(os.getpid()))


def _enable(parent: Path) -> None:
    (parent / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in CONTROLLERS))


def _can_make(parent: Path) -> bool:
    """Whether a folder created here is a control group that accepts processes."""
    probe = parent / f"{OWN_FOLDER}-probe-{os.getpid()}"
    try:
        probe.mkdir(exist_ok=True)
    except OSError:
        return False
    try:
        return os.access(probe / "cgroup.procs", os.W_OK)
    finally:
        with contextlib.suppress(OSError):
            probe.rmdir()
