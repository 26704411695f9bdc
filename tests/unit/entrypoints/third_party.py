"""Plugins as another package would bring them."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.scheduling.extensions import SchedulingPlugin
from sokovan.scheduling.selectors.base import (
    AgentSelection,
    AgentSelectionCriteria,
    AgentSelector,
    ResourceRequirements,
)
from sokovan.scheduling.sequencers.base import SequencingContext, WorkloadSequencer
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload
from sokovan.scheduling.validators.base import SchedulingValidationError, ValidationContext, ValidatorRule

NOT_A_CLASS = "a text"


class LastById(AgentSelector):
    """Takes the last agent by id."""

    name = "last"

    def select(
        self, requirements: ResourceRequirements, agents: Sequence[AgentInfo], criteria: AgentSelectionCriteria
    ) -> AgentSelection:
        """The last of those that fit."""
        del criteria
        return AgentSelection(max(one.agent_id for one in self._filter_by_resources(agents, requirements)))


class Alphabetical(WorkloadSequencer):
    """Orders sessions by id."""

    name = "alphabetical"

    def sequence(self, sessions: Sequence[SessionWorkload], context: SequencingContext) -> Sequence[SessionWorkload]:
        """By id."""
        del context
        return sorted(sessions, key=lambda one: one.session_id)


class Nobody(ValidatorRule):
    """Refuses all sessions."""

    name = "nobody"

    def validate(self, session: SessionWorkload, context: ValidationContext) -> None:
        """Object to all."""
        raise SchedulingValidationError(f"{session.session_id} is not let in at {context.snapshot.now_ms}")


class NotOnA(SchedulingPlugin):
    """Keeps everything from agent a."""

    name = "not-a"

    def predicate(self, kernel: KernelWorkload, agent: AgentInfo) -> bool:
        """Anywhere but on a."""
        del kernel
        return agent.agent_id != "a"
