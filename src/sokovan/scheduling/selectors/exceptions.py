"""Errors of agent selection.

AgentSelectionError
├── NoAvailableAgentError          there is no agent, or none accepts work
├── NoCompatibleAgentError         no agent has the required labels
├── ArchitectureIncompatibleError  no agent has the architecture
├── InsufficientResourcesError     no agent has enough free resources
├── ContainerLimitExceededError    every agent that has room is at its kernel limit
└── TrackerCompatibilityError      a selected agent is not among the candidates
"""

from __future__ import annotations

from sokovan.domain.errors import SokovanError


class AgentSelectionError(SokovanError):
    """Base of all agent selection errors."""

    code = "agent-selection"
    hint = "wait, or relax the requirements of the kernel"


class NoAvailableAgentError(AgentSelectionError):
    """There is no agent, or none accepts work."""

    code = "no-available-agent"
    hint = "add agents to the scaling group, or undrain one"


class NoCompatibleAgentError(AgentSelectionError):
    """No agent has the required labels."""

    code = "no-compatible-agent"
    hint = "change the required labels, or label an agent"


class ArchitectureIncompatibleError(AgentSelectionError):
    """No agent has the requested architecture."""

    code = "architecture-incompatible"
    hint = "choose an image for an architecture that the scaling group has"


class InsufficientResourcesError(AgentSelectionError):
    """No agent has enough free resources."""

    code = "insufficient-resources"
    hint = "wait for sessions to end, or request less"


class ContainerLimitExceededError(AgentSelectionError):
    """Every agent that has room is at its kernel limit."""

    code = "container-limit-exceeded"
    hint = "wait for kernels to end, or raise the kernel limit of the agents"


class TrackerCompatibilityError(AgentSelectionError):
    """A selector chose an agent that is not among the candidates."""

    code = "tracker-compatibility"
    hint = "fix the selector: it must return one of the agents it was given"
