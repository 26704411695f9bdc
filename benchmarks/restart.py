"""From kill -9 of `sokovan up` to the next placement: `python -m benchmarks.restart [--runs N] [--json]`.

A server with its agent is killed and started again on the same folder. A client submits
as soon as the API accepts a session, and waits until that session has left the queue.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from benchmarks.command_line import print_runs
from benchmarks.embedded_server import SOKOVAN, clock, spread, wait

BODY = {"command": ["true"], "resources": {"cpu": 0.05, "mem": "32MiB"}}
PROBE_S = 0.005
LIMIT_S = 60
BAD_REQUEST = 400
NOT_UP = (HTTPException, OSError)


class KilledServer:
    """A server on one folder and port, which is killed and started again."""

    def __init__(self, folder: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self._port = probe.getsockname()[1]
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SOKOVAN_")},
            "HOME": folder,
            "XDG_DATA_HOME": f"{folder}/data",
            "XDG_CONFIG_HOME": f"{folder}/config",
        }
        self._token_file = f"{folder}/data/sokovan/token"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server without waiting for it."""
        self._process = subprocess.Popen(
            [*SOKOVAN, "up", "--port", str(self._port)],
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def end(self, number: signal.Signals) -> None:
        """Send the server a signal, and wait for its end."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(timeout=LIMIT_S)

    def place(self) -> tuple[float, float]:
        """The moments at which a session was accepted, and at which it was placed."""
        session = self._until(self._submit)
        accepted = clock()
        self._until(lambda: self._status(session) not in {None, "pending"})
        return accepted, clock()

    def _until(self, probe: Any) -> Any:
        deadline = clock() + LIMIT_S
        while clock() < deadline:
            with suppress(*NOT_UP):
                if found := probe():
                    return found
            wait(PROBE_S)
        raise RuntimeError(f"the server did not answer within {LIMIT_S} s")

    def _request(self, method: str, path: str, body: Any = None) -> Any:
        """The answer of the API; None if it refuses."""
        with Path(self._token_file).open(encoding="ascii") as file:
            headers = {"Authorization": f"Bearer {file.read().strip()}", "Content-Type": "application/json"}
        with closing(HTTPConnection("127.0.0.1", self._port, timeout=LIMIT_S)) as connection:
            connection.request(method, f"/api/v1{path}", json.dumps(body) if body else None, headers)
            response = connection.getresponse()
            text = response.read()
        return json.loads(text) if response.status < BAD_REQUEST else None

    def _submit(self) -> str | None:
        answer = self._request("POST", "/sessions", BODY)
        return None if answer is None else str(answer["id"])

    def _status(self, session: str) -> str | None:
        answer = self._request("GET", f"/sessions/{session}")
        return None if answer is None else str(answer["status"])

    def processor_s(self) -> float:
        """Processor time that the server has used so far, which other work does not lengthen."""
        if self._process is None:
            return 0.0
        fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(runs: int) -> dict[str, Any]:
    """Kill and start the server `runs` times; milliseconds from the kill."""
    accepted, placed, used = [], [], []
    with tempfile.TemporaryDirectory(prefix="sokovan-bench-") as folder:
        server = KilledServer(folder)
        server.start()
        try:
            server.place()
            for _ in range(runs):
                begun = clock()
                server.end(signal.SIGKILL)
                server.start()
                taken, started = server.place()
                accepted.append(taken - begun)
                placed.append(started - begun)
                used.append(server.processor_s())
        finally:
            server.end(signal.SIGTERM)
    return {"runs": runs, "accepted": spread(accepted), "placed": spread(placed), "processor": spread(used)}


def main() -> int:
    """Measure and print."""
    return print_runs(__doc__, measure, default=20)


if __name__ == "__main__":
    sys.exit(main())
