"""Checks whether this machine can run kernels."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sqlite3
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sokovan.adapters.docker.confinement import probed
from sokovan.adapters.docker.container_spec import ContainerPolicy
from sokovan.adapters.docker.engine.client import EngineClient
from sokovan.adapters.docker.engine.sockets import engine_socket
from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.process.isolation.confinement import confinement
from sokovan.agent.devices.detection import nvidia_devices
from sokovan.agent.devices.found_devices import DRIVER_LABEL, MODEL_LABEL
from sokovan.domain.cluster.agent import ACCOUNTS_DEFAULT, read_account_range
from sokovan.entrypoints.embedded.data_folder import data_home, server_of
from sokovan.ports.environment import Clock
from sokovan.ports.runtime import RuntimeFailure
from sokovan.wire.api.system import DEFAULT_PORT

SPACE_LEAST = 2 << 30
# Controllers needed for hard limits.
HARD_LIMITS = frozenset({"memory", "pids"})
# Years in which the clock is plausible.
YEARS = range(2026, 2100)


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """The result of one check; `ok` is None for an optional feature that is missing."""

    name: str
    ok: bool | None
    detail: str
    hint: str = ""


def run_checks(environment: Mapping[str, str] | None = None) -> list[DoctorFinding]:
    """Run all checks; nothing is changed."""
    home = data_home(os.environ if environment is None else environment)
    checks: list[Callable[[], DoctorFinding]] = [
        _python,
        _sqlite,
        lambda: _clock(SystemClock()),
        _sandbox,
        _limits,
        _network,
        _devices,
        lambda: _data(home),
        lambda: _space(home),
        lambda: _port(home),
        lambda: _docker(os.environ if environment is None else environment),
    ]
    return [check() for check in checks]


def _python() -> DoctorFinding:
    version = ".".join(str(part) for part in sys.version_info[:3])
    return DoctorFinding("python", sys.version_info >= (3, 11), version, "install Python 3.11 or newer")


def _sqlite() -> DoctorFinding:
    # The store needs upserts with RETURNING.
    good = sqlite3.sqlite_version_info >= (3, 35)
    return DoctorFinding("sqlite", good, sqlite3.sqlite_version, "use a Python with SQLite 3.35 or newer")


def _clock(clock: Clock) -> DoctorFinding:
    """Check that the clock is plausible, without a time server."""
    earlier, now_ms, later = clock.monotonic_ms(), clock.now_ms(), clock.monotonic_ms()
    now = datetime.fromtimestamp(now_ms / 1000, tz=UTC)
    good = now.year in YEARS and later >= earlier
    return DoctorFinding(
        "clock", good, f"{now:%Y-%m-%d %H:%M:%S} UTC", "set the clock: keys, deadlines and histories depend on it"
    )


def _sandbox() -> DoctorFinding:
    sandbox = confinement(accounts=read_account_range(ACCOUNTS_DEFAULT)).sandbox
    present = bool(sandbox.program)
    hint = "install bubblewrap (bwrap); without it a kernel can read all files that your user can read, keys included"
    return DoctorFinding("sandbox", None if not present else True, sandbox.in_words(), "" if present else hint)


def _limits() -> DoctorFinding:
    from sokovan.adapters.process.isolation.kernel_limits import limits_in_words  # noqa: PLC0415  # used only here

    hierarchies = confinement(bubblewrap="").hierarchies
    held = set(hierarchies.controllers) >= HARD_LIMITS
    hint = "" if held else "delegate a cgroup with the memory and pids controllers to your user for hard limits"
    return DoctorFinding("limits", True if held else None, limits_in_words(hierarchies), hint)


def _network() -> DoctorFinding:
    """Kernels share the network of the machine: no check can say what they must not reach."""
    detail = "kernels reach what this machine reaches: databases, and 169.254.169.254 of a cloud"
    rule = f"iptables -A OUTPUT -m owner --uid-owner {ACCOUNTS_DEFAULT} -d 169.254.169.254 -j REJECT"
    hint = f"deny it to their accounts where an agent runs as root: {rule}; see SECURITY.md"
    return DoctorFinding("network", None, detail, hint)


def _devices() -> DoctorFinding:
    found = nvidia_devices()
    if not found.gpus:
        return DoctorFinding(
            "nvidia", None, "no NVIDIA device, or no driver", "use `--fake-gpus 4` to try devices without hardware"
        )
    model, driver = found.labels.get(MODEL_LABEL, "device"), found.labels.get(DRIVER_LABEL, "unknown")
    detail = f"{len(found.gpus)} x {model}, driver {driver}, found by {found.source}"
    if not found.partitioned:
        return DoctorFinding("nvidia", ok=True, detail=detail)
    detail += f"; {len(found.partitioned)} in MIG mode with {len(found.parents)} slices"
    hint = "" if found.devices else "create slices with nvidia-smi mig -cgi, or disable the mode with nvidia-smi -mig 0"
    return DoctorFinding("nvidia", True if found.devices else None, detail, hint)


def _data(home: Path) -> DoctorFinding:
    place = next(folder for folder in (home, *home.parents) if folder.exists())
    good = os.access(place, os.W_OK)
    return DoctorFinding("data", good, str(home), f"{place} is not writable; choose another folder with --data")


def _space(home: Path) -> DoctorFinding:
    place = next(folder for folder in (home, *home.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    return DoctorFinding(
        "disk", free >= SPACE_LEAST, f"{free / (1 << 30):.1f} GiB free", "free at least 2 GiB of disk space"
    )


def _port(home: Path) -> DoctorFinding:
    own = server_of(home)
    if own is not None and str(own.get("url", "")).endswith(f":{DEFAULT_PORT}"):
        return DoctorFinding("port", ok=True, detail=f"{DEFAULT_PORT} is in use by your own server")
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", DEFAULT_PORT))
        except OSError:
            return DoctorFinding(
                "port", None, f"{DEFAULT_PORT} is in use", "`sokovan up` uses the next free port and prints it"
            )
    return DoctorFinding("port", ok=True, detail=f"{DEFAULT_PORT} is free")


def _docker(environment: Mapping[str, str]) -> DoctorFinding:
    """Ask the container engine what it is; without one, kernels run as processes."""
    try:
        socket_path = engine_socket("", environment)
        found = asyncio.run(probed(EngineClient(socket_path), ContainerPolicy(), None))
    except RuntimeFailure as problem:
        return DoctorFinding("docker", None, f"{problem.message}: kernels run as processes", problem.hint)
    return DoctorFinding("docker", ok=True, detail=f"{found.engine} at {socket_path}; `sokovan up --runtime docker`")
