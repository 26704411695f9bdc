"""Handles heartbeats: missing ones, and checkpoints and faults of devices in them.

Agents without heartbeats become SUSPECT and LOST, and return when they are heard again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AgentId, SessionId
from sokovan.domain.lifecycle.agent import AGENT, AgentStatus, AgentTrigger
from sokovan.orchestrator.agent_recovery import AWAY, rejoin
from sokovan.orchestrator.sessions.context import CycleInput, HandlerContext
from sokovan.orchestrator.sessions.session_writer import by_coordinator, by_report
from sokovan.ports.storage import UnitOfWork

_MISSED = by_coordinator("heartbeat-missed")
DEVICE_FAULT = "device-fault"
DEVICE_RECOVERED = "device-recovered"
_SILENT = frozenset({AgentTrigger.HEARTBEAT_MISSED, AgentTrigger.DECLARED_LOST})


# A session that saves its work often is written this often.
_STORED_EVERY_MS = 10_000
# Intervals without `attend` before the rest of the time counts as lag of the event loop.
_INTERVALS_LATE = 2


class HeartbeatMonitor:
    """Compares the silence of each agent with the timeouts.

    It counts from the last report that was new to this coordinator, and not from before it
    led: a manager that was down received no heartbeats. Nor did one whose event loop was
    busy read them, so that the time between two calls of `attend` counts up to a bound. A task
    calls it beside the cycles: in a cycle that only waits, for the store or for its requests,
    heartbeats are read.
    """

    name = "heartbeats"

    def __init__(self, context: HandlerContext) -> None:
        self._reports, self._batches, self._clock = context.reports, context.batches, context.clock
        self._timing = context.timing
        self._agents, self._telemetry = context.agents, context.telemetry
        # Time without the lag, and when on this scale each agent was heard last, with the time of that report.
        self._watched_ms = 0
        self._attended_ms: int | None = None
        self._heard: dict[AgentId, tuple[int | None, int]] = {}

    def clear(self) -> None:
        """Forget since when agents are known."""
        self._heard.clear()

    def attend(self) -> None:
        """Count the time since the last call, in which the event loop read heartbeats."""
        now_ms = self._clock.monotonic_ms()
        most_ms = round(_INTERVALS_LATE * self._timing.current.sweep_s * 1000)
        passed_ms = 0 if self._attended_ms is None else now_ms - self._attended_ms
        if passed_ms > most_ms:
            self._telemetry.observe("loop_stall_seconds", passed_ms / 1000)
        self._watched_ms += min(passed_ms, most_ms)
        self._attended_ms = now_ms

    async def handle(self, cycle: CycleInput) -> bool:
        """Move every agent whose heartbeat is overdue or has resumed."""
        self.attend()
        moves = [(one, trigger) for one, info in cycle.agents.items() if (trigger := self._trigger(info)) is not None]
        if any(trigger in _SILENT for _, trigger in moves):
            moves = await self._still_silent(moves)
        if not moves:
            return False
        written = await self._batches.write(moves, _move_agents)
        return any(written.results)

    async def _still_silent(self, moves: Sequence[tuple[AgentId, AgentTrigger]]) -> list[tuple[AgentId, AgentTrigger]]:
        """The moves without those of agents that were heard since the cycle began."""
        fresh = await self._agents.fresh()
        heard = {one for one, state in fresh.items() if self._reports.is_newer(state)}
        return [(one, trigger) for one, trigger in moves if trigger not in _SILENT or one not in heard]

    def _trigger(self, info: AgentInfo) -> AgentTrigger | None:
        if info.status is AgentStatus.TERMINATED:
            self._reports.forget(info.agent_id)
            return None
        timeouts, heard_ms = self._timing.current.heartbeats, self._reports.heard_ms(info.agent_id)
        known = self._heard.get(info.agent_id)
        if known is None or known[0] != heard_ms:
            known = self._heard[info.agent_id] = heard_ms, self._watched_ms
            if heard_ms is not None and info.status is AgentStatus.ALIVE:
                return None  # as nearly all agents are
        age_ms = self._watched_ms - known[1]
        if info.status in AWAY and heard_ms is not None and age_ms < timeouts.suspect_s * 1000:
            return AgentTrigger.HEARTBEAT_RESUMED if info.status is AgentStatus.SUSPECT else AgentTrigger.REJOINED
        if info.status is AgentStatus.ALIVE and age_ms >= timeouts.suspect_s * 1000:
            return AgentTrigger.HEARTBEAT_MISSED
        if info.status in {AgentStatus.SUSPECT, AgentStatus.DRAINING} and age_ms >= timeouts.lost_after_ms:
            return AgentTrigger.DECLARED_LOST
        return None


class StoreCheckpoints:
    """Stores when sessions last reported a checkpoint, each at most every few seconds.

    The last one before an end comes with the proof of the end.
    """

    name = "checkpoints"

    def __init__(self, context: HandlerContext) -> None:
        self._reports, self._sessions, self._batches = context.reports, context.sessions, context.batches

    def clear(self) -> None:
        """Nothing to reset."""

    async def handle(self, cycle: CycleInput) -> bool:
        """Store checkpoints that are much later than the stored ones."""
        del cycle
        later: dict[SessionId, int] = {}
        for report in self._reports.checkpoints():
            kernel = self._sessions.kernel(report.kernel_id)
            session = None if kernel is None else self._sessions.get(kernel.session_id)
            if kernel is None or session is None or report.checkpoint is None or kernel.attempt != report.attempt:
                continue
            at_ms = min(report.checkpoint.at_ms, self._sessions.now_ms)
            stored_ms = session.checkpoint_ms
            if stored_ms is None or at_ms - stored_ms >= _STORED_EVERY_MS:
                later[session.session_id] = max(at_ms, later.get(session.session_id, 0))
        written = await self._batches.write(list(later.items()), _save_checkpoints)
        self._sessions.mark_stale(written.results)
        return bool(written.results)


class DeviceFaultMonitor:
    """Takes devices with a fault out of scheduling, and returns those without.

    Kernels on them go on; the history of their sessions names the fault.
    """

    name = "device-faults"

    def __init__(self, context: HandlerContext) -> None:
        self._reports, self._sessions, self._batches = context.reports, context.sessions, context.batches
        self._writer, self._telemetry = context.writer, context.telemetry

    def clear(self) -> None:
        """Nothing to reset."""

    async def handle(self, cycle: CycleInput) -> bool:
        """Store the faults that differ from the stored ones."""
        found = [change for info in cycle.agents.values() if (change := self._change(info)) is not None]
        written = await self._batches.write(found, _store_faults)
        self._telemetry.gauge("devices_faulty", sum(len(info.health.faults) for info in cycle.agents.values()))
        for agent_id, faults in filter(None, written.results):
            await self._note_sessions(agent_id, faults)
        return any(written.results)

    def _change(self, info: AgentInfo) -> tuple[AgentId, int, Mapping[str, str]] | None:
        state = self._reports.state(info.agent_id)
        if state is None or (not state.faults and not info.health.faults):
            return None
        if state.incarnation != info.incarnation or info.has_left:
            return None
        is_new = info.health.with_faults(state.faults) != info.health
        return (info.agent_id, info.incarnation, state.faults) if is_new else None

    async def _note_sessions(self, agent_id: AgentId, faults: Mapping[str, str]) -> None:
        """Note the new faults in the histories of the sessions that hold these devices."""
        held: dict[str, set[SessionId]] = {}
        for kernel in self._sessions.kernels_on(agent_id):
            for device in {one for ids in kernel.devices.values() for one in ids} & faults.keys():
                held.setdefault(device, set()).add(kernel.session_id)
        for device, session_ids in sorted(held.items()):
            detail = f"device {device} of agent {agent_id} has a fault: {faults[device]}; its kernel goes on"
            await self._writer.note(sorted(session_ids), by_report(DEVICE_FAULT, detail), emit=True)


async def _store_faults(
    unit: UnitOfWork, batch: Sequence[tuple[AgentId, int, Mapping[str, str]]]
) -> Sequence[tuple[AgentId, Mapping[str, str]] | None]:
    return [await _store_faults_of(unit, *one) for one in batch]


async def _store_faults_of(
    unit: UnitOfWork, agent_id: AgentId, incarnation: int, faults: Mapping[str, str]
) -> tuple[AgentId, Mapping[str, str]] | None:
    """Store the faults of an agent; the new ones, or None if nothing was to be stored."""
    agent = await unit.fleet.get(agent_id)
    before = agent.info.health
    after = before.with_faults(faults)
    if agent.info.incarnation != incarnation or after == before:
        return None
    old, now = dict(before.faults), dict(after.faults)
    new = {one: fault for one, fault in now.items() if one not in old}
    texts = [f"{one}: {fault}" for one, fault in now.items() if old.get(one) != fault]
    texts += [f"{one} is healthy again" for one in old if one not in now]
    code = DEVICE_FAULT if len(texts) > len(old.keys() - now.keys()) else DEVICE_RECOVERED
    await unit.fleet.set_health(agent, after, by_report(code, "; ".join(texts)))
    return agent_id, new


async def _save_checkpoints(unit: UnitOfWork, batch: Sequence[tuple[SessionId, int]]) -> Sequence[SessionId]:
    return await unit.sessions.save_checkpoints(dict(batch))


async def _move_agents(unit: UnitOfWork, batch: Sequence[tuple[AgentId, AgentTrigger]]) -> Sequence[bool]:
    return [await _move(unit, agent_id, trigger) for agent_id, trigger in batch]


async def _move(unit: UnitOfWork, agent_id: AgentId, trigger: AgentTrigger) -> bool:
    if trigger in {AgentTrigger.HEARTBEAT_RESUMED, AgentTrigger.REJOINED}:
        return await rejoin(unit, agent_id)
    agent = await unit.fleet.get(agent_id)
    if trigger not in AGENT.legal_in(agent.info.status):
        return False  # it was moved concurrently
    await unit.fleet.move(agent, trigger, _MISSED)
    return True
