"""Determines the state of kernels from their folders and containers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sokovan.adapters.docker.container_spec import ATTEMPT_LABEL, KERNEL_LABEL, RUNTIME_LABEL, SESSION_LABEL
from sokovan.adapters.docker.container_traces import container_of, remains_of, runtime_mark, started_state, traces_of
from sokovan.adapters.docker.engine.client import NOT_FOUND, EngineClient, EngineRefusal, path_of
from sokovan.adapters.docker.engine.session_networks import SessionNetworks
from sokovan.adapters.docker.kernel_records import KernelRecords, Record, observation_of
from sokovan.adapters.docker.log_copies import LogCopies
from sokovan.adapters.docker.log_copy import timed
from sokovan.adapters.docker.stopper import ContainerStopper
from sokovan.adapters.process.idle_times import IdleTimes
from sokovan.adapters.process.layout import folder_name, locked_if_free
from sokovan.adapters.process.observer import MACHINE_RESTARTED, UNFINISHED_AGE_MS
from sokovan.adapters.process.shim.processes import boot_id
from sokovan.domain.ids import KernelId
from sokovan.ports.environment import Clock
from sokovan.ports.runtime import KILLED, OUT_OF_MEMORY, KernelState, Observation

CONTAINER_REMOVED = "container removed"
# A container whose output does not end after this long has ended nevertheless.
DRAIN_MAX_MS = 60_000
_CREATED = "created"
_OVER = frozenset({"exited", "dead"})
_SIGNALS = range(129, 193)


@dataclass(slots=True)
class ContainerObserver:
    """Observes kernels; EXITED is a proof that nothing of the kernel runs.

    The first process of a container has ended, and with it all others.
    """

    engine: EngineClient
    records: KernelRecords
    clock: Clock
    copies: LogCopies
    stopper: ContainerStopper
    idle: IdleTimes
    networks: SessionNetworks
    # Ends are final, and most kept kernels have ended: they are not read again.
    _over: dict[str, Observation] = field(default_factory=dict)

    async def all(self) -> list[Observation]:
        """Every kernel that was not forgotten, by id and attempt.

        Raises EngineUnavailable.
        """
        containers = await self._listed()
        await self.networks.sweep(
            {str((one.get("Labels") or {}).get(SESSION_LABEL, "")) for one in containers.values()}
        )
        await asyncio.to_thread(self._tidy)
        names = self.records.layout.names()
        for gone in self._over.keys() - set(names):
            del self._over[gone]
        found = [await self._seen(name, containers.pop(name, None)) for name in names]
        for name, container in containers.items():
            await self._end_orphan(name, container)
        kept = (one for one in found if one is not None)
        return sorted(kept, key=lambda one: (one.kernel_id, one.attempt))

    def _tidy(self) -> None:
        layout = self.records.layout
        layout.remove_unfinished_folders(self.clock.now_ms() - UNFINISHED_AGE_MS)
        self.idle.sample()

    async def _listed(self) -> dict[str, Mapping[str, Any]]:
        """The containers of this root, by the names of their kernels' folders."""
        mark = f"{RUNTIME_LABEL}={runtime_mark(self.records.layout.root)}"
        query = {"all": "1", "filters": json.dumps({"label": [mark]})}
        listed = await self.engine.call("GET", "/containers/json", query=query)
        found = {}
        for one in listed or ():
            labels = one.get("Labels") or {}
            attempt = str(labels.get(ATTEMPT_LABEL, ""))
            if attempt.isdigit():
                found[folder_name(KernelId(str(labels.get(KERNEL_LABEL, ""))), int(attempt))] = one
        return found

    async def _end_orphan(self, name: str, container: Mapping[str, Any]) -> None:
        """Remove a container whose kernel has no folder.

        It was forgotten by an agent that was killed in between, or its folder was removed. A
        folder is created before its container.
        """
        if not (self.records.layout.kernels / name).exists():
            await remains_of(self.engine, str(container.get("Id")))

    async def _seen(self, name: str, container: Mapping[str, Any] | None) -> Observation | None:
        known = self._over.get(name)
        if known is not None and not self.records.layout.is_forgotten(name):
            return known
        launch, state = self.records.launch(name), self.records.state(name)
        if launch is None:
            return None
        if self.records.layout.is_forgotten(name):
            await self._remove(name, launch)
            return None
        if state is None:
            state = await self._without_state(name, launch)
            if state is None:
                return None
        elif "ended_ms" not in state:
            state = await self._checked(name, launch, state, container)
        traces = traces_of(self.records.layout.root, str(launch["kernel_id"]), int(launch["attempt"]))
        seen = observation_of(launch, state, self.records.checkpoint(name, self.clock.now_ms()), traces)
        if seen.state is KernelState.EXITED:
            self._over[name] = seen
            self.copies.forget(name)
            self.stopper.forget(name)
            return seen
        idle_s = self.idle.idle_s(name, int(state.get("pid") or 0)) if launch.get("watch_idle") else None
        return replace(seen, idle_s=idle_s)

    async def _remove(self, name: str, launch: Record) -> None:
        traces = traces_of(self.records.layout.root, str(launch["kernel_id"]), int(launch["attempt"]))
        if not await remains_of(self.engine, container_of(traces)):
            await asyncio.to_thread(self.records.layout.discard, name)

    async def _without_state(self, name: str, launch: Record) -> Record | None:
        """No state was recorded: the start is under way, or was abandoned.

        A container that was created and never started leaves nothing, and may be started again;
        one that runs is adopted.
        """
        with locked_if_free(self.records.layout.kernels / name) as free:
            state = self.records.state(name)
            if state is not None:
                return state
            if not free:
                return {}
            traces = traces_of(self.records.layout.root, str(launch["kernel_id"]), int(launch["attempt"]))
            about = await self._about(container_of(traces))
            if about is None or (about.get("State") or {}).get("Status") == _CREATED:
                await self._remove(name, launch)
                return None
            state = started_state(about, _moment_ms(about, "StartedAt") or self.clock.now_ms())
            self.records.write_state(name, state)
            return state

    async def _checked(self, name: str, launch: Record, state: Record, container: Mapping[str, Any] | None) -> Record:
        """The state of a kernel that was started, with its end if it has ended."""
        if container is not None and container.get("State") not in _OVER:
            self.copies.follow(name, launch, state)
            self.stopper.follow(name, state)
            return state
        # A container that was started after the listing is not in it.
        about = await self._about(str(state["container"]))
        if about is None:
            return self._ended(name, exit_code=KILLED, reason=CONTAINER_REMOVED)
        if (about.get("State") or {}).get("Status") not in _OVER:
            return state
        self.copies.follow(name, launch, state)
        finished_ms = _moment_ms(about, "FinishedAt") or self.clock.now_ms()
        if not await self.copies.drained(name) and self.clock.now_ms() - finished_ms < DRAIN_MAX_MS:
            return self.records.state(name) or state
        code = int(about["State"].get("ExitCode") or 0)
        ended = self._ended(name, exit_code=code, reason=_reason(about, code, state), ended_ms=finished_ms)
        # Its log and its end are kept in its folder; what cannot be removed now is when it is forgotten.
        await remains_of(self.engine, str(state["container"]))
        return ended

    def _ended(self, name: str, *, exit_code: int, reason: str, ended_ms: int | None = None) -> Record:
        """Record the end of a kernel, unless it is recorded.

        No other step lies between reading and writing.
        """
        state = self.records.state(name) or {}
        if "ended_ms" in state:
            return state
        at_ms = max(self.clock.now_ms() if ended_ms is None else ended_ms, int(state.get("started_ms") or 0))
        reason = str(state.get("stop_reason") or "") or reason
        ended = {**state, "ended_ms": at_ms, "exit_code": exit_code, "reason": reason}
        self.records.write_state(name, ended)
        return ended

    async def _about(self, container: str) -> Mapping[str, Any] | None:
        """The engine's description of a container; None if it has none."""
        try:
            found: Mapping[str, Any] = await self.engine.call("GET", path_of("containers", container, "json"))
        except EngineRefusal as problem:
            if problem.status == NOT_FOUND:
                return None
            raise
        return found


def _reason(about: Mapping[str, Any], code: int, state: Record) -> str:
    if about["State"].get("OOMKilled"):
        return OUT_OF_MEMORY
    if state.get("boot") not in {None, boot_id()}:
        return MACHINE_RESTARTED
    return f"signal {code - 128}" if code in _SIGNALS else str(about["State"].get("Error") or "")


def _moment_ms(about: Mapping[str, Any], name: str) -> int | None:
    """A time of a container, in milliseconds; None if it has not come yet."""
    moment, _ = timed(f"{(about.get('State') or {}).get(name) or ''} ".encode())
    ms = int(float(moment) * 1000) if moment else 0
    return ms if ms > 0 else None
