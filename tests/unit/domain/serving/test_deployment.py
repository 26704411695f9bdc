"""Deployments: their names, bounds and health."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.errors import InvalidName, InvalidSpec
from sokovan.domain.serving.deployment import (
    REPLICAS_MAX,
    DeploymentHealth,
    DeploymentSpec,
    deployment_health,
)


def deployment(**fields: Any) -> DeploymentSpec:
    return DeploymentSpec(**{"deployment_id": "d1", "name": "chat"} | fields)


def test_a_deployment_has_one_replica_and_serves_its_own_name_by_default() -> None:
    spec = deployment()
    assert (spec.replicas_min, spec.replicas_max, spec.served_names) == (1, 1, ("chat",))


def test_model_names_replace_the_own_name() -> None:
    assert deployment(model_names=("org/llama-3", "llama")).served_names == ("org/llama-3", "llama")


@pytest.mark.parametrize("bounds", [(0, 0), (0, REPLICAS_MAX), (3, 3)])
def test_any_bounds_in_order_are_accepted(bounds: tuple[int, int]) -> None:
    spec = deployment(replicas_min=bounds[0], replicas_max=bounds[1])
    assert (spec.replicas_min, spec.replicas_max) == bounds


@pytest.mark.parametrize(
    ("field", "value"),
    [("replicas_min", -1), ("replicas_max", REPLICAS_MAX + 1), ("replicas_max", 0), ("priority", 10**7)],
)
def test_a_number_out_of_bounds_is_refused_by_the_name_of_its_field(field: str, value: int) -> None:
    with pytest.raises(InvalidSpec, match=f"deployment chat: {field} = {value}"):
        deployment(**{field: value})


@pytest.mark.parametrize("field", ["deployment_id", "name", "scaling_group", "queue"])
def test_everything_a_deployment_names_has_a_name(field: str) -> None:
    with pytest.raises(InvalidName):
        deployment(**{field: "not a name"})


@pytest.mark.parametrize("name", ["a/b", "", "x" * 64, "-a", 7])
def test_a_name_is_a_part_of_a_path(name: Any) -> None:
    with pytest.raises(InvalidName):
        deployment(name=name)


@pytest.mark.parametrize(
    "fields",
    [
        {"model_names": "llama"},
        {"model_names": ("m",) * 17},
        {"owner": "alice"},
        {"access": "everyone"},
        {"scaling": None},
        {"rollout": None},
    ],
)
def test_fields_of_another_type_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpec, match=next(iter(fields))):
        deployment(**fields)


@pytest.mark.parametrize(
    ("healthy", "desired", "health"),
    [
        (3, 3, DeploymentHealth.HEALTHY),
        (4, 3, DeploymentHealth.HEALTHY),
        (1, 3, DeploymentHealth.DEGRADED),
        (1, 1, DeploymentHealth.HEALTHY),
        (0, 3, DeploymentHealth.UNHEALTHY),
        (0, 0, DeploymentHealth.IDLE),
        (2, 0, DeploymentHealth.IDLE),
    ],
)
def test_one_healthy_replica_still_serves(healthy: int, desired: int, health: DeploymentHealth) -> None:
    assert deployment_health(healthy=healthy, desired=desired) is health
