"""Placement constraints in scenarios."""

from __future__ import annotations

import pytest

from sokovan.domain.constraints.affinity import read_affinity
from sokovan.domain.constraints.taint import read_toleration
from sokovan.domain.errors import InvalidInput
from sokovan.simulator.scenario import read_scenarios

SCENARIO = """
scenario: one session
agents: {a1: {slots: {cpu: 1}}}
sessions:
  s: {%s kernels: {k: {slots: {cpu: 1}}}}
"""


def test_every_kernel_carries_the_constraints_of_its_session() -> None:
    [scenario] = read_scenarios(SCENARIO % "labels: {app: x}, tolerations: [gpu], affinity: [app=y],", "s.yaml")
    found = scenario.sessions[0].kernels[0].constraints
    assert found is not None
    assert found.labels == (("app", "x"),)
    assert found.tolerations == (read_toleration("gpu"),)
    assert found.affinity == (read_affinity("app=y"),)


def test_a_session_without_constraints_has_none() -> None:
    [scenario] = read_scenarios(SCENARIO % "", "s.yaml")
    assert scenario.sessions[0].kernels[0].constraints is None


def test_an_invalid_constraint_is_refused_with_its_place() -> None:
    with pytest.raises(InvalidInput, match=r"s\.yaml"):
        list(read_scenarios(SCENARIO % "where: [zone],", "s.yaml"))
