"""What the whole life of a session costs: `python -m benchmarks.life [CASE...] [--base TREE]`.

Runs sessions from submission to TERMINATED and prints the processor time of the server and
all its processes per session, the rate, and the time that a plain loop takes, by which
runs on a shared machine can be compared. Shims and kernels, which are no processes of the
server, count in `all_cpu_ms` where control groups of version 1 can account for them. With
`--base`, a checkout of another version, the two versions take turns. The client sends
prebuilt requests and costs little.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.embedded_server import Server, clock, server
from benchmarks.profile_life import UNFINISHED
from benchmarks.raw_client import RawClient

HERE = Path(__file__).resolve().parents[1]
_UP = "import sys; from sokovan.cli.main import run; sys.exit(run(sys.argv[1:]))"
_TICK = os.sysconf("SC_CLK_TCK")
_ACCOUNTS = Path("/sys/fs/cgroup/cpuacct")
_JOIN = 'echo 0 > "$0" && exec "$@"'
BODY = {"command": ["true"], "resources": {"cpu": 0.05, "mem": "32MiB"}}


@dataclass(frozen=True, slots=True)
class Case:
    """A fleet, how many sessions, and by how many callers; an array if by none."""

    options: tuple[str, ...]
    sessions: int
    callers: int
    agents: int


CASES = {
    "fake-crowd": Case(("--fake", "1000x8", "--no-agent"), 5_000, 64, 1_000),
    "fake-array": Case(("--fake", "1000x8", "--no-agent"), 10_000, 0, 1_000),
    "real-crowd": Case((), 300, 16, 1),
}


@contextmanager
def account() -> Iterator[Path | None]:
    """A control group that accounts for processor time; None if there can be none."""
    group = _ACCOUNTS / f"sokovan-bench-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        yield None
        return
    try:
        yield group
    finally:
        with suppress(OSError):  # something of the last kernel may be left for a moment
            group.rmdir()


def accounted_s(group: Path | None) -> float:
    """Processor time of all processes that ever were in a group."""
    return 0.0 if group is None else int((group / "cpuacct.usage").read_text(encoding="ascii")) / 1e9


@contextmanager
def server_of(tree: Path, *options: str, group: Path | None = None) -> Iterator[Server]:
    """A server that imports `sokovan` from a checkout, in a control group if there is one."""
    joining = ("/bin/sh", "-c", _JOIN, f"{group}/cgroup.procs") if group is not None else ()
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(tree / "src")
    try:
        with server(*options, command=(*joining, sys.executable, "-c", _UP, "up")) as started:
            yield started
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def processor_s(pid: int) -> float:
    """Processor time of a process and all below it, with those that have ended."""
    used = 0
    for one in (pid, *_children(pid)):
        try:
            fields = Path(f"/proc/{one}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        except OSError:  # it has ended, and counts for its parent
            continue
        used += sum(map(int, fields[11:15]))
    return used / _TICK


def _children(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found = [int(one) for one in task.read_text(encoding="ascii").split()]
        except OSError:
            continue
        for one in found:
            yield one
            yield from _children(one)


async def lives(started: Server, case: Case, sessions: int, *, label: str = "") -> float:
    """Submit the sessions and wait until each has ended; returns seconds.

    With a label, others that have not ended are left alone.
    """
    body = {**BODY, "labels": {label: "yes"}} if label else BODY
    unfinished = f"/sessions?status={UNFINISHED}&limit=1" + (f"&label={label}" if label else "")
    clients = [await RawClient(started).connect() for _ in range(max(1, case.callers))]
    todo = iter(range(sessions))

    async def caller(client: RawClient) -> None:
        for _ in todo:
            await client.post("/sessions", body)

    begun = clock()
    if case.callers:
        await asyncio.gather(*map(caller, clients))
    else:
        await clients[0].post("/sessions", {**body, "array": f"0-{sessions - 1}"})
    left = True
    while left:
        await asyncio.sleep(0.1)  # noqa: TID251  # polls in real time
        left = bool((await clients[0].get(unfinished))["items"])
    return clock() - begun


async def all_enrolled(started: Server, count: int) -> None:
    """Wait until `count` agents are enrolled."""
    client = await RawClient(started).connect()
    found = 0
    while found < count:
        found, cursor = 0, ""
        while True:
            page = await client.get(f"/agents?limit=500{cursor}")
            found += len(page["items"])
            if not page["next"]:
                break
            cursor = f"&cursor={page['next']}"
        await asyncio.sleep(0.2)  # noqa: TID251  # agents enrol in real time


def loop_s() -> float:
    """Processor time of a plain loop: how fast the machine is just now."""
    begun, total = time.process_time(), 0  # noqa: TID251  # a benchmark reads the clock
    for number in range(3_000_000):
        total += number
    return time.process_time() - begun  # noqa: TID251  # a benchmark reads the clock


def measure(tree: Path, case: Case) -> dict[str, Any]:
    """The figures of a case in one version."""
    with account() as group, server_of(tree, *case.options, group=group) as started:
        asyncio.run(all_enrolled(started, case.agents))
        asyncio.run(lives(started, case, max(64, case.sessions // 10)))
        speed = loop_s()
        before, all_before = processor_s(started.pid), accounted_s(group)
        took = asyncio.run(lives(started, case, case.sessions))
        spent, all_spent = processor_s(started.pid) - before, accounted_s(group) - all_before
    speed = (speed + loop_s()) / 2
    return {
        "sessions": case.sessions,
        "cpu_ms": round(spent * 1000 / case.sessions, 2),
        "all_cpu_ms": round(all_spent * 1000 / case.sessions, 2),
        "sessions_per_s": round(case.sessions / took, 1),
        "loop_s": round(speed, 2),
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> int:
    """Run the named cases, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.life", description=__doc__.partition("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}; all by default")
    parser.add_argument("--base", type=Path, help="checkout of another version")
    parser.add_argument("--rounds", type=int, default=1, help="how often the versions take turns")
    parser.add_argument("--sessions", type=int, help="how many sessions, instead of the case's number")
    options = parser.parse_args()
    trees = {**({"base": options.base} if options.base else {}), "this": HERE}
    for name in options.cases or CASES:
        case = CASES[name]
        if options.sessions:
            case = Case(case.options, options.sessions, case.callers, case.agents)
        for _ in range(options.rounds):
            for which, tree in trees.items():
                print(json.dumps({"case": name, "tree": which, **measure(tree, case)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
