"""What happens while parts of a cluster fail for minutes: `python -m benchmarks.faults [CASE...] [--seconds N]`.

Three hosts in network namespaces, two managers, two proxies, PostgreSQL, Valkey and etcd on
one machine. Sessions run on every host, more are submitted during the fault, and requests
go through both proxies all the time. Afterwards all sessions are ended, and the figures say how often
each was started, how it ended, what `sokovan audit` found, how many processes of kernels
are left after 30 s, and how many requests failed. Needs the superuser.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from http.client import HTTPException
from typing import Any

from benchmarks.embedded_server import clock, wait
from benchmarks.failover import Manager, until
from benchmarks.fault_rig import LIMIT_S, NAMES, Counted, Rig, rig
from benchmarks.gateway_load import load
from benchmarks.network_hosts import enter_network
from sokovan.domain.errors import SokovanError
from sokovan.testing.servers import ServerProcess

PER_S = 4
# Sessions are submitted this often during a fault.
EVERY_S = 15.0
ORPHANS_S = 30
FLAP_S = 10.0
# A manager that goes on has tried its late writes by then.
SETTLE_S = 10
ENDED = ("terminated", "cancelled")
Figures = dict[str, Any]
# A fault lasts as long as its context; what it yields takes submissions meanwhile.
Fault = Callable[[Rig, Figures], AbstractContextManager[Manager]]


@contextmanager
def freeze(made: Rig, figures: Figures) -> Iterator[Manager]:
    """The leading manager is stopped by SIGSTOP, and goes on."""
    leader = made.leader()
    epoch = made.lease()[1]
    # It stops in the middle of placing and starting these.
    figures["frozen with"] = [made.submit(made.other(leader), f"freeze-with{number}") for number in range(6)]
    os.kill(leader.pid, signal.SIGSTOP)
    begun = clock()
    try:
        until(lambda: made.lease()[1] > epoch, limit_s=LIMIT_S)
        figures["another leads after s"] = round(clock() - begun, 1)
        yield made.other(leader)
        held = made.lease()
    finally:
        os.kill(leader.pid, signal.SIGCONT)
    wait(SETTLE_S)
    figures["epochs"] = [epoch, held[1], made.lease()[1]]
    figures["the other still leads"] = made.lease() == held
    figures["late writes refused"] = made.metric(leader, "sokovan_fenced_out_total")
    figures["it hung for s"] = made.metric(leader, "sokovan_loop_stall_seconds_sum")


@contextmanager
def killed(made: Rig, figures: Figures) -> Iterator[Manager]:
    """The leading manager is killed, and started again."""
    leader = made.leader()
    leader.end(signal.SIGKILL)
    begun = clock()
    try:
        made.other(leader).place()
        figures["next placement after s"] = round(clock() - begun, 1)
        yield made.other(leader)
    finally:
        leader.start()


@contextmanager
def cut(made: Rig, figures: Figures, *, deaf: bool, mute: bool) -> Iterator[Manager]:
    """The last host is cut off."""
    host, manager = made.machines[-1].host, made.managers[0]
    host.cut(deaf=deaf, mute=mute)
    try:
        yield manager
        found = manager.request("GET", f"/agents/{host.name}")
        figures["agent at the end"] = [found["status"], "connected" if found["connected"] else "not connected"]
    finally:
        host.heal()


@contextmanager
def flapping(made: Rig, figures: Figures) -> Iterator[Manager]:
    """The last host is cut off for ten seconds, then linked for ten, again and again."""
    host, over = made.machines[-1].host, threading.Event()

    def flap() -> None:
        while not over.wait(FLAP_S):
            host.cut(deaf=True, mute=True)
            over.wait(FLAP_S)
            host.heal()

    thread = threading.Thread(target=flap, daemon=True)
    thread.start()
    try:
        yield made.managers[0]
    finally:
        over.set()
        thread.join()
    history = made.managers[0].request("GET", f"/agents/{host.name}/history")
    figures["moves of the agent"] = [line["after"] for line in history["lines"]] if history else "?"


@contextmanager
def down(made: Rig, figures: Figures, *, which: str) -> Iterator[Manager]:
    """A server is killed, and started again."""
    server: ServerProcess = getattr(made, which)
    server.kill()
    try:
        yield made.managers[0]
    finally:
        begun = clock()
        server.start()
        figures[f"{which} answered again after s"] = round(clock() - begun, 1)


@contextmanager
def unconfigured(made: Rig, figures: Figures) -> Iterator[Manager]:
    """Etcd is killed, one manager is restarted without it, and etcd is started again."""
    with down(made, figures, which="etcd") as manager:
        other = made.other(manager)
        other.end(signal.SIGTERM)
        begun = clock()
        other.start()
        figures["a manager started without etcd after s"] = round(clock() - begun, 1)
        yield manager


CASES: dict[str, tuple[int, Fault]] = {
    "freeze": (60, freeze),
    "kill": (15, killed),
    "partition": (180, partial(cut, deaf=True, mute=True)),
    "deaf": (180, partial(cut, deaf=True, mute=False)),
    "mute": (180, partial(cut, deaf=False, mute=True)),
    "flap": (120, flapping),
    "valkey": (120, partial(down, which="valkey")),
    "etcd": (120, unconfigured),
    "postgres": (20, partial(down, which="postgres")),
}


def measure(made: Rig, case: str, seconds: float | None, figures: Figures) -> None:
    """Find all figures of one fault."""
    usual_s, fault = CASES[case]
    lasts_s = usual_s if seconds is None else seconds
    figures |= {"seconds": lasts_s, "load": [round(os.getloadavg()[0], 1)]}
    first = made.managers[0]
    with ExitStack() as requests:
        ends = [requests.enter_context(load(target, PER_S)) for target in made.targets]
        sessions = [
            made.submit(first, f"{case}-{name}-{policy}", require={"host": name}, on_agent_lost=policy)
            for name in NAMES
            for policy in ("end", "requeue")
        ]
        for one in sessions:
            made.runs(first, one)
        noted("all sessions run")
        begun = clock()
        with fault(made, figures) as manager:
            sessions += figures.pop("frozen with", [])
            sessions += work(made, manager, figures, begun + lasts_s)
        noted("the fault has ended")
        healed = clock()
        until(made.linked, limit_s=LIMIT_S)
        figures["linked again after s"] = round(clock() - healed, 1)
        figures["sessions"] = outcomes(made, case, sessions)
    figures["requests"] = [one.figures() for one in ends]
    figures["audit"] = made.audit() or "clean"
    figures["kernels left"] = left(made)
    figures["load"].append(round(os.getloadavg()[0], 1))


def work(made: Rig, manager: Manager, figures: Figures, end: float) -> list[Counted]:
    """Submit sessions until a time; how long each took to run."""
    sessions, took = list[Counted](), list[float]()
    while clock() < end:
        begun = clock()
        sessions.append(made.submit(manager, f"{figures['case']}-during{len(sessions)}"))
        made.runs(manager, sessions[-1])
        took.append(round(clock() - begun, 1))
        wait(max(0.0, min(EVERY_S - (clock() - begun), end - clock())))
    figures["submitted during it ran after s"] = took
    return sessions


def outcomes(made: Rig, case: str, sessions: list[Counted]) -> Figures:
    """End all sessions; how often each was started, and how it ended."""
    for one in sessions:
        one.end()
    until(lambda: not any(_lives(one) for one in _sessions(made, case)), limit_s=LIMIT_S)
    every, ends, wrong = _sessions(made, case), Counter[str](), list[str]()
    for one in sessions:
        found = [each for each in every if each["name"] == one.folder.name]
        ends[" then ".join(str(each["reason"] or each["result"]) for each in reversed(found))] += 1
        if one.starts != len(found):
            wrong.append(f"{one.folder.name}: {one.starts} starts, {len(found)} sessions")
    return {"count": len(sessions), "ends": dict(ends), "not started once": wrong}


def left(made: Rig) -> list[str]:
    """The kernels that have processes 30 s after their sessions ended."""
    wait(ORPHANS_S)
    known = {kernel["id"] for one in _sessions(made) if _lives(one) for kernel in one["kernels"]}
    return sorted({kernel for machine in made.machines for kernel in machine.processes().values()} - known)


def _sessions(made: Rig, case: str = "") -> list[Figures]:
    """The newest sessions, or those of a case."""
    found: list[Figures] = until(lambda: made.managers[0].request("GET", "/sessions?limit=500"))["items"]
    return [one for one in found if (one["name"] or "").startswith(f"{case}-" if case else "")]


def _lives(session: Figures) -> bool:
    kernels = any(kernel["status"] not in ENDED for kernel in session["kernels"])
    return kernels or session["status"] not in ENDED


def noted(text: str) -> None:
    """Write a line for whoever waits."""
    sys.stderr.write(f"{text}\n")


def main() -> int:
    """Measure and print, one JSON object for each case."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--seconds", type=float, help="how long the fault lasts")
    given = parser.parse_args()
    if unknown := set(given.cases) - set(CASES):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    enter_network("benchmarks.faults")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that everything that was started is ended
    with rig() as made:
        for case in given.cases or CASES:
            figures: Figures = {"case": case}
            try:
                measure(made, case, given.seconds, figures)
            except (RuntimeError, HTTPException, OSError, SokovanError) as error:
                figures["not done"] = f"{type(error).__name__}: {error}"
            sys.stdout.write(json.dumps(figures, indent=2, default=str) + "\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
