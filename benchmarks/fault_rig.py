"""A cluster to do harm to: three hosts, two managers, two proxies, PostgreSQL, Valkey and etcd."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.embedded_server import SOKOVAN
from benchmarks.failover import Manager, free_port, metrics_of, until
from benchmarks.gateway_load import Target
from benchmarks.network_hosts import NEAR, Host, hosts
from sokovan.adapters.process.launch.environment import KERNEL_ID, RUNTIME, marks_of
from sokovan.domain.ids import KernelId
from sokovan.entrypoints.cluster.server_check import cluster_state
from sokovan.entrypoints.settings.setting_sources import sources_of
from sokovan.testing.servers import EtcdServer, PostgresServer, ValkeyServer

NAMES = ("a", "b", "c")
MODEL = "load"
LIMIT_S = 600
READY = re.compile(r"the gateway is ready at (\S+)")
# Each start leaves a line with the kernel, then it runs until the file `end` is there.
SCRIPT = 'echo "$SOKOVAN_KERNEL_ID" >> "$0/starts"; while [ ! -e "$0/end" ]; do sleep 0.5; done; echo over'
SMALL = {"cpu": 0.02, "mem": "32MiB"}
REPLICA = {"cpu": 0.3, "mem": "64MiB"}


class Machine:
    """A host with an agent that has joined."""

    def __init__(self, host: Host, folder: Path) -> None:
        self.host, self.folder = host, folder
        folder.mkdir()
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SOKOVAN_")},
            "HOME": str(folder),
            "XDG_DATA_HOME": f"{folder}/data",
            "XDG_CONFIG_HOME": f"{folder}/config",
        }
        self._agent: subprocess.Popen[bytes] | None = None

    def run(self, *words: str) -> None:
        """Start its agent."""
        with (self.folder / "agent.out").open("ab") as output:
            self._agent = subprocess.Popen(
                [*self.host.within(*SOKOVAN), *words], env=self.environment, stdout=output, stderr=output
            )

    def halt(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End its agent; its kernels go on."""
        if self._agent is not None:
            self._agent.send_signal(number)
            self._agent.wait(timeout=LIMIT_S)
            self._agent = None

    def processes(self) -> dict[int, str]:
        """Every process of a kernel of this machine, with its kernel."""
        root = self.folder / "data" / "sokovan" / "agent" / "kernels"
        mark = f"{RUNTIME}={marks_of(KernelId('k'), 1, root=root)[RUNTIME]}".encode()
        kernel, found = f"{KERNEL_ID}=".encode(), {}
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                variables = (entry / "environ").read_bytes().split(b"\0")
                if mark in variables:
                    found[int(entry.name)] = next(one for one in variables if one.startswith(kernel))[
                        len(kernel) :
                    ].decode()
        return found


@dataclass(frozen=True, slots=True)
class Counted:
    """A session whose starts are counted, and which ends on demand."""

    id: str
    folder: Path

    @property
    def starts(self) -> int:
        """How often it was started."""
        file = self.folder / "starts"
        return len(file.read_text(encoding="ascii").split()) if file.exists() else 0

    def end(self) -> None:
        """Let it end."""
        (self.folder / "end").touch()


@dataclass(slots=True)
class Rig:
    """The whole cluster."""

    folder: Path
    config: Path
    managers: tuple[Manager, Manager]
    machines: tuple[Machine, ...]
    postgres: PostgresServer
    valkey: ValkeyServer
    etcd: EtcdServer
    database: str
    targets: tuple[Target, ...] = ()

    def lease(self) -> tuple[str, int]:
        """The holder and the epoch of the lease of sessions; none while nobody leads."""
        leases = cluster_state(sources_of(self.config, self.config.parent, environment={}).read()).leases
        return next(((one.holder, one.epoch) for one in leases if one.coordinator == "sessions"), ("", 0))

    def leader(self) -> Manager:
        """The manager that leads the sessions."""
        return until(lambda: next((one for one in self.managers if f".{one.pid}-" in self.lease()[0]), None))

    def other(self, manager: Manager) -> Manager:
        """The manager that is not this one."""
        return next(one for one in self.managers if one is not manager)

    def linked(self) -> bool:
        """Whether all agents are linked to both managers."""
        for manager in self.managers:
            found = manager.request("GET", "/agents")
            items = found["items"] if found else []
            if sum(1 for one in items if one["connected"] and one["status"] == "alive") < len(self.machines):
                return False
        return True

    def submit(self, manager: Manager, name: str, **body: Any) -> Counted:
        """Submit a session; asked for again, it is the same."""
        folder = self.folder / "work" / name
        folder.mkdir(parents=True)
        folder.chmod(0o777)
        whole = {
            "name": name,
            "command": ["sh", "-c", SCRIPT, str(folder)],
            "resources": SMALL,
            "mounts": [{"source": str(folder), "target": str(folder), "read_only": False}],
            **body,
        }
        return Counted(until(lambda: manager.request("POST", "/sessions", whole), limit_s=LIMIT_S)["id"], folder)

    def runs(self, manager: Manager, session: Counted) -> None:
        """Wait until it runs."""
        until(lambda: session.starts and self.status(manager, session) == "running", limit_s=LIMIT_S)

    def status(self, manager: Manager, session: Counted) -> str:
        """The status of a session."""
        return str(manager.request("GET", f"/sessions/{session.id}")["status"])

    def audit(self) -> str:
        """What `sokovan audit` says; empty if all holds."""
        words = [*SOKOVAN, "audit", "--store", self.database]
        done = subprocess.run(words, env=self.managers[0].environment, check=False, capture_output=True, text=True)
        return "" if done.returncode == 0 else done.stdout + done.stderr

    def metric(self, manager: Manager, name: str) -> float:
        """The sum of a metric of a manager over its labels."""
        lines = metrics_of(manager)
        return sum(float(line.split()[-1]) for line in lines if line.startswith((f"{name}{{", f"{name} ")))


