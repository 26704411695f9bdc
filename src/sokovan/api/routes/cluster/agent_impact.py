"""The impact of an action on an agent, before it is taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sokovan.api.access.lookup import agent_named
from sokovan.api.mapping.agent_actions import ACTIONS, UNDRAIN
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.agent import AGENT, AgentStatus
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.records import AgentRecord
from sokovan.domain.slots import NO_SLOTS, ResourceSlot, total
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.fleet import AgentImpactSession, AgentImpactView

SESSIONS_LISTED = 200


async def agent_impact(unit: UnitOfWork, name: str, action: str) -> AgentImpactView:
    """The impact of a known action. Raises ObjectNotFound, IllegalTransition."""
    record = await agent_named(unit, name)
    info = record.info
    trigger, goal = ACTIONS[action]
    after = info.status if info.status is goal else AGENT.after(info.status, trigger, by=Cause.CONTROLLER)
    group = await unit.fleet.all(scaling_group=info.scaling_group)
    others = [one for one in group if one.info.schedulable and one.info.agent_id != info.agent_id]
    # To undrain an agent also clears why it fails.
    opens = after is AgentStatus.ALIVE and (action == UNDRAIN or info.schedulable)
    sessions, left_out, kernels = await _sessions(unit, record, drains=after is AgentStatus.DRAINING)
    return AgentImpactView(
        agent=info.agent_id,
        action=action,
        before=info.status.value,
        after=after.value,
        ends_kernels=after is AgentStatus.TERMINATED,
        kernels=kernels,
        used=dict(info.occupied_slots),
        sessions=sessions,
        left_out=left_out,
        scaling_group=info.scaling_group,
        group_agents=len(others) + info.schedulable,
        group_agents_after=len(others) + opens,
        group_free=dict(_free(others, info.free_slots if info.schedulable else NO_SLOTS)),
        group_free_after=dict(_free(others, info.free_slots if opens else NO_SLOTS)),
    )


def _free(agents: Sequence[AgentRecord], own: ResourceSlot) -> ResourceSlot:
    return total([*(one.info.free_slots for one in agents), own])


async def _sessions(unit: UnitOfWork, agent: AgentRecord, *, drains: bool) -> tuple[list[AgentImpactSession], int, int]:
    """The sessions with kernels on an agent, how many more there are, and the kernels."""
    on_agent = await unit.ledger.kernels_on(agent.info.agent_id)
    kernels = Counter(SessionId(one.session_id) for one in on_agent)
    ids = tuple(one for one, _ in kernels.most_common(SESSIONS_LISTED))
    found = await unit.sessions.summaries(SessionFilter(ids=ids), limit=SESSIONS_LISTED) if ids else []
    views = [
        AgentImpactSession(
            id=one.session_id,
            name=one.spec.name or one.session_id,
            user=one.spec.owner.user,
            queue=one.spec.queue,
            status=one.status.value,
            kernels=kernels[one.session_id],
            size=one.spec.size,
            moves=drains and one.spec.replica is not None,
        )
        for one in found
    ]
    views.sort(key=lambda one: (-one.kernels, one.name))
    return views, len(kernels) - len(views), len(on_agent)
