"""In-memory view of the system, from which snapshots are built."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sokovan.adapters.sql.repositories.sessions.session_rows import slots_of
from sokovan.adapters.sql.schema.tables import SESSIONS_SLOT
from sokovan.adapters.sql.snapshots.hypernode_cache import HyperNodeCache
from sokovan.adapters.sql.snapshots.past_evictions import PastEvictions, overdue_ms
from sokovan.adapters.sql.snapshots.workloads import RELEASING, session_workload
from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.errors import ObjectNotFound
from sokovan.domain.ids import AgentId, ScalingGroupName, SessionId
from sokovan.domain.owners.past_usage import UsageScope
from sokovan.domain.owners.policy import ResourcePolicy, Scope
from sokovan.domain.records import SessionResult
from sokovan.domain.slots import ResourceSlot, total
from sokovan.scheduling.carried_state import CarriedState
from sokovan.scheduling.snapshot import (
    Booking,
    FairSharePolicy,
    OwnerUsage,
    SessionWorkload,
    SystemSnapshot,
    UsageRecord,
)


class SystemView:
    """The state of the last refresh; updating one object costs only that object."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.scaling_groups: dict[ScalingGroupName, ScalingGroup] = {}
        self.queues: tuple[Queue, ...] = ()
        self.bookings: tuple[Booking, ...] = ()
        self.hypernodes = HyperNodeCache()
        self.limits: Mapping[Scope, Mapping[str, ResourcePolicy]] = {}
        self.agents: dict[AgentId, AgentInfo] = {}
        # Of large sessions, as their kernels were read last.
        self.digests: dict[str, tuple[object, ...]] = {}
        self.outcomes: dict[SessionId, bool] = {}
        # Ids, of which those of arrays may have another outcome than before.
        self.unsettled: set[str] = set()
        self._waiting_for: Counter[SessionId] = Counter()
        self._sessions: dict[str, dict[SessionId, SessionWorkload]] = {}
        # The scaling groups of sessions that were read, and have not ended.
        self.group_of: dict[SessionId, str] = {}
        self._releasing: dict[str, AgentId] = {}
        self._releasing_on: dict[AgentId, dict[str, tuple[ResourceSlot, int]]] = {}
        self._used: dict[tuple[str, str], dict[str, int]] = {}
        self._usage: dict[Scope, dict[str, OwnerUsage]] = {scope: {} for scope in Scope}
        self.weights: Mapping[str, int] = {}
        self.group_weights: Mapping[str, int] = {}
        self._past: dict[str, dict[tuple[str, str, str], UsageRecord]] = {}
        self.past_evictions = PastEvictions()
        self._carried: dict[ScalingGroupName, CarriedState] = {}
        self._snapshots: dict[str, SystemSnapshot] = {}
        self._current: set[str] = set()

    def changed(self) -> None:
        """Invalidate all snapshots after an update."""
        self._current.clear()

    def set_scaling_groups(self, groups: Iterable[ScalingGroup]) -> None:
        """Replace the scaling groups."""
        self.scaling_groups = {group.name: group for group in groups}

    def put_session(self, row: Any, kernels: Sequence[Any] | None, *, ended: bool) -> None:
        """Update a session; an ended one is removed, and its result kept while needed.

        Without `kernels` these are as they were.
        """
        session_id = SessionId(row.session_id)
        for kernel in kernels or ():
            if kernel.status == RELEASING:
                self.set_releasing(kernel, late_ms=overdue_ms(row.evictions))
            else:
                self._forget_releasing(kernel.kernel_id)
        before = self._drop_session(session_id)
        self.past_evictions.put(row, ended=ended)
        self.past_evictions.taker_changed(row)
        if ended:
            if session_id in self._waiting_for:
                self.outcomes[session_id] = row.result == SessionResult.SUCCESS.value
            if row.array_id in self._waiting_for:
                self.unsettled.add(row.array_id)
            return
        session = session_workload(row, kernels, before)
        self.group_of[session_id] = row.scaling_group
        self._sessions.setdefault(row.scaling_group, {})[session_id] = session
        self._waiting_for.update(session.dependencies)
        self.unsettled.update(session.dependencies)

    def dependencies_of(self, session_ids: Iterable[str]) -> list[str]:
        """The sessions and arrays that these sessions depend on, each once."""
        known = [self._sessions[self.group_of[one]][one] for one in map(SessionId, session_ids)]
        return list(dict.fromkeys(other for session in known for other in session.dependencies))

    def _drop_session(self, session_id: SessionId) -> SessionWorkload | None:
        """Remove a session, and results of dependencies that no session waits for; returns it."""
        self.digests.pop(session_id, None)
        known = self._sessions.get(self.group_of.pop(session_id, ""), {}).pop(session_id, None)
        for dependency in () if known is None else known.dependencies:
            self._waiting_for[dependency] -= 1
            if not self._waiting_for[dependency]:
                del self._waiting_for[dependency]
                self.outcomes.pop(dependency, None)
        return known

    def set_releasing(self, kernel: Any, *, late_ms: int) -> None:
        """Record a TERMINATING kernel that still holds its slots.

        They are expected to be free by `late_ms`.
        """
        agent = AgentId(kernel.agent_id)
        self._releasing[kernel.kernel_id] = agent
        self._releasing_on.setdefault(agent, {})[kernel.kernel_id] = (slots_of(kernel.slots), late_ms)

    def _forget_releasing(self, kernel_id: str) -> None:
        known = self._releasing.pop(kernel_id, None)
        if known is not None:
            self._releasing_on[known].pop(kernel_id, None)

    def put_agent(self, info: AgentInfo) -> None:
        """Update an agent, without its releasing slots."""
        self.hypernodes.agent_changed(self.agents.get(info.agent_id), info)
        self.agents[info.agent_id] = info

    def put_usage(self, scope: str, name: str, slot: str, used: int) -> None:
        """Update an owner's usage of a slot."""
        amounts = self._used.setdefault((scope, name), {})
        amounts[slot] = used
        slots = ResourceSlot({key: amount for key, amount in amounts.items() if key != SESSIONS_SLOT})
        self._usage[Scope(scope)][name] = OwnerUsage(slots=slots, sessions=amounts.get(SESSIONS_SLOT, 0))

    def put_past_usage(self, row: Any) -> None:
        """Update the past usage of a slot by a user, group or queue."""
        record = UsageRecord(row.name, row.at_ms, row.amount, UsageScope(row.scope), row.slot, row.held)
        self._past.setdefault(row.scaling_group, {})[row.scope, row.name, row.slot] = record

    def _fair_share(self, group: ScalingGroupName) -> FairSharePolicy:
        stored = self.scaling_groups[group]
        return FairSharePolicy(stored.usage_half_life_s, self.weights, self.group_weights, stored.slot_weights)

    def carry(self, group: ScalingGroupName, state: CarriedState) -> None:
        """Update the carried state of a scaling group."""
        self._carried[group] = state
        self._current.discard(group)

    def carry_all(self, states: Mapping[ScalingGroupName, CarriedState]) -> None:
        """Replace the carried state of all scaling groups."""
        self._carried = dict(states)
        self._current.clear()

    def carried(self, group: ScalingGroupName) -> CarriedState:
        """The carried state of a scaling group."""
        return self._carried.get(group, CarriedState())

    def snapshot(self, group: ScalingGroupName) -> SystemSnapshot:
        """The snapshot of a scaling group. Raises ObjectNotFound."""
        if group not in self.scaling_groups:
            raise ObjectNotFound(what="scaling group", name=group)
        known = self._snapshots.get(group)
        current = known if known and group in self._current else self._build(group)
        gave_ms, lately = self.past_evictions.of(group, self.now_ms)
        bookings = tuple(booking for booking in self.bookings if booking.to_ms > self.now_ms)
        snapshot = replace(current, now_ms=self.now_ms, gave_ms=gave_ms, evicted_lately=lately, bookings=bookings)
        if known is not None and "tree" in vars(known) and _same_topology(known, snapshot):
            # Reused: the tree takes longer to build than the rest, and depends only on agents and HyperNodes.
            vars(snapshot)["tree"] = known.tree
        self._snapshots[group] = snapshot
        self._current.add(group)
        return snapshot

    def _build(self, group: ScalingGroupName) -> SystemSnapshot:
        sessions, past = self._sessions.get(group, {}), self._past.get(group, {})
        carried = self.carried(group)
        rooms_back = {one: at for one, at in self._rooms_back(group).items() if one in sessions}
        if rooms_back:
            sessions = {**sessions, **{one: replace(sessions[one], room_back_ms=at) for one, at in rooms_back.items()}}
        agents = tuple(self._with_releasing(one) for one in self.agents.values() if one.scaling_group == group)
        return SystemSnapshot(
            agents=agents,
            sessions=tuple(sessions.values()),
            hypernodes=self.hypernodes.over(self.agents.values(), agents),
            queues=self.queues,
            scaling_group=self.scaling_groups[group],
            now_ms=self.now_ms,
            usage={scope: dict(owners) for scope, owners in self._usage.items()},
            limits=self.limits,
            pending_elsewhere=self._pending_elsewhere(group),
            outcomes=dict(self.outcomes),
            # In the order of their keys: rows come in no order, and equal states give equal snapshots.
            history=tuple(past[key] for key in sorted(past)),
            fair_share=self._fair_share(group),
            reservations=carried.reserved_for(sessions),
            cursors=carried.cursors,
        )

    def _rooms_back(self, group: ScalingGroupName) -> Mapping[SessionId, int]:
        return self.past_evictions.rooms_back(group, {booking.name for booking in self.bookings})

    def _with_releasing(self, info: AgentInfo) -> AgentInfo:
        kernels = self._releasing_on.get(info.agent_id)
        expected = [slots for slots, late_ms in kernels.values() if late_ms > self.now_ms] if kernels else []
        return replace(info, releasing_slots=total(expected), releasing_count=len(expected)) if expected else info

    def _pending_elsewhere(self, group: ScalingGroupName) -> tuple[SessionWorkload, ...]:
        """The waiting sessions of other scaling groups whose owners have a limit on them, in some scope."""
        limited = {
            scope: names
            for scope, owners in self.limits.items()
            if (names := {name for name, policy in owners.items() if policy.limits_pending})
        }
        if not limited:
            return ()
        found = [
            session
            for other, sessions in self._sessions.items()
            if other != group
            for session in sessions.values()
            if any(session.owner.name_in(scope) in names for scope, names in limited.items()) and session.waits
        ]
        return tuple(sorted(found, key=lambda session: session.session_id))


def _same_topology(first: SystemSnapshot, second: SystemSnapshot) -> bool:
    """Whether two snapshots have the same agents and HyperNodes."""
    return (
        first.hypernodes == second.hypernodes
        and len(first.agents) == len(second.agents)
        and all(one.agent_id == other.agent_id for one, other in zip(first.agents, second.agents, strict=True))
    )
