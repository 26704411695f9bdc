"""Calls a selector in both forms: with objects, and through a whole cycle with arrays."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.scaling_group import SLOT_PRIORITY_DEFAULT, ScalingGroup
from sokovan.domain.ids import AgentId, ScalingGroupName
from sokovan.domain.slot_notation import parse_slots
from sokovan.scheduling.registry import BUILT_IN
from sokovan.scheduling.selectors.base import AgentSelectionCriteria, ResourceRequirements
from tests.unit.scheduling.little_cluster import decide, session, snapshot, where


def chosen(
    selector: str,
    agents: Sequence[AgentInfo],
    ask: str = "cpu=1",
    *,
    last: str | None = None,
    slot_priority: tuple[str, ...] = SLOT_PRIORITY_DEFAULT,
) -> str:
    """The agent that a selector takes; both forms must agree, in any order of the agents."""
    cursor = AgentId(last) if last is not None else None
    criteria = AgentSelectionCriteria(slot_priority, last_agent=cursor)
    group = ScalingGroup(ScalingGroupName("default"), slot_priority=slot_priority)
    cursors = {"default": cursor} if cursor is not None else {}
    answers = set()
    for listed in (list(agents), list(reversed(agents))):
        plain = BUILT_IN.selector(selector).select(ResourceRequirements(parse_slots(ask)), listed, criteria)
        seen = snapshot(listed, [session("s", ask)], scaling_group=group, cursors=cursors)
        answers |= {plain.agent_id, where(decide(seen, selector=selector))["s.0"]}
    assert len(answers) == 1, f"the forms do not agree: {sorted(answers)}"
    return str(answers.pop())
