"""How an agent that was silent comes back, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.agent import AgentStatus, AgentTrigger
from sokovan.domain.lifecycle.kernel import HOLDS_SLOTS
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.records import Change, HistoryEntry, KernelRecord
from sokovan.ports.storage import UnitOfWork

_HEARD = Change("coordinator", Cause.AGENT_REPORT, "heartbeat-resumed")


async def came_back(unit: UnitOfWork, agent_id: AgentId) -> bool:
    """Move a SUSPECT or LOST agent back to work; whether it was one. Raises NotFound.

    It has the incarnation that it had.
    """
    agent = await unit.fleet.get(agent_id)
    if agent.info.status is AgentStatus.SUSPECT:
        await unit.fleet.move(agent, AgentTrigger.HEARTBEAT_RESUMED, _HEARD)
    elif agent.info.status is AgentStatus.LOST:
        drained = was_draining(await unit.fleet.history(agent_id))
        await unit.fleet.move(agent, AgentTrigger.REJOINED_DRAINING if drained else AgentTrigger.REJOINED, _HEARD)
    else:
        return False
    return True


def was_draining(history: Sequence[HistoryEntry]) -> bool:
    """Whether a lost agent was being drained, which an operator asked for."""
    lost = [entry for entry in history if entry.trigger == AgentTrigger.DECLARED_LOST.value]
    return bool(lost) and lost[-1].before == AgentStatus.DRAINING.value


def is_left_behind(kernel: KernelRecord, agent: AgentInfo) -> bool:
    """Whether the agent enrolled anew, and did not find this kernel on its machine.

    What it finds goes over to the new incarnation as it enrols; what does not, is over.
    """
    mine = kernel.agent_id == agent.agent_id and kernel.status in HOLDS_SLOTS
    return mine and kernel.incarnation is not None and kernel.incarnation < agent.incarnation
