"""The command line as it is, in a process whose deadlines are short and which can be held.

Everything that runs is the product's own. What differs is said in the first argument,
as JSON; see `Hurry`. What would take minutes takes seconds, and what lasts for
milliseconds lasts until a file is removed.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from sokovan.adapters.agentlink.linked_agents import LinkedAgents
from sokovan.adapters.agentlink.listener import serve_links
from sokovan.adapters.sql import leases
from sokovan.adapters.sql.store import SqlStore
from sokovan.cli.main import main
from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.kernel import KERNEL, KernelStatus
from sokovan.domain.records import SessionRecord
from sokovan.entrypoints import up
from sokovan.entrypoints.embedded import agent_links, manager_runtime
from sokovan.orchestrator.sessions.config import HeartbeatTimeouts, Timing
from sokovan.orchestrator.sessions.handlers import deadlines, prepare, start, watch
from sokovan.orchestrator.sessions.launch import launches
from sokovan.orchestrator.sessions.session_writer import SessionStep
from sokovan.wire.frames import CreateKernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Hurry:
    """How a server differs from the one that people run.

    `deadlines` are seconds by state of kernels. An agent that is silent for `silence_s` is
    suspect, lost a second later, and its sessions are given up a second after that. A file
    of the name `prepare`, `create`, `watch` or `deadlines` in the folder `holds` holds back that work.
    The server kills itself after its `dies_after`-th commit since the file `armed` is there;
    the next one waits for the end of its lease, of `lease_s`.
    """

    deadlines: Mapping[str, int] = field(default_factory=dict)
    heartbeat_s: float | None = None
    silence_s: float | None = None
    lease_s: float | None = None
    processes_max: int | None = None
    link_port: int | None = None
    holds: str = ""
    dies_after: int = 0

    def as_argument(self) -> str:
        """What to give the process that is to be like this."""
        return json.dumps(dataclasses.asdict(self))


def hasten(hurry: Hurry) -> None:
    """Make this process differ as was said."""
    for name, seconds in hurry.deadlines.items():
        status = KernelStatus(name)
        KERNEL.deadlines[status] = dataclasses.replace(KERNEL.deadlines[status], seconds=seconds)
    if hurry.heartbeat_s is not None:
        _put(agent_links, HEARTBEAT_S=hurry.heartbeat_s)
    if hurry.silence_s is not None or hurry.lease_s is not None:
        _put(up, Timing=functools.partial(_timing, hurry))
    if hurry.link_port is not None:
        _put(manager_runtime, serve_links=functools.partial(_serve_links, hurry.link_port))
    if hurry.processes_max is not None:
        _put(start, launches=_limited(hurry.processes_max))
    if hurry.holds:
        _make_holdable(Path(hurry.holds))
    if hurry.dies_after:
        _make_mortal(Path(hurry.holds) / "armed", hurry.dies_after)


def _put(owner: object, **parts: Any) -> None:
    """Put parts of ours in the place of those that a module or a class has."""
    for name, part in parts.items():
        if not hasattr(owner, name):
            raise AttributeError(f"{owner} has no {name} any more")
        setattr(owner, name, part)


def _timing(hurry: Hurry, **usual: Any) -> Timing:
    timing = Timing(**usual)
    if hurry.silence_s is not None:
        heartbeats = HeartbeatTimeouts(suspect_s=hurry.silence_s, lost_s=1.0)
        timing = dataclasses.replace(timing, heartbeats=heartbeats, session_lost_s=1.0)
    return timing if hurry.lease_s is None else dataclasses.replace(timing, lease_ttl_s=hurry.lease_s)


def _serve_links(fixed_port: int, agents: LinkedAgents, **usual: Any) -> Any:
    # Any other: an agent that was told of an earlier server would not find this one.
    return serve_links(agents, **{**usual, "port": fixed_port})


def _limited(processes_max: int) -> Callable[[SessionRecord, Mapping[AgentId, str]], Sequence[CreateKernel]]:
    def limited(session: SessionRecord, addresses: Mapping[AgentId, str]) -> Sequence[CreateKernel]:
        found = launches(session, addresses)
        return [msgspec.structs.replace(one, processes_max=processes_max) for one in found]

    return limited


def _make_holdable(folder: Path) -> None:
    for handler in (prepare.PrepareImages, watch.WatchKernels, deadlines.EnforceDeadlines):
        _put(handler, handle=_held(folder / handler.name, handler.handle))
    created = start.creation_step

    def creation_step(session: SessionRecord, **ready: Any) -> SessionStep:
        step = created(session, **ready)
        return dataclasses.replace(step, kernels=()) if (folder / "create").exists() else step

    for module in (prepare, start):
        _put(module, creation_step=creation_step)


def _held(file: Path, handle: Callable[..., Awaitable[bool]]) -> Callable[..., Awaitable[bool]]:
    async def unless_held(*arguments: Any) -> bool:
        return False if _exists(file) else await handle(*arguments)

    return unless_held


def _make_mortal(armed: Path, commits: int) -> None:
    run, left = SqlStore.run_sql, commits

    async def run_and_die(store: SqlStore, work: Any, **options: Any) -> Any:
        nonlocal left
        result = await run(store, work, **options)
        # A lease is renewed all the time, whatever happens to sessions.
        if _exists(armed) and work.__module__ != leases.__name__:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return result

    _put(SqlStore, run_sql=run_and_die)


def _exists(file: Path) -> bool:
    return file.exists()


if __name__ == "__main__":
    hasten(Hurry(**json.loads(sys.argv.pop(1))))
    main()
