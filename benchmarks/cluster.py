"""A cluster of many agents: `python -m benchmarks.cluster [--agents N] [--sessions N] [--json]`.

Two managers on a PostgreSQL of their own, and agents in one process that joined and are linked
over TLS to both; their kernels are remembered, not run. Sessions are submitted in batches; measured
are placements a second until all run, processor time and memory of the leader while nothing
changes, and the time from kill -9 of the leader to the next placement. All share one machine.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from benchmarks.embedded_server import clock, wait
from benchmarks.failover import HOSTS, LIMIT_S, Manager, free_port, leading, until
from sokovan.testing.servers import PostgresServer, server_or_environment

BATCH = 500
IDLE_S = 10
SESSION = {"command": ["true"], "resources": {"cpu": 0.05, "mem": "32MiB"}}
TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def cluster(root: Path, database: str, agents: int) -> Iterator[tuple[Manager, Manager, Path]]:
    """Two managers, and agents that are linked to both."""
    config = root / "etc" / "sokovan.toml"
    addresses = [f"{host}:{free_port(host)}" for host in HOSTS]
    every = ["--set", f"cluster.managers={','.join(addresses)}"]
    one, two = (
        Manager(root / f"manager{number}", config, ["--listen", address, *every])
        for number, address in enumerate(addresses)
    )
    one.folder.mkdir()
    one.command("server", "init", str(config.parent), "--database", database)
    one.command("server", "migrate", "--config", str(config))
    fleet: subprocess.Popen[bytes] | None = None
    try:
        one.start()
        two.start()
        url, key = one.credentials
        words = [sys.executable, "-m", "benchmarks.joined_agents", str(root / "agents"), str(agents), url, key]
        fleet = subprocess.Popen(words)
        until(lambda: connected(one) == connected(two) == agents, limit_s=LIMIT_S + agents)
        yield one, two, config
    finally:
        if fleet is not None:
            fleet.terminate()
            fleet.wait(timeout=LIMIT_S)
        for manager in (one, two):
            manager.end(signal.SIGTERM)


def connected(manager: Manager) -> int:
    """The agents that are linked to a manager."""
    return sum(manager.request("GET", "/fleet")["connected"])


def submitted(manager: Manager, count: int) -> None:
    """Submit sessions in batches."""
    url, key = manager.credentials
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/x-ndjson"}
    for first in range(0, count, BATCH):
        lines = "\n".join([json.dumps(SESSION)] * min(BATCH, count - first))
        answer = httpx2.post(f"{url}/api/v1/sessions:batch", content=lines, headers=headers, timeout=LIMIT_S)
        if answer.json()["refused"]:
            raise RuntimeError("sessions were refused")


def running(manager: Manager) -> int:
    """The kernels that agents hold."""
    return sum(manager.request("GET", "/fleet")["kernels"])


def processor_s(pid: int) -> float:
    """The processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_mb(pid: int) -> int:
    """The resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) // 1024


def measure(agents: int, sessions: int) -> dict[str, Any]:
    """The figures of one cluster."""
    with (
        server_or_environment(PostgresServer) as postgres,
        tempfile.TemporaryDirectory(prefix="sokovan-bench-") as root,
    ):
        name, begun = f"cluster_{os.getpid()}", clock()
        try:
            with cluster(Path(root), postgres.create_database(name), agents) as (one, two, config):
                figures: dict[str, Any] = {"agents": agents, "joined_and_linked_s": round(clock() - begun, 1)}
                leader = leading((one, two), config)
                other = two if leader is one else one
                begun = clock()
                submitted(other, sessions)
                figures["submitted_per_s"] = round(sessions / (clock() - begun))
                until(lambda: running(other) == sessions, limit_s=LIMIT_S + sessions / 10)
                figures |= {"sessions": sessions, "placed_per_s": round(sessions / (clock() - begun))}
                before = processor_s(leader.pid)
                wait(IDLE_S)
                figures["leader_idle_cpu_percent"] = round((processor_s(leader.pid) - before) / IDLE_S * 100, 1)
                figures["leader_mb"] = memory_mb(leader.pid)
                begun = clock()
                leader.end(signal.SIGKILL)
                figures["failover_s"] = round(other.place() - begun, 2)
                return figures
        finally:
            postgres.drop_database(name)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--sessions", type=int, default=2000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    figures = measure(arguments.agents, arguments.sessions)
    sys.stdout.write(json.dumps(figures, indent=None if arguments.json else 2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
