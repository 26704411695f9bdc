"""Gives a server short deadlines, and handlers that can be held back.

Everything that runs is the product's own code.
A deadline of minutes takes seconds, and a step of milliseconds lasts until a file is removed.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from sokovan.adapters.agentlink.linked_agents import LinkedAgents
from sokovan.adapters.agentlink.listener import serve_links
from sokovan.adapters.process import images
from sokovan.adapters.sql import leases
from sokovan.adapters.sql.store import SqlStore
from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.kernel import KERNEL, KernelStatus
from sokovan.domain.owners.outputs import OutputLimits
from sokovan.domain.records import SessionRecord
from sokovan.domain.serving.engine import EngineDefinition, UnknownEngine
from sokovan.entrypoints.embedded import manager_runtime
from sokovan.orchestrator.deployments import replica_requests, replica_targets
from sokovan.orchestrator.deployments.handlers import deadlines as deployment_deadlines
from sokovan.orchestrator.deployments.handlers import destroying, initialising
from sokovan.orchestrator.routes.handlers import provisioning, terminating
from sokovan.orchestrator.sessions.handlers import deadlines, heartbeats, prepare, start, terminate, watch
from sokovan.orchestrator.sessions.launch import launches
from sokovan.orchestrator.sessions.session_writer import SessionStep
from sokovan.scheduling.engine.timing import back_off
from sokovan.wire.frames import CreateKernel
from tests.linked_venv import LINKED_CREATOR


@dataclass(frozen=True, slots=True, kw_only=True)
class FastTimings:
    """The differences from a server in normal operation.

    `deadlines` are seconds by state of kernels. An agent that is silent for `silence_s` is
    suspect, lost a second later, and its sessions fail a second after that. A file
    of the name `prepare`, `create`, `watch`, `terminate`, `deadlines` or `heartbeats` in the folder
    `holds` holds back that work, `initialising` the begin of deployments and `provisioning` that of
    routes; `engines` is the loss of the plugins of all engines.
    The server kills itself after its `dies_after`-th commit since the file `armed` is there;
    the next one waits for the end of its lease, of `lease_s`. A new replica has settled after
    `settled_s`. A session that was evicted once is tried again after `back_off_s`. A route without
    an endpoint fails, and the end of a deployment or a route is forced, after `serving_s`. A
    deployment that is not ready is retried after `retried_s`. The pip of images is a link where
    `venvs_linked`.
    """

    deadlines: Mapping[str, int] = field(default_factory=dict)
    heartbeat_s: float | None = None
    silence_s: int | None = None
    lease_s: float | None = None
    settled_s: float | None = None
    back_off_s: int | None = None
    serving_s: int | None = None
    retried_s: int | None = None
    processes_max: int | None = None
    venvs_linked: bool = False
    link_port: int | None = None
    holds: str = ""
    dies_after: int = 0


def apply_timings(timings: FastTimings) -> None:
    """Apply the timings to this process."""
    for name, seconds in timings.deadlines.items():
        status = KernelStatus(name)
        KERNEL.deadlines[status] = dataclasses.replace(KERNEL.deadlines[status], seconds=seconds)
    os.environ.update(_variables(timings))
    if timings.link_port is not None:
        _put(manager_runtime, serve_links=functools.partial(_serve_links, timings.link_port))
    if timings.processes_max is not None:
        _put(start, launches=_limited(timings.processes_max))
    if timings.venvs_linked:
        _put(images, CREATOR=LINKED_CREATOR)
    if timings.settled_s is not None:
        _put(replica_targets, SETTLED_MS=round(timings.settled_s * 1000))
    if timings.back_off_s is not None:
        _put(back_off, FIRST_S=timings.back_off_s)
    if timings.serving_s is not None:
        _put(provisioning, FAIL_AFTER_MS=timings.serving_s * 1000)
        for handlers in (destroying, terminating):
            _put(handlers, FORCE_AFTER_MS=timings.serving_s * 1000)
    if timings.retried_s is not None:
        _put(
            deployment_deadlines,
            RETRY_AFTER_MS=dict.fromkeys(deployment_deadlines.RETRY_AFTER_MS, timings.retried_s * 1000),
        )
    if timings.holds:
        _make_holdable(Path(timings.holds))
    if timings.dies_after:
        _kill_after_commits(Path(timings.holds) / "armed", timings.dies_after)


def _put(owner: object, **parts: Any) -> None:
    """Replace attributes of a module or a class."""
    for name, part in parts.items():
        if not hasattr(owner, name):
            raise AttributeError(f"{owner} has no {name} any more")
        setattr(owner, name, part)


def _variables(timings: FastTimings) -> dict[str, str]:
    """The variables of the server's settings for these timings."""
    found: dict[str, int] = {}
    if timings.heartbeat_s is not None:
        found["ORCHESTRATOR__HEARTBEAT_MS"] = round(timings.heartbeat_s * 1000)
    if timings.silence_s is not None:
        found["ORCHESTRATOR__AGENT_SUSPECT_S"] = timings.silence_s
        found["ORCHESTRATOR__AGENT_LOST_S"] = timings.silence_s + 1
        found["ORCHESTRATOR__SESSION_LOST_S"] = 1
    if timings.lease_s is not None:
        found["SCHEDULER__LEASE_MS"] = round(timings.lease_s * 1000)
    return {f"SOKOVAN_{name}": str(value) for name, value in found.items()}


