"""Joined agents, managers and PostgreSQL together: `python -m benchmarks.cluster [--agents N] [--managers N] [--json]`.

Simulated agents in a process of their own have a link with TLS to each manager. Measured
are the time until all are linked, the processor time of the managers and the duration of
their cycles while nothing changes, without and with `--pending` sessions that no agent
suits, sessions from submission to their end, agents that are still linked after it, and, with
two managers, the time from kill -9 of the leader to the next placement. Each part is written
to the standard error as it ends. Everything runs on one machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.embedded_server import Server, clock, milliseconds, wait
from benchmarks.failover import HOSTS, Manager, free_port, leading, metrics_of, until
from benchmarks.life import BODY, Case, lives, processor_s
from benchmarks.linked_fleet import COUNTED_EVERY_S, COUNTS, FleetPlan
from sokovan.testing.servers import PostgresServer, server_or_environment

IDLE_S = 10
# Sessions that wait are submitted as arrays of this size, and require a label that no agent has.
ARRAY = 1_000
WAITING = {**BODY, "require": {"none": "has"}}
WAITING_LIMIT_S = 600
CALLERS = 32
# The label of sessions that are waited for.
COUNTED = "counted"
LINK_LIMIT_S = 900
# The list of all agents is long: to read it again and again would take the managers' time.
LINK_PROBE_S = 1.0


@contextmanager
def managers(folder: Path, database: str, count: int) -> Iterator[tuple[list[Manager], Path]]:
    """So many managers on a database, and their configuration."""
    config = folder / "etc" / "sokovan.toml"
    addresses = [f"{host}:{free_port(host)}" for host in HOSTS[:count]]
    every = ["--set", f"cluster.managers={','.join(addresses)}"]
    found = [
        Manager(folder / f"manager{number}", config, ["--listen", address, *every])
        for number, address in enumerate(addresses)
    ]
    found[0].folder.mkdir()
    found[0].command("server", "init", str(config.parent), "--database", database)
    found[0].command("server", "migrate", "--config", str(config))
    try:
        for manager in found:
            manager.start()
        yield found, config
    finally:
        for manager in found:
            manager.end(signal.SIGTERM)


@contextmanager
def fleet(manager: Manager, folder: Path, count: int) -> Iterator[None]:
    """The agents, in a process of their own."""
    tokens = [until(lambda: manager.request("POST", "/join-tokens", {"expires_s": 600})) for _ in range(count)]
    plan = FleetPlan(tokens[0]["url"], tokens[0]["authority"], [one["token"] for one in tokens], str(folder))
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.linked_fleet"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        if process.stdin is not None:
            process.stdin.write(json.dumps(asdict(plan)).encode())
            process.stdin.close()
        yield
    finally:
        process.terminate()
        process.wait(timeout=60)


def link_counts(folder: Path) -> dict[str, int]:
    """What became of the dials of the agents, once it is written."""
    wait(2 * COUNTED_EVERY_S)
    counts: dict[str, int] = json.loads((folder / COUNTS).read_bytes())
    return counts


def linked(manager: Manager) -> int:
    """How many agents are alive and linked to a manager."""
    cursor, found = "", 0
    while True:
        page: dict[str, Any] = manager.request("GET", f"/agents?limit=500{cursor}")
        found += sum(1 for one in page["items"] if one["connected"] and one["status"] == "alive")
        if not page["next"]:
            return found
        cursor = f"&cursor={page['next']}"


def all_linked(running: list[Manager], agents: int) -> bool:
    """Whether all agents are linked to all managers; waits a while if not."""
    if all(linked(one) == agents for one in running):
        return True
    wait(LINK_PROBE_S)
    return False


def server_of(manager: Manager) -> Server:
    """A manager, as clients of the benchmarks know servers."""
    url, token = manager.credentials
    return Server(url, token, manager.pid, 0.0, manager.environment)


def noted(figures: dict[str, Any]) -> dict[str, Any]:
    """The same figures, written for whoever waits: a long run may not end."""
    sys.stderr.write(json.dumps(figures) + "\n")
    return figures


def cycles(manager: Manager) -> tuple[float, float]:
    """The seconds and the number of the cycles of sessions of a manager so far."""
    lines = metrics_of(manager)
    found = [
        next((float(line.split()[-1]) for line in lines if line.startswith(name) and '"sessions"' in line), 0.0)
        for name in ("sokovan_cycle_seconds_sum", "sokovan_cycle_seconds_count")
    ]
    return found[0], found[1]


def idle_figures(running: list[Manager]) -> dict[str, Any]:
    """The processor time and the mean cycle of the managers while nothing changes."""
    used, before = [processor_s(one.pid) for one in running], [cycles(one) for one in running]
    wait(IDLE_S)
    took = [processor_s(one.pid) - then for one, then in zip(running, used, strict=True)]
    after = [cycles(one) for one in running]
    spent = [(new[0] - old[0], new[1] - old[1]) for new, old in zip(after, before, strict=True)]
    return {
        "percent": [round(100 * one / IDLE_S, 1) for one in took],
        "cycles": [round(count) for _, count in spent],
        "cycle_ms": [milliseconds(seconds / count) if count else None for seconds, count in spent],
        "memory_mb": [server_of(one).memory_mb() for one in running],
    }


def waiting(running: list[Manager], pending: int) -> dict[str, Any]:
    """Submit sessions that no agent suits; the figures once nothing changes any more."""
    begun = clock()
    body = {**WAITING, "array": f"0-{ARRAY - 1}"}
    for _ in range(-(-pending // ARRAY)):
        until(lambda: running[0].request("POST", "/sessions", body), limit_s=WAITING_LIMIT_S)
    submitted_s = round(clock() - begun, 1)
    wait(IDLE_S)
    return {"pending": pending, "submitted_s": submitted_s} | {
        f"pending_{name}": value for name, value in idle_figures(running).items()
    }


def measure(agents: int, count: int, sessions: int, pending: int) -> dict[str, Any]:
    """All figures of one cluster."""
    with (
        server_or_environment(PostgresServer) as postgres,
        tempfile.TemporaryDirectory(prefix="sokovan-bench-") as root,
    ):
        name = f"cluster_{os.getpid()}"
        try:
            with managers(Path(root), postgres.create_database(name), count) as (running, config):
                begun = clock()
                with fleet(running[0], Path(root) / "fleet", agents):
                    until(lambda: all_linked(running, agents), limit_s=LINK_LIMIT_S)
                    figures = noted({"agents": agents, "managers": count, "linked_s": round(clock() - begun, 1)})
                    figures |= noted({"link_processor_s": [round(processor_s(one.pid), 1) for one in running]})
                    figures |= noted({"link_counts": link_counts(Path(root) / "fleet")})
                    figures |= noted({f"idle_{name}": value for name, value in idle_figures(running).items()})
                    if pending:
                        figures |= noted(waiting(running, pending))
                    return figures | figures_of(running, config, agents, sessions)
        finally:
            postgres.drop_database(name)


def figures_of(running: list[Manager], config: Path, agents: int, sessions: int) -> dict[str, Any]:
    """The figures of a cluster whose agents are linked."""
    before = [processor_s(one.pid) for one in running]
    # Those that wait never end: only sessions with a label are waited for.
    case = Case((), sessions, CALLERS, agents)
    took_s = asyncio.run(lives(server_of(running[0]), case, sessions, label=COUNTED))
    used_s = sum(processor_s(one.pid) for one in running) - sum(before)
    figures = {
        "sessions": sessions,
        "sessions_per_s": round(sessions / took_s, 1),
        "processor_ms_per_session": milliseconds(used_s / sessions),
        "memory_mb": [server_of(one).memory_mb() for one in running],
        "linked_after": [linked(one) for one in running],
    }
    noted(figures)
    if len(running) > 1:
        leader = leading((running[0], running[1]), config)
        other = next(one for one in running if one is not leader)
        begun = clock()
        leader.end(signal.SIGKILL)
        figures["failover_ms"] = milliseconds(other.place() - begun)
    return figures


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--managers", type=int, default=2, choices=(1, 2))
    parser.add_argument("--sessions", type=int, default=1_000)
    parser.add_argument("--pending", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    figures = measure(given.agents, given.managers, given.sessions, given.pending)
    sys.stdout.write(json.dumps(figures, indent=None if given.json else 2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
