"""Hosts in network namespaces of their own, which can be cut off; needs the superuser and `iproute2`.

The program that uses them runs in a namespace of its own as well, so that nothing of the
machine's network changes, and nothing of it is left however the program ends.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from benchmarks.embedded_server import clock, wait

BRIDGE = "hosts"
NETWORK = "10.77.0"
# The managers' addresses, on the side of the program.
NEAR = (f"{NETWORK}.1", f"{NETWORK}.2")
UNSHARE = ("unshare", "--net")
ENTERED = "BENCHMARK_NETWORK_ENTERED"
# A namespace is there once the process that holds it has its own.
ENTER_LIMIT_S = 30


def enter_network(module: str) -> None:
    """Go on in a network namespace with a bridge: starts the program once more. Exits without the right to."""
    if os.geteuid() != 0:
        sys.exit("network namespaces need the superuser: run it as root")
    if ENTERED not in os.environ:
        _start_again(module)
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "link", "add", BRIDGE, "type", "bridge")
    for address in NEAR:
        _run("ip", "address", "add", f"{address}/24", "dev", BRIDGE)
    _run("ip", "link", "set", BRIDGE, "up")


def _start_again(module: str) -> NoReturn:
    os.environ[ENTERED] = "1"
    program = shutil.which("unshare") or sys.exit("no program unshare: install util-linux")
    os.execv(program, [program, "--net", sys.executable, "-m", module, *sys.argv[1:]])  # noqa: S606  # an argv list


class Host:
    """A host behind the bridge: programs that are started on it have its network."""

    def __init__(self, name: str, number: int) -> None:
        self.name, self.address = name, f"{NETWORK}.{10 + number}"
        self._holder = subprocess.Popen([*UNSHARE, "sleep", "infinity"])
        _until_entered(self._holder.pid)
        inside, port = str(self._holder.pid), f"host{number}"
        _run("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", inside)
        _run("ip", "link", "set", port, "master", BRIDGE, "up")
        for words in (
            ("ip", "link", "set", "lo", "up"),
            ("ip", "address", "add", f"{self.address}/24", "dev", "eth0"),
            ("ip", "link", "set", "eth0", "up"),
        ):
            _run(*self.within(*words))

    def within(self, *words: str) -> Sequence[str]:
        """The command that runs a command on this host."""
        return ["nsenter", f"--net=/proc/{self._holder.pid}/ns/net", *words]

    def cut(self, *, deaf: bool = False, mute: bool = False) -> None:
        """Drop the packets that it gets (`deaf`), or those that it sends (`mute`)."""
        for is_dropped, chain, side in ((deaf, "INPUT", "-i"), (mute, "OUTPUT", "-o")):
            if is_dropped:
                _run(*self.within("iptables", "-A", chain, side, "eth0", "-j", "DROP"))

    def heal(self) -> None:
        """Drop none any more."""
        _run(*self.within("iptables", "-F"))

    def close(self) -> None:
        """End it; its namespace ends with its last process."""
        self._holder.send_signal(signal.SIGKILL)
        self._holder.wait()


@contextmanager
def hosts(*names: str) -> Iterator[tuple[Host, ...]]:
    """One host for each name."""
    made: list[Host] = []
    try:
        for number, name in enumerate(names, 1):
            made.append(Host(name, number))
        yield tuple(made)
    finally:
        for one in made:
            one.close()


def _until_entered(pid: int) -> None:
    own, deadline = Path("/proc/self/ns/net").readlink(), clock() + ENTER_LIMIT_S
    while Path(f"/proc/{pid}/ns/net").readlink() == own:
        if clock() > deadline:
            raise RuntimeError("no network namespace was made")
        wait(0.01)


def _run(*words: str) -> None:
    subprocess.run(words, check=True)