@contextmanager
def rig() -> Iterator[Rig]:
    """The cluster, with a deployment of three replicas that both proxies serve."""
    with ExitStack() as stack:
        # A kernel may have an account of its own, and reaches what is mounted by this path.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sokovan-faults-")))
        folder.chmod(0o755)
        postgres, valkey = stack.enter_context(PostgresServer()), stack.enter_context(ValkeyServer())
        etcd = stack.enter_context(EtcdServer())
        database, config = postgres.create_database("faults"), folder / "etc" / "sokovan.toml"
        addresses = [f"{host}:{free_port(host)}" for host in NEAR]
        every = ["--set", f"cluster.managers={','.join(addresses)}", "--set", f"valkey.url={valkey.url}"]
        one, two = (
            Manager(folder / f"manager{number}", config, ["--listen", address, *every], port=free_port("127.0.0.1"))
            for number, address in enumerate(addresses)
        )
        one.folder.mkdir()
        one.command("server", "init", str(config.parent), "--database", database)
        with config.open("a", encoding="utf-8") as file:
            file.write(f'\n[config]\nurl = "{etcd.url.replace("http:", "etcd:")}"\n')
            file.write('[scaling_groups.default.scheduler_opts]\nagent_selector = "dispersed"\n')
        one.command("server", "migrate", "--config", str(config))
        for manager in (one, two):
            stack.callback(_ended, manager)
            manager.start()
        machines = tuple(Machine(host, folder / f"machine-{host.name}") for host in stack.enter_context(hosts(*NAMES)))
        made = Rig(folder, config, (one, two), machines, postgres, valkey, etcd, database)
        stack.callback(_clear, machines)
        for machine in machines:
            token = until(lambda: one.request("POST", "/join-tokens", {"expires_s": 600}))
            join = ["agent", "join", token["url"], "--token", token["token"], "--ca", token["authority"]]
            machine.run(*join, "--name", machine.host.name, "--data-listen", f"{machine.host.address}:0")
        until(made.linked, limit_s=LIMIT_S)
        for name in NAMES:
            until(partial(one.request, "PATCH", f"/agents/{name}/labels", {"set": {"host": name}}))
        key = _deployed(one)
        made.targets = tuple(stack.enter_context(_proxy(made, manager, key)) for manager in (one, two))
        # Proxies probe replicas on other machines.
        until(lambda: one.request("GET", f"/deployments/{MODEL}")["replicas_active"] == len(NAMES), limit_s=LIMIT_S)
        yield made


def _deployed(manager: Manager) -> str:
    """Deploy the toy engine; a key for it."""
    revision = {"engine": "toy", "resources": REPLICA, "arguments": ["--tokens-per-second", "100"]}
    until(lambda: manager.request("POST", "/deployments", {"name": MODEL, "revision": revision, "replicas_min": 3}))
    return str(manager.request("POST", f"/deployments/{MODEL}/tokens", {"name": "faults"})["token"])


@contextmanager
def _proxy(made: Rig, manager: Manager, key: str) -> Iterator[Target]:
    """A proxy of this manager, ready to serve."""
    root = made.folder / f"proxy-{manager.folder.name}"
    keys = made.config.parent / "keys"
    own = ["--listen", "127.0.0.1:0", "--root", str(root), "--token-file", str(keys / "proxy-token")]
    own += ["--ca", str(keys / "tls" / "authority.pem")]
    file = made.folder / f"{root.name}.out"
    with file.open("wb") as output:
        process = subprocess.Popen(
            [*SOKOVAN, "proxy", manager.credentials[0], *own], env=manager.environment, stdout=output, stderr=output
        )
    try:
        found = until(lambda: READY.search(file.read_text(encoding="utf-8")), limit_s=LIMIT_S)
        yield Target(url=found[1], model=MODEL, key=key)
    finally:
        process.terminate()
        process.wait(timeout=LIMIT_S)


def _ended(manager: Manager) -> None:
    if manager.pid:
        os.kill(manager.pid, signal.SIGCONT)
    manager.end(signal.SIGTERM)


def _clear(machines: tuple[Machine, ...]) -> None:
    """End agents, and what is left of kernels."""
    for machine in machines:
        machine.halt()
        for pid in machine.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
