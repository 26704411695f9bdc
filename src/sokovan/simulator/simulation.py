"""Runs a scenario: each scheduling cycle starts from the result of the one before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.eviction import RECLAIM
from sokovan.domain.owners.policy import Scope
from sokovan.domain.slots import ResourceSlot, total
from sokovan.scheduling.carried_state import CarriedState
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.plan import Eviction, Placement, Relocation, SchedulingPlan
from sokovan.scheduling.profile import group_of
from sokovan.scheduling.registry import BUILT_IN, PluginRegistry
from sokovan.scheduling.snapshot import KernelWorkload, OwnerUsage, SessionWorkload, SystemSnapshot
from sokovan.simulator.scenario import Scenario


@dataclass
class SimulationState:
    """State between cycles, with all decisions so far."""

    scenario: Scenario
    sessions: tuple[SessionWorkload, ...]
    carried: CarriedState = field(default_factory=CarriedState)
    placements: list[Placement] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    moves: list[Relocation] = field(default_factory=list)
    plan: SchedulingPlan = field(default_factory=SchedulingPlan)
    now_ms: int = 0
    gave_ms: dict[str, int] = field(default_factory=dict)

    def snapshot(self) -> SystemSnapshot:
        """The snapshot for the next cycle."""
        scenario = self.scenario
        return SystemSnapshot(
            agents=tuple(self._agent(index) for index in range(len(scenario.agents))),
            sessions=self.sessions,
            hypernodes=scenario.hypernodes,
            queues=scenario.queues,
            scaling_group=group_of(scenario.profile),
            now_ms=self.now_ms,
            usage=_usage(self.sessions),
            limits=scenario.limits,
            outcomes=scenario.outcomes,
            history=scenario.history,
            fair_share=scenario.fair_share,
            reservations=self.carried.reserved_for({session.session_id for session in self.sessions}),
            cursors=self.carried.cursors,
            bookings=scenario.bookings,
            gave_ms=self.gave_ms,
        )

    def step(self, registry: PluginRegistry = BUILT_IN) -> None:
        """Run one cycle and apply its plan."""
        self.plan = schedule(self.snapshot(), self.scenario.profile, registry)
        self.placements.extend(self.plan.placements)
        self.evictions.extend(self.plan.evictions)
        self.moves.extend(self.plan.moves)
        self.carried = self.carried.after(self.plan)
        placed = {placement.kernel_id: placement.agent_id for placement in self.plan.placements}
        placed.update({move.kernel_id: move.agent_id for move in self.plan.moves})
        evicted = {eviction.kernel_id for eviction in self.plan.evictions}
        before, started_ms = self.sessions, self.now_ms
        queues = {session.session_id: str(session.queue) for session in before}
        gave = [one.session_id for one in self.plan.evictions if one.action == RECLAIM]
        self.gave_ms.update({queues[session]: self.now_ms for session in gave})
        self.now_ms += self.scenario.cycle_ms
        after = [_after(session, placed, evicted, self.plan.domains) for session in before]
        loans = self.plan.loans
        after = [replace(one, loan=loans.get(one.session_id, one.loan)) for one in after]
        moved = {move.session_id for move in self.plan.moves}
        after = [replace(one, moved_ms=started_ms) if one.session_id in moved else one for one in after]
        timed = [_timed(one, was, started_ms) for one, was in zip(after, before, strict=True)]
        self.sessions = tuple(session for session in timed if not _over(session, self.now_ms))

    def _agent(self, index: int) -> AgentInfo:
        agent = self.scenario.agents[index]
        here = [k for s in self.sessions for k in s.kernels if k.agent == agent.agent_id]
        leaving = [kernel for kernel in here if kernel.releasing]
        return replace(
            agent,
            occupied_slots=total(kernel.slots for kernel in here),
            kernel_count=len(here),
            releasing_slots=total(kernel.slots for kernel in leaving),
            releasing_count=len(leaving),
        )


def initial_state(scenario: Scenario) -> SimulationState:
    """State before the first cycle."""
    cursors = {"default": scenario.cursor} if scenario.cursor is not None else {}
    return SimulationState(scenario, scenario.sessions, CarriedState(cursors=cursors), now_ms=scenario.now_ms)


def run(scenario: Scenario, registry: PluginRegistry = BUILT_IN) -> SimulationState:
    """State after all cycles of the scenario."""
    state = initial_state(scenario)
    for _ in range(scenario.cycles):
        state.step(registry)
    return state


def _after(
    session: SessionWorkload,
    placed: Mapping[KernelId, AgentId],
    evicted: set[KernelId],
    domains: Mapping[SessionId, str],
) -> SessionWorkload:
    """The session after a cycle: placed kernels run, evicted and released ones are removed."""
    kernels = tuple(
        _moved(kernel, placed) for kernel in session.kernels if kernel.kernel_id not in evicted and not kernel.releasing
    )
    hypernode = domains.get(session.session_id, session.hypernode)
    return replace(session, kernels=kernels, hypernode=hypernode)


def _timed(session: SessionWorkload, before: SessionWorkload, started_ms: int) -> SessionWorkload:
    """The session with the time at which it began to run, if it did."""
    return replace(session, running_since_ms=started_ms) if before.waits and not session.waits else session


def _over(session: SessionWorkload, now_ms: int) -> bool:
    """Whether a session has run until the end of its time limit and grace."""
    return session.running_since_ms is not None and session.ends_by(session.running_since_ms) <= now_ms


def _moved(kernel: KernelWorkload, placed: Mapping[KernelId, AgentId]) -> KernelWorkload:
    agent = placed.get(kernel.kernel_id)
    return kernel if agent is None else replace(kernel, agent=agent)


def _usage(sessions: tuple[SessionWorkload, ...]) -> dict[Scope, dict[str, OwnerUsage]]:
    """Usage of every owner in every scope, as the ledger records it."""
    slots: dict[tuple[Scope, str], list[ResourceSlot]] = {}
    counts: dict[tuple[Scope, str], int] = {}
    for session in sessions:
        running = [kernel.slots for kernel in session.kernels if kernel.agent is not None]
        if running and session.session_type.is_charged:
            for key in session.owner.scopes:
                slots.setdefault(key, []).extend(running)
                counts[key] = counts.get(key, 0) + 1
    usage: dict[Scope, dict[str, OwnerUsage]] = {}
    for (scope, name), parts in slots.items():
        usage.setdefault(scope, {})[name] = OwnerUsage(total(parts), counts[scope, name])
    return usage
