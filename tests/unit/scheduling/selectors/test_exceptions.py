"""Errors of agent selection: one class per cause."""

from __future__ import annotations

import pytest

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.errors import SokovanError
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.slot_notation import parse_slots
from sokovan.scheduling.registry import BUILT_IN
from sokovan.scheduling.selectors.base import AgentSelectionCriteria, ResourceRequirements
from sokovan.scheduling.selectors.exceptions import (
    AgentSelectionError,
    ArchitectureIncompatibleError,
    ContainerLimitExceededError,
    InsufficientResourcesError,
    NoAvailableAgentError,
    NoCompatibleAgentError,
    TrackerCompatibilityError,
)
from tests.unit.scheduling.little_cluster import agent

FAMILY = {
    NoAvailableAgentError: "no-available-agent",
    NoCompatibleAgentError: "no-compatible-agent",
    ArchitectureIncompatibleError: "architecture-incompatible",
    InsufficientResourcesError: "insufficient-resources",
    ContainerLimitExceededError: "container-limit-exceeded",
    TrackerCompatibilityError: "tracker-compatibility",
}
DRAINING = agent("a", status=AgentStatus.DRAINING)
ARM = agent("a", architecture="aarch64")
FULL_OF_KERNELS = agent("a", kernels_max=2, kernel_count=2)
NEEDS_SSD = ResourceRequirements(parse_slots("cpu=1"), require={"disk": "ssd"})
ONE_CPU = ResourceRequirements(parse_slots("cpu=1"))


@pytest.mark.parametrize(("error", "code"), FAMILY.items())
def test_every_cause_is_an_agent_selection_error_with_a_code_and_a_hint(
    error: type[AgentSelectionError], code: str
) -> None:
    assert error.__bases__ == (AgentSelectionError,)
    assert issubclass(error, SokovanError)
    assert error.code == code
    assert error.hint not in {"", AgentSelectionError.hint}


@pytest.mark.parametrize("selector", BUILT_IN.selectors)
@pytest.mark.parametrize(
    ("requirements", "agents", "error", "said"),
    [
        (ONE_CPU, [], NoAvailableAgentError, "none of 0 agents accepts work"),
        (ONE_CPU, [DRAINING], NoAvailableAgentError, "none of 1 agents accepts work"),
        (ONE_CPU, [ARM], ArchitectureIncompatibleError, "no agent has the architecture x86_64"),
        (NEEDS_SSD, [agent("a", labels={"disk": "hdd"})], NoCompatibleAgentError, "'disk': 'ssd'"),
        (ONE_CPU, [agent("a", used="cpu=3.5")], InsufficientResourcesError, "cpu=1000"),
        (ONE_CPU, [agent("a", "mem=1Gi")], InsufficientResourcesError, "free"),
        (ONE_CPU, [FULL_OF_KERNELS], ContainerLimitExceededError, "kernel limit"),
        (ONE_CPU, [DRAINING, ARM, FULL_OF_KERNELS], ContainerLimitExceededError, "kernel limit"),
    ],
)
def test_select_raises_the_cause_that_rules_out_the_last_agents(
    *,
    selector: str,
    requirements: ResourceRequirements,
    agents: list[AgentInfo],
    error: type[AgentSelectionError],
    said: str,
) -> None:
    with pytest.raises(error, match=said):
        BUILT_IN.selector(selector).select(requirements, agents, AgentSelectionCriteria())
