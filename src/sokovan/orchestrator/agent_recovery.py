"""Moves agents whose heartbeat resumed back to work, and finds kernels they lost."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.agent import AgentStatus, AgentTrigger
from sokovan.domain.lifecycle.kernel import HOLDS_SLOTS
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.records import Change, HistoryEntry, KernelRecord
from sokovan.ports.storage import UnitOfWork

AWAY = frozenset({AgentStatus.SUSPECT, AgentStatus.LOST})
_RESUMED = Change("coordinator", Cause.AGENT_REPORT, "heartbeat-resumed")


async def rejoin(unit: UnitOfWork, agent_id: AgentId) -> bool:
    """Move a SUSPECT or LOST agent back; whether it was one. Raises NotFound.

    Its incarnation does not change.
    """
    agent = await unit.fleet.get(agent_id)
    if agent.info.status is AgentStatus.SUSPECT:
        await unit.fleet.move(agent, AgentTrigger.HEARTBEAT_RESUMED, _RESUMED)
    elif agent.info.status is AgentStatus.LOST:
        drained = was_draining(await unit.fleet.history(agent_id))
        await unit.fleet.move(agent, AgentTrigger.REJOINED_DRAINING if drained else AgentTrigger.REJOINED, _RESUMED)
    else:
        return False
    return True


def was_draining(history: Sequence[HistoryEntry]) -> bool:
    """Whether an agent was draining when it was declared lost."""
    lost = [entry for entry in history if entry.trigger == AgentTrigger.DECLARED_LOST.value]
    return bool(lost) and lost[-1].before == AgentStatus.DRAINING.value


def is_left_behind(kernel: KernelRecord, agent: AgentInfo) -> bool:
    """Whether the agent re-enrolled without this kernel.

    Kernels that it finds are adopted by the new incarnation; the others are gone.
    """
    held = kernel.agent_id == agent.agent_id and kernel.status in HOLDS_SLOTS
    return held and kernel.incarnation is not None and kernel.incarnation < agent.incarnation
