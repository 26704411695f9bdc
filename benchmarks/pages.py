"""How long a page of a list blocks the API's event loop: `python -m benchmarks.pages [CASE...] [--json]`.

The server measures the processor time of every step of its event loop, and of each request the
longest step is printed: for so long no other request was served. Processor time and not the
clock, so that other work of the machine does not count.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
import threading
import time
from asyncio.events import Handle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from benchmarks.command_line import chosen_cases
from benchmarks.embedded_server import Server, server, wait
from benchmarks.latency import client_of, submit
from sokovan.cli.main import run as run_command

SERVE = "serve"
TIMES = 10
# There is no agent, so that the sessions wait.
ONE_CORE = {"cpu": 1, "mem": "1GiB"}


@dataclass(frozen=True, slots=True)
class Case:
    """Sessions of equal size, and the requests that are measured."""

    sessions: int
    kernels: int
    paths: tuple[str, ...] = ("/sessions?limit=500",)


CASES = {
    "singles": Case(500, 1),
    "gangs-64": Case(500, 64),
    "gangs-256": Case(100, 256),
    "gang-10000": Case(1, 10_000, ("/sessions?limit=500", "/sessions/{id}", "/sessions/{id}/kernels?limit=500")),
}


def serve(file: Path, options: list[str]) -> int:
    """Run `sokovan up`; SIGUSR1 writes the longest step of the API's loop, and begins anew."""
    longest = 0
    run_handle = Handle._run
    api = threading.main_thread()

    def measured(handle: Handle) -> None:
        nonlocal longest
        begun = time.thread_time_ns()  # a benchmark reads the clock
        run_handle(handle)
        if threading.current_thread() is api:
            longest = max(longest, time.thread_time_ns() - begun)  # a benchmark reads the clock

    def write(*_: Any) -> None:
        nonlocal longest
        draft = file.with_suffix(".new")
        draft.write_text(str(longest), encoding="ascii")
        draft.replace(file)
        longest = 0

    Handle._run = measured  # type: ignore[method-assign,assignment]  # every step of the loop is one
    signal.signal(signal.SIGUSR1, write)
    return run_command(["up", *options])


async def measure(case: Case) -> list[dict[str, Any]]:
    """The longest steps during each of the case's requests."""
    with tempfile.TemporaryDirectory(prefix="sokovan-pages-") as folder:
        file = Path(folder) / "longest"
        command = (sys.executable, "-m", "benchmarks.pages", SERVE, str(file))
        with server("--no-agent", command=command) as started:
            async with client_of(started) as client:
                return await _measure(started, client, case, file)


async def _measure(started: Server, client: httpx2.AsyncClient, case: Case, file: Path) -> list[dict[str, Any]]:
    policy = {"name": "wide", "kernels_per_session_max": case.kernels, "pending_sessions_max": case.sessions + 1}
    (await client.put("/policies/wide", json=policy)).raise_for_status()
    user = {"name": "admin", "domain": "default", "groups": ["default"], "role": "admin", "policy": "wide"}
    (await client.put("/users/admin", json=user)).raise_for_status()
    options = {"size": case.kernels, "command": ["true"], "resources": ONE_CORE}
    last = [await submit(client, **options) for _ in range(case.sessions)][-1]
    found = []
    for path in case.paths:
        chosen = path.replace("{id}", last)
        (await client.get(chosen)).raise_for_status()
        longest_ns(started, file)
        steps = []
        for _ in range(TIMES):
            (await client.get(chosen)).raise_for_status()
            steps.append(longest_ns(started, file) / 1e6)
        steps.sort()
        found.append({"path": path, "median_ms": round(steps[TIMES // 2], 1), "most_ms": round(steps[-1], 1)})
    return found


def longest_ns(started: Server, file: Path) -> int:
    """The longest step since the last call."""
    file.unlink(missing_ok=True)
    os.kill(started.pid, signal.SIGUSR1)
    while not file.exists():
        wait(0.005)
    return int(file.read_text(encoding="ascii"))


def main() -> int:
    """Run the named cases, or all; or the server that they measure."""
    if sys.argv[1:2] == [SERVE]:
        return serve(Path(sys.argv[2]), sys.argv[3:])
    chosen, as_json = chosen_cases("benchmarks.pages", __doc__, CASES)
    for name in chosen:
        for figures in asyncio.run(measure(CASES[name])):
            row = {"case": name, **figures}
            print(json.dumps(row) if as_json else "  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