def _serve_links(fixed_port: int, agents: LinkedAgents, **usual: Any) -> Any:
    # A fixed port: agents reconnect to the address of the previous server.
    return serve_links(agents, **{**usual, "port": fixed_port})


def _limited(processes_max: int) -> Callable[..., Sequence[CreateKernel]]:
    def limited(
        session: SessionRecord, addresses: Mapping[AgentId, str], *outputs: OutputLimits | None, **which: Any
    ) -> Sequence[CreateKernel]:
        found = launches(session, addresses, *outputs, **which)
        return [msgspec.structs.replace(one, processes_max=processes_max) for one in found]

    return limited


def _make_holdable(folder: Path) -> None:
    for handler in (
        prepare.PrepareImages,
        watch.WatchKernels,
        terminate.TerminateSessions,
        deadlines.EnforceDeadlines,
        heartbeats.HeartbeatMonitor,
        initialising.InitialisingHandler,
        provisioning.ProvisioningHandler,
    ):
        _put(handler, handle=_held(folder / handler.name, handler.handle))
    created = start.creation_step

    def creation_step(session: SessionRecord, **ready: Any) -> SessionStep:
        step = created(session, **ready)
        return dataclasses.replace(step, kernels=()) if (folder / "create").exists() else step

    for module in (prepare, start):
        _put(module, creation_step=creation_step)
    defined = replica_requests.ReplicaRequests.definition

    def definition(requests: replica_requests.ReplicaRequests, *arguments: Any) -> EngineDefinition:
        if (folder / "engines").exists():
            raise UnknownEngine("toy", ())
        return defined(requests, *arguments)

    _put(replica_requests.ReplicaRequests, definition=definition)


def _held(file: Path, handle: Callable[..., Awaitable[bool]]) -> Callable[..., Awaitable[bool]]:
    async def unless_held(*arguments: Any) -> bool:
        return False if _exists(file) else await handle(*arguments)

    return unless_held


def _kill_after_commits(armed: Path, commits: int) -> None:
    run, left = SqlStore.run_sql, commits

    async def run_and_kill(store: SqlStore, work: Any, **options: Any) -> Any:
        nonlocal left
        # A lease is renewed all the time, whatever happens to sessions.
        is_counted = left > 0 and _exists(armed) and work.__module__ != leases.__name__
        left -= is_counted
        # Renamed before the last commit: who removes the file afterwards knows that the server dies.
        is_last = is_counted and left == 0 and _renamed(armed)
        try:
            result = await run(store, work, **options)
        except BaseException:
            left += is_counted
            if is_last:
                armed.with_name("dying").rename(armed)
            raise
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    _put(SqlStore, run_sql=run_and_kill)


def _exists(file: Path) -> bool:
    return file.exists()


def _renamed(armed: Path) -> bool:
    """Whether the file was still there; it has another name now."""
    try:
        armed.rename(armed.with_name("dying"))
    except FileNotFoundError:
        return False
    return True
