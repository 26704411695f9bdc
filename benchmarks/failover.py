"""From kill -9 of the leading manager to the next placement: `python -m benchmarks.failover [--runs N] [--json]`.

Two managers on a PostgreSQL of their own, one joined agent. The leader is killed, a client
submits to the other at once, and waits until that session has left the queue. Then the
killed one is started again.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.command_line import print_runs
from benchmarks.embedded_server import SOKOVAN, clock, spread, wait
from sokovan.entrypoints.cluster.server_check import cluster_state
from sokovan.entrypoints.settings.setting_sources import sources_of
from sokovan.testing.servers import PostgresServer, server_or_environment

T = TypeVar("T")

BODY = {"command": ["true"], "resources": {"cpu": 0.05, "mem": "32MiB"}}
HOSTS = ("127.0.0.2", "127.0.0.3")
PROBE_S = 0.005
LIMIT_S = 60
# With many agents a manager may be busy for minutes.
METRICS_LIMIT_S = 900
BAD_REQUEST = 400


class Manager:
    """One `sokovan server` process, with folders of its own."""

    def __init__(self, folder: Path, config: Path, options: list[str], *, port: int = 0) -> None:
        self.folder, self._config, self._options, self._port = folder, config, options, port
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SOKOVAN_")},
            "HOME": str(folder),
            "XDG_DATA_HOME": f"{folder}/data",
            "XDG_CONFIG_HOME": f"{folder}/config",
        }
        self.data = folder / "data" / "sokovan"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid if self._process else 0

    def start(self) -> None:
        """Start it, and wait until the API answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.data / "up.json").unlink(missing_ok=True)
        self._process = subprocess.Popen(
            [*SOKOVAN, "server", "--port", str(self._port), "--config", str(self._config), *self._options],
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(lambda: self.request("GET", "/agents"))

    def end(self, number: signal.Signals) -> None:
        """Send it a signal, and wait for its end."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(timeout=LIMIT_S)
            self._process = None

    def command(self, *words: str) -> str:
        """The output of a command."""
        done = subprocess.run([*SOKOVAN, *words], env=self.environment, check=True, capture_output=True, text=True)
        return done.stdout

    @property
    def credentials(self) -> tuple[str, str]:
        """The address of the API, and the key of its administrator."""
        about = json.loads((self.data / "up.json").read_text(encoding="utf-8"))
        return about["url"], (self.data / "token").read_text(encoding="ascii").strip()

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """The answer of the API; None if it refuses."""
        url, token = self.credentials
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        port = int(url.rpartition(":")[2])
        with closing(HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)) as connection:
            connection.request(method, f"/api/v1{path}", json.dumps(body) if body else None, headers)
            response = connection.getresponse()
            text = response.read()
        return json.loads(text) if response.status < BAD_REQUEST else None

    def place(self) -> float:
        """The moment at which a new session was placed."""
        session = until(lambda: self.request("POST", "/sessions", BODY))["id"]
        until(lambda: self.request("GET", f"/sessions/{session}")["status"] != "pending")
        return clock()

    def linked(self) -> bool:
        """Whether the agent is linked to this manager."""
        found = self.request("GET", "/agents/bench")
        return bool(found and found["connected"] and found["status"] == "alive")


def metrics_of(manager: Manager) -> list[str]:
    """The lines of the metrics of a manager."""
    url, token = manager.credentials
    with closing(HTTPConnection("127.0.0.1", int(url.rpartition(":")[2]), timeout=METRICS_LIMIT_S)) as connection:
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().read().decode().splitlines()


def until(probe: Callable[[], T | None], *, limit_s: float = LIMIT_S) -> T:
    """Repeat until the result is true."""
    deadline = clock() + limit_s
    while clock() < deadline:
        with suppress(HTTPException, OSError, ValueError):
            if found := probe():
                return found
        wait(PROBE_S)
    raise RuntimeError(f"not within {limit_s:g} s")


@contextmanager
def cluster(folder: Path, database: str) -> Iterator[tuple[Manager, Manager, Path]]:
    """Two managers and an agent that is linked to both."""
    config = folder / "etc" / "sokovan.toml"
    addresses = [f"{host}:{free_port(host)}" for host in HOSTS]
    every = ["--set", f"cluster.managers={','.join(addresses)}"]
    one, two = (
        Manager(folder / f"manager{number}", config, ["--listen", address, *every])
        for number, address in enumerate(addresses)
    )
    one.folder.mkdir()
    one.command("server", "init", str(config.parent), "--database", database)
    one.command("server", "migrate", "--config", str(config))
    agent: subprocess.Popen[bytes] | None = None
    try:
        one.start()
        two.start()
        join = shlex.split(one.command("agent", "token"))[1:]
        agent = subprocess.Popen(
            [*SOKOVAN, *join, "--name", "bench"],
            env={**one.environment, "HOME": str(folder), "XDG_DATA_HOME": str(folder / "agent")},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(lambda: one.linked() and two.linked())
        yield one, two, config
    finally:
        for manager in (one, two):
            manager.end(signal.SIGTERM)
        if agent is not None:
            agent.terminate()
            agent.wait(timeout=LIMIT_S)


def free_port(host: str) -> int:
    """A port that is free now."""
    with socket.create_server((host, 0)) as probe:
        return int(probe.getsockname()[1])


def leading(managers: tuple[Manager, Manager], config: Path) -> Manager:
    """The manager that leads the sessions."""
    leases = cluster_state(sources_of(config, config.parent, environment={}).read()).leases
    holder = next(lease.holder for lease in leases if lease.coordinator == "sessions")
    return next(one for one in managers if f".{one.pid}-" in holder)


def measure(runs: int) -> dict[str, Any]:
    """Kill the leader `runs` times; milliseconds from the kill to the next placement."""
    placed = []
    with (
        server_or_environment(PostgresServer) as postgres,
        tempfile.TemporaryDirectory(prefix="sokovan-bench-") as root,
    ):
        name = f"failover_{os.getpid()}"
        try:
            with cluster(Path(root), postgres.create_database(name)) as (one, two, config):
                for _ in range(runs):
                    one.place()
                    leader = leading((one, two), config)
                    other = two if leader is one else one
                    begun = clock()
                    leader.end(signal.SIGKILL)
                    placed.append(other.place() - begun)
                    leader.start()
                    until(leader.linked)
        finally:
            postgres.drop_database(name)
    return {"runs": runs, **spread(placed)}


def main() -> int:
    """Measure and print."""
    return print_runs(__doc__, measure, default=10)


if __name__ == "__main__":
    sys.exit(main())
