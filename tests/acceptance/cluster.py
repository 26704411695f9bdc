"""Managers of a cluster: `sokovan server` processes on one PostgreSQL database."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.acceptance.embedded import Embedded, until

HOSTS = ("127.0.0.2", "127.0.0.3")


class Manager(Embedded):
    """One manager, with its own folders; its configuration is that of the cluster."""

    def __init__(self, folder: Path, config: Path, options: Sequence[str] = ()) -> None:
        super().__init__(folder)
        self.config, self._options = config, tuple(options)

    @property
    def environment(self) -> dict[str, str]:
        """As of any server, with the configuration file."""
        return {**super().environment, "SOKOVAN_CONFIG": str(self.config)}

    def begin(self, *options: str) -> None:
        """Start the manager, without waiting until it is ready."""
        assert self._process is None
        (self.data / "up.json").unlink(missing_ok=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "up.out").open("ab") as output:
            self._process = self.started(output, "server", "--port", "0", *self._options, *options)


class TwoManagers:
    """A cluster of two managers; the first has written its file and its keys."""

    def __init__(self, folder: Path, database: str) -> None:
        self.folder, self.database = folder, database
        self.config = folder / "cluster" / "sokovan.toml"
        self.ports = [free_port(host) for host in HOSTS]
        addresses = [f"{host}:{port}" for host, port in zip(HOSTS, self.ports, strict=True)]
        every = ("--set", f"cluster.managers={','.join(addresses)}")
        self.remote = f"{HOSTS[0]}:{free_port(HOSTS[0])}"
        remote = (("--set", f"api.listen={self.remote}"), ())
        self.managers = tuple(
            Manager(folder / f"manager{number}", self.config, ("--listen", address, *every, *remote[number - 1]))
            for number, address in enumerate(addresses, 1)
        )

    def init(self, *options: str) -> None:
        """Write the configuration of the cluster."""
        first = self.managers[0]
        first.folder.mkdir(parents=True, exist_ok=True)
        done = Embedded(first.folder).cli(
            "server", "init", str(self.config.parent), "--database", self.database, *options
        )
        assert done.returncode == 0, done.stderr

    @property
    def leader(self) -> Manager | None:
        """The manager that leads the sessions."""
        holders = [lease["holder"] for lease in self._leases()]
        leading = [one for one in self.managers if one.is_up and any(f".{one.pid}-" in name for name in holders)]
        return leading[0] if leading else None

    @property
    def epoch(self) -> int:
        """The epoch of the lease of sessions."""
        return until(lambda: max((int(lease["epoch"]) for lease in self._leases()), default=0), what="a manager leads")

    def _leases(self) -> list[dict[str, Any]]:
        """The leases of sessions: one, or none for a moment."""
        done = next(one for one in self.managers if one.is_up).cli("server", "status", "--json")
        assert done.returncode in {0, 1}, done.stderr  # 1: none leads
        return [lease for lease in json.loads(done.stdout)["leases"] if lease["coordinator"] == "sessions"]

    def led(self) -> Manager:
        """Wait until one of the managers leads."""
        return until(lambda: self.leader, what="a manager leads", tell=lambda: self.said)

    def other(self, manager: Manager) -> Manager:
        """The manager that is not this one."""
        return next(one for one in self.managers if one is not manager)

    @property
    def said(self) -> str:
        """The output of both."""
        return "".join(one.said[-2000:] for one in self.managers)

    def quit(self) -> None:
        """End both."""
        for manager in self.managers:
            manager.quit()


def free_port(host: str) -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def freeze(pid: int) -> None:
    """Stop a process as if its machine hung."""
    os.kill(pid, signal.SIGSTOP)


def thaw(pid: int) -> None:
    """Let it go on."""
    os.kill(pid, signal.SIGCONT)
