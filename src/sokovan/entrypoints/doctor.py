"""What this machine has for running kernels, and what it lacks, in words."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.process.isolation.confinement import confinement
from sokovan.agent.inventory import nvidia_devices
from sokovan.entrypoints.embedded.data_folder import data_home, server_of
from sokovan.ports.environment import Clock

PORT = 7646
SPACE_LEAST = 2 << 30
# What a kernel must not have more of than it asked for, or others suffer.
HELD_HARD = frozenset({"memory", "pids"})
# This was written in the first; whoever reads it after the second has other cares.
YEARS = range(2026, 2100)


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One question about this machine; `ok` is None where it is a matter of taste."""

    name: str
    ok: bool | None
    detail: str
    hint: str = ""


def examine(environment: Mapping[str, str] | None = None) -> list[DoctorFinding]:
    """Every question, each answered by trying; nothing is changed."""
    around = os.environ if environment is None else environment
    home = data_home(around)
    questions: list[Callable[[], DoctorFinding]] = [
        _python,
        _sqlite,
        lambda: _clock(SystemClock()),
        _sandbox,
        _limits,
        _devices,
        lambda: _data(home),
        lambda: _space(home),
        lambda: _port(home),
        _docker,
    ]
    return [question() for question in questions]


def _python() -> DoctorFinding:
    version = ".".join(str(part) for part in sys.version_info[:3])
    return DoctorFinding("python", sys.version_info >= (3, 11), version, "install Python 3.11 or newer")


def _sqlite() -> DoctorFinding:
    # Upserts with RETURNING and partial indexes, which the store is built on.
    good = sqlite3.sqlite_version_info >= (3, 35)
    return DoctorFinding("sqlite", good, sqlite3.sqlite_version, "Python needs an SQLite of 3.35 or newer")


def _clock(clock: Clock) -> DoctorFinding:
    """Whether the clock can be right, as far as one can tell without asking others."""
    earlier, now_ms, later = clock.monotonic_ms(), clock.now_ms(), clock.monotonic_ms()
    now = datetime.fromtimestamp(now_ms / 1000, tz=UTC)
    good = now.year in YEARS and later >= earlier
    return DoctorFinding(
        "clock", good, f"{now:%Y-%m-%d %H:%M:%S} UTC", "set the clock: keys, limits and histories go by it"
    )


def _sandbox() -> DoctorFinding:
    words = confinement().sandbox
    present = bool(words.program)
    hint = "install bubblewrap (bwrap); without it a kernel can read whatever your user can"
    return DoctorFinding("sandbox", None if not present else True, words.in_words(), "" if present else hint)


def _limits() -> DoctorFinding:
    from sokovan.adapters.process.isolation.kernel_limits import limits_in_words  # noqa: PLC0415  # beside its one use

    hierarchies = confinement(bubblewrap="").hierarchies
    held = set(hierarchies.controllers) >= HELD_HARD
    hint = "" if held else "delegate a control group with memory and pids to your user for hard limits"
    return DoctorFinding("limits", True if held else None, limits_in_words(hierarchies), hint)


def _devices() -> DoctorFinding:
    devices, labels = nvidia_devices()
    if not devices:
        return DoctorFinding(
            "nvidia", None, "no NVIDIA device, or no driver", "try `--fake-gpus 4` to play with devices"
        )
    return DoctorFinding("nvidia", ok=True, detail=f"{len(devices)} x {labels.get('nvidia.model', 'device')}")


def _data(home: Path) -> DoctorFinding:
    place = next(folder for folder in (home, *home.parents) if folder.exists())
    good = os.access(place, os.W_OK)
    return DoctorFinding("data", good, str(home), f"{place} cannot be written; name another folder with --data")


def _space(home: Path) -> DoctorFinding:
    place = next(folder for folder in (home, *home.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    return DoctorFinding(
        "disk", free >= SPACE_LEAST, f"{free / (1 << 30):.1f} GiB free", "make at least 2 GiB of space"
    )


def _port(home: Path) -> DoctorFinding:
    own = server_of(home)
    if own is not None and str(own.get("url", "")).endswith(f":{PORT}"):
        return DoctorFinding("port", ok=True, detail=f"{PORT} is that of your own server, which is up")
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", PORT))
        except OSError:
            return DoctorFinding("port", None, f"{PORT} is taken", "`sokovan up` takes the next free one, and says so")
    return DoctorFinding("port", ok=True, detail=f"{PORT} is free")


def _docker() -> DoctorFinding:
    there = Path("/var/run/docker.sock").exists()
    return DoctorFinding("docker", None, "its socket is there" if there else "not found: kernels run as processes")
