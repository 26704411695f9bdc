"""Starts a real `sokovan up` in its own process, for benchmarks."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

READY_LIMIT_S = 120


def clock() -> float:
    """Seconds of a monotonic clock."""
    return time.perf_counter()  # noqa: TID251  # a benchmark reads the clock


def wait(seconds: float) -> None:
    """Sleep."""
    time.sleep(seconds)  # noqa: TID251  # a benchmark waits in real time


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its address, API key, process and start-up time."""

    url: str
    token: str
    pid: int
    ready_s: float
    environment: dict[str, str]

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every request."""
        return {"Authorization": f"Bearer {self.token}"}

    def memory_mb(self) -> int:
        """Resident memory of the server's process, in MB."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) // 1024

    def cpu_s(self) -> float:
        """Processor time of all threads of the server's process, in seconds."""
        spent = 0
        for file in Path(f"/proc/{self.pid}/task").glob("*/schedstat"):
            with suppress(OSError):  # the thread has ended
                spent += int(file.read_text(encoding="ascii").split()[0])
        return spent / 1e9

    def command(self, *arguments: str) -> float:
        """Run a `sokovan` command and return its duration in seconds."""
        begun = clock()
        subprocess.run([*SOKOVAN, *arguments], env=self.environment, check=True, capture_output=True)
        return clock() - begun


SOKOVAN = (str(Path(sys.executable).with_name("sokovan")),)


@contextmanager
def server(*options: str, command: Sequence[str] = (*SOKOVAN, "up")) -> Iterator[Server]:
    """A server in a temporary folder, stopped afterwards."""
    with tempfile.TemporaryDirectory(prefix="sokovan-bench-") as folder:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SOKOVAN_")},
            "HOME": folder,
            "XDG_DATA_HOME": f"{folder}/data",
            "XDG_CONFIG_HOME": f"{folder}/config",
        }
        begun = clock()
        process = subprocess.Popen(
            [*command, "--port", "0", *options],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            status = _wait_until_ready(process, Path(folder) / "data" / "sokovan" / "up.json")
            token = (Path(folder) / "data" / "sokovan" / "token").read_text(encoding="ascii").strip()
            yield Server(status["url"], token, process.pid, clock() - begun, environment)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)


def _wait_until_ready(process: subprocess.Popen[bytes], file: Path) -> dict[str, Any]:
    deadline = clock() + READY_LIMIT_S
    while not file.exists():
        if process.poll() is not None or clock() > deadline:
            raise RuntimeError(f"`sokovan up` ended with {process.returncode} before it was ready")
        wait(0.01)
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def percentile(values: Sequence[float], percent: float) -> float:
    """The percentile of the values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def milliseconds(seconds: float) -> float:
    """Milliseconds, rounded for a table."""
    return round(seconds * 1000, 1)


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """The least, the median and the most, in milliseconds."""
    found = {"least_ms": min(seconds), "median_ms": statistics.median(seconds), "most_ms": max(seconds)}
    return {name: milliseconds(value) for name, value in found.items()}
