"""Why no agent could be selected.

AgentSelectionError
├── NoAvailableAgentError          no agent is there, or none takes new work
├── NoCompatibleAgentError         no agent has what the kernel requires
├── ArchitectureIncompatibleError  no agent has the architecture
├── InsufficientResourcesError     no agent has enough free
├── ContainerLimitExceededError    every agent that has room is at its kernel limit
└── TrackerCompatibilityError      a selection that does not belong to this tracker
"""

from __future__ import annotations

from sokovan.domain.errors import SokovanError


class AgentSelectionError(SokovanError):
    """Base of every reason why no agent was selected."""

    code = "agent-selection"
    hint = "wait, or relax what the kernel asks for"


class NoAvailableAgentError(AgentSelectionError):
    """No agent is there, or none takes new work."""

    code = "no-available-agent"
    hint = "add agents to the scaling group, or end their draining"


class NoCompatibleAgentError(AgentSelectionError):
    """No agent has what the kernel requires."""

    code = "no-compatible-agent"
    hint = "change the required labels, or label an agent"


class ArchitectureIncompatibleError(AgentSelectionError):
    """No agent has the architecture that the kernel asks for."""

    code = "architecture-incompatible"
    hint = "choose an image for an architecture that the scaling group has"


class InsufficientResourcesError(AgentSelectionError):
    """No agent has enough free."""

    code = "insufficient-resources"
    hint = "wait for sessions to end, or ask for less"


class ContainerLimitExceededError(AgentSelectionError):
    """Every agent that has room is at its kernel limit."""

    code = "container-limit-exceeded"
    hint = "wait for kernels to end, or raise the kernel limit of the agents"


class TrackerCompatibilityError(AgentSelectionError):
    """A selection names an agent that the tracker does not have."""

    code = "tracker-compatibility"
    hint = "select among the agents that the tracker was made for"
