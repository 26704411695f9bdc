"""A scenario in a store: the scheduler of the orchestrator runs its cycles.

The simulator keeps sessions, usage and carried state in memory. Here they are rows: each
cycle starts from the snapshot that the store gives and ends with the allocator.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.cluster.topology_rules import Topology
from sokovan.domain.constraints.placement import PlacementConstraints
from sokovan.domain.ids import AccessKey, AgentId, KernelId, ScalingGroupName, SessionId
from sokovan.domain.lifecycle.agent import AgentStatus, AgentTrigger
from sokovan.domain.lifecycle.kernel import KERNEL, FreeProof, KernelStatus, KernelTrigger
from sokovan.domain.owners.past_usage import UsageKey
from sokovan.domain.owners.policy import Scope
from sokovan.domain.owners.tenancy import DEFAULT_OWNER_NAME, Domain, Group, Keypair, Owner, User
from sokovan.domain.records import KernelMove, KernelRecord, SessionRecord
from sokovan.domain.session import KernelSpec, SessionSpec
from sokovan.domain.slots import ResourceSlot
from sokovan.orchestrator.batch_writer import BatchWriter
from sokovan.orchestrator.sessions.scheduler import Scheduler
from sokovan.orchestrator.sessions.verdict_cache import VerdictCache
from sokovan.ports.allocation import Assignment
from sokovan.ports.repositories.catalog import CatalogItem
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.storage import UnitOfWork
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.profile import SchedulingProfile, group_of
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload, SystemSnapshot
from sokovan.simulator.scenario import Scenario
from sokovan.testing.clock import VirtualClock
from sokovan.testing.ledger_rows import add_past_usage
from sokovan.testing.stored_cluster import (
    BY_AGENT,
    BY_COORDINATOR,
    BY_USER,
    DEFAULT_GROUP,
    StoredCluster,
    devices_of,
    submit_all,
)

# For sessions that are not part of the scenario.
ELSEWHERE = ScalingGroup(name=ScalingGroupName("elsewhere"))
_AGENT_ELSEWHERE = AgentInfo(
    AgentId("elsewhere"), ResourceSlot({"cpu": 2000, "tpu.device": 1}), scaling_group=ELSEWHERE.name
)
_OTHER_OWNER = Owner(user="other", access_key=AccessKey("other"))
_TO_STATUS = {
    AgentStatus.DRAINING: [(AgentTrigger.DRAIN_REQUESTED, BY_USER)],
    AgentStatus.SUSPECT: [(AgentTrigger.HEARTBEAT_MISSED, BY_COORDINATOR)],
    AgentStatus.LOST: [(AgentTrigger.HEARTBEAT_MISSED, BY_COORDINATOR), (AgentTrigger.DECLARED_LOST, BY_COORDINATOR)],
    AgentStatus.TERMINATED: [(AgentTrigger.LEFT, BY_AGENT)],
}
# No move to RUNNING leads from these.
_STARTED = {KernelStatus.RUNNING, KernelStatus.TERMINATING}
_TO_RUNNING = (
    (KernelTrigger.IMAGE_READY, BY_COORDINATOR),
    (KernelTrigger.CREATION_REQUESTED, BY_COORDINATOR),
    (KernelTrigger.STARTED, BY_AGENT),
)


# Records of usage in scenarios are weighted already: of this slot one unit counts one.
_USED_SLOT = "cpu"


class StoredScenario:
    """The store of a scenario, and its scheduler."""

    def __init__(self, scenario: Scenario, stored: StoredCluster, clock: VirtualClock) -> None:
        self._scenario, self._stored = scenario, stored
        verdicts = VerdictCache(BatchWriter(stored.store), clock)
        self._scheduler = Scheduler(stored.snapshots, stored.allocator, verdicts, clock=clock, decide=self._decide)
        self._plan = SchedulingPlan()

    @classmethod
    @asynccontextmanager
    async def open(cls, scenario: Scenario) -> AsyncIterator[StoredScenario]:
        """A store with the cluster and the sessions of a scenario."""
        clock = VirtualClock(now_ms=min([scenario.now_ms, *(one.at_ms for one in scenario.history)]))
        async with StoredCluster.open(clock=clock) as stored:
            made = cls(scenario, stored, clock)
            await made._use_before(clock)
            await made._load()
            yield made

    async def cycle(self) -> SchedulingPlan:
        """Run a cycle, then start the placed kernels and free the releasing ones; the plan."""
        self._plan = SchedulingPlan()
        await self._scheduler.refresh()
        report = await self._scheduler.run(fence=None, always=True)
        if report.refused or report.failed_groups:
            raise AssertionError(f"the plan was refused: {report.refused} {report.failed_groups}")
        await self._free_releasing()
        await self._start([placement.session_id for placement in self._plan.placements])
        return self._plan

    async def agents_of_kernels(self) -> dict[KernelId, AgentId | None]:
        """The agent of every kernel that has not ended; None while it waits."""
        kernels = await self._kernels(session.session_id for session in self._scenario.sessions)
        return {one.kernel_id: one.agent_id for one in kernels if one.status not in KERNEL.terminal}

    async def _decide(self, snapshot: SystemSnapshot, profile: SchedulingProfile) -> SchedulingPlan:
        plan = schedule(snapshot, profile)
        if snapshot.scaling_group.name == DEFAULT_GROUP:
            self._plan = plan
        return plan

    async def _load(self) -> None:
        """Running sessions come before limits and states of agents, which need not admit them."""
        scenario, stored = self._scenario, self._stored
        await stored.store.run(self._write_cluster)
        await self._submit_dependencies()
        if scenario.sessions and not scenario.limits:
            await self._use_elsewhere(scenario.sessions[0].owner)
        await submit_all(stored.store, [_spec(session) for session in scenario.sessions])
        await self._place_running()
        await stored.store.run(self._write_limits_and_statuses)
        if scenario.cursor is not None:
            await stored.snapshots.refresh()
            plan = SchedulingPlan(cursors={DEFAULT_GROUP: scenario.cursor})
            await stored.snapshots.record_plan(DEFAULT_GROUP, plan)

    async def _use_before(self, clock: VirtualClock) -> None:
        """Record past usage, each amount at its time; it ends at the time of the first cycle."""
        scenario, stored = self._scenario, self._stored
        half_life_s, weights = scenario.fair_share.half_life_s, {_USED_SLOT: 1}
        pool = replace(group_of(scenario.profile), usage_half_life_s=half_life_s, slot_weights=weights)
        await stored.put(pool)
        for record in sorted(scenario.history, key=lambda one: one.at_ms):
            clock.jump((record.at_ms - clock.now_ms()) / 1000)
            key = UsageKey(pool.name, record.scope, record.name, _USED_SLOT)
            await add_past_usage(stored.store, key, record.amount)
        clock.jump((scenario.now_ms - clock.now_ms()) / 1000)

    async def _write_cluster(self, unit: UnitOfWork) -> None:
        scenario = self._scenario
        await unit.catalog.put(ELSEWHERE, *scenario.queues)
        for agent in (*map(_joining, scenario.agents), _AGENT_ELSEWHERE):
            await unit.fleet.enrol(agent, BY_AGENT, devices=devices_of(agent.available_slots))
        await unit.catalog.put(Topology(hypernodes=tuple(scenario.hypernodes)))

    async def _write_limits_and_statuses(self, unit: UnitOfWork) -> None:
        await unit.catalog.put(*_owners(self._scenario))
        for agent in self._scenario.agents:
            for trigger, change in _TO_STATUS.get(agent.status, ()):
                await unit.fleet.move(await unit.fleet.get(agent.agent_id), trigger, change)

    async def _submit_dependencies(self) -> None:
        """Sessions that others depend on: ended as the scenario says, or pending elsewhere."""
        own = {session.session_id for session in self._scenario.sessions}
        named = {name for session in self._scenario.sessions for name in session.dependencies} - own
        for name in sorted(named):
            outcome = self._scenario.outcomes.get(name)
            slots = {"cpu": 1000 if outcome is not None else 9000}
            await self._stored.submit(name, slots=slots, owner=_OTHER_OWNER, scaling_group=ELSEWHERE.name)
            if outcome is not None:
                await self._stored.place(name, "elsewhere")
                await self._stored.start(name)
                await self._stored.move(name, KernelTrigger.EXITED, BY_AGENT, exit_code=int(not outcome))
                await self._stored.free(name, FreeProof.AGENT_TOMBSTONE)

    async def _use_elsewhere(self, owner: Owner) -> None:
        """Run a session of one user in another scaling group: without limits it matters nowhere else."""
        slots = {"cpu": 1000, "tpu.device": 1}
        await self._stored.submit("beside", slots=slots, owner=owner, scaling_group=ELSEWHERE.name)
        await self._stored.place("beside", "elsewhere")

    async def _place_running(self) -> None:
        running = [assigned for assigned in map(_running, self._scenario.sessions) if assigned.kernels]
        if not running:
            return
        result = await self._stored.place_all(running)
        for error in result.refused.values():
            raise error
        names = [one.session_id for one in running]
        await self._start(names)
        kernels = [kernel for session in self._scenario.sessions for kernel in session.kernels]
        releasing = {kernel.kernel_id for kernel in kernels if kernel.releasing}
        moves = [
            KernelMove(one, KernelTrigger.STOP_REQUESTED)
            for one in (await self._kernels(names) if releasing else ())
            if one.kernel_id in releasing
        ]
        if moves:
            await self._stored.store.run(lambda unit: unit.sessions.move_many(moves, BY_COORDINATOR))

    async def _kernels(self, sessions: Iterable[SessionId]) -> list[KernelRecord]:
        wanted = SessionFilter(ids=frozenset(sessions))
        found = await self._stored.store.read(lambda unit: _records(unit, wanted))
        return [kernel for session in found for kernel in session.kernels]

    async def _start(self, sessions: Sequence[SessionId]) -> None:
        """Bring the kernels that have an agent to RUNNING, in one transaction."""
        if not sessions:
            return
        wanted = SessionFilter(ids=frozenset(sessions))

        async def work(unit: UnitOfWork) -> None:
            for trigger, change in _TO_RUNNING:
                kernels = [kernel for session in await _records(unit, wanted) for kernel in session.kernels]
                new = [one for one in kernels if one.agent_id is not None and one.status not in _STARTED]
                await unit.sessions.move_many([KernelMove(kernel, trigger) for kernel in new], change)

        await self._stored.store.run(work)

    async def _free_releasing(self) -> None:
        kernels = await self._kernels(session.session_id for session in self._scenario.sessions)
        leaving = [one for one in kernels if one.status is KernelStatus.TERMINATING]
        if leaving:
            proof = FreeProof.AGENT_TOMBSTONE
            await self._stored.store.run(lambda unit: unit.ledger.free(leaving, proof, BY_COORDINATOR))


async def _records(unit: UnitOfWork, wanted: SessionFilter) -> Sequence[SessionRecord]:
    """Some sessions; none if none is named."""
    return await unit.sessions.page(wanted, limit=len(wanted.ids)) if wanted.ids else []


def _joining(agent: AgentInfo) -> AgentInfo:
    """The agent as it joins: alive, with nothing on it."""
    return AgentInfo(
        agent.agent_id,
        agent.available_slots,
        architecture=agent.architecture,
        labels=agent.labels,
        kernels_max=agent.kernels_max,
        shard=agent.shard,
        cached_images=agent.cached_images,
    )


def _running(session: SessionWorkload) -> Assignment:
    """The kernels of a session that have an agent from the start."""
    placed = tuple((kernel.kernel_id, kernel.agent) for kernel in session.kernels if kernel.agent is not None)
    return Assignment(session.session_id, placed, hypernode=session.hypernode)


def _spec(session: SessionWorkload) -> SessionSpec:
    return SessionSpec(
        session.session_id,
        tuple(map(_kernel_spec, session.kernels)),
        session_type=session.session_type,
        owner=session.owner,
        queue=session.queue,
        priority=session.priority,
        min_kernels=session.min_kernels,
        group_minimums=session.group_minimums,
        partitions=session.partitions,
        topology=session.topology,
        dependencies=session.dependencies,
        starts_at_ms=session.starts_at_ms,
        time_limit_s=None if session.time_limit_ms is None else session.time_limit_ms // 1000,
        stop_grace_s=session.grace_ms // 1000,
        deadline_ms=session.deadline_ms,
        borrow=session.borrow,
        migratable=session.migratable,
        gates=session.gates,
        preemptible=session.preemptible,
        preemption=session.preemption,
        **_options(session.kernels[0].constraints),
    )


def _options(constraints: PlacementConstraints | None) -> dict[str, Any]:
    """The options of a session that its kernels carry as constraints."""
    if constraints is None:
        return {}
    names = ("where", "tolerations", "affinity", "anti_affinity")
    return {"labels": dict(constraints.labels), **{name: getattr(constraints, name) for name in names}}


def _kernel_spec(kernel: KernelWorkload) -> KernelSpec:
    return KernelSpec(
        kernel.kernel_id,
        kernel.slots,
        group=kernel.group,
        image=kernel.image,
        architecture=kernel.architecture,
        labels=kernel.labels,
        require=kernel.require,
        priority=kernel.priority,
        preemptible=kernel.preemptible,
        nominated=kernel.nominated,
    )


def _owners(scenario: Scenario) -> list[CatalogItem]:
    """Users with their weights, and the limited owners, each with a policy of its own."""
    items: list[CatalogItem] = [Domain(DEFAULT_OWNER_NAME), User(DEFAULT_OWNER_NAME, DEFAULT_OWNER_NAME)]
    items += [User(name, DEFAULT_OWNER_NAME, weight=weight) for name, weight in scenario.fair_share.weights.items()]
    for scope, limits in scenario.limits.items():
        for name, limit in limits.items():
            policy = f"{scope.value}-{name}"
            items += [replace(limit, name=policy), _owner(scope, name, policy)]
    return items


def _owner(scope: Scope, name: str, policy: str) -> CatalogItem:
    match scope:
        case Scope.DOMAIN:
            return Domain(name, policy=policy)
        case Scope.GROUP:
            return Group(name, DEFAULT_OWNER_NAME, policy=policy)
        case Scope.USER:
            return User(name, DEFAULT_OWNER_NAME, policy=policy)
        case Scope.KEYPAIR:
            return Keypair(AccessKey(name), DEFAULT_OWNER_NAME, policy=policy)
