"""Deployments: what is served, by how many, and how well."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.errors import InvalidName, InvalidSpec
from sokovan.domain.serving.deployment import (
    REPLICAS_MAX,
    DeploymentHealth,
    DeploymentSpec,
    deployment_health,
    is_health_path,
)
from sokovan.domain.slots import ResourceSlot

CPU = ResourceSlot({"cpu": 1000})


def deployment(**fields: Any) -> DeploymentSpec:
    return DeploymentSpec(**{"deployment_id": "d1", "engine": "vllm", "model": "org/llama-3", "slots": CPU} | fields)


def test_a_deployment_is_one_replica_on_port_8000_by_default() -> None:
    spec = deployment()
    assert (spec.replicas_desired, spec.port, spec.health_path, spec.revision) == (1, 8000, "/health", 1)


@pytest.mark.parametrize("port", [1, 65_535])
def test_any_port_there_is_may_be_served_on(port: int) -> None:
    assert deployment(port=port).port == port


@pytest.mark.parametrize("replicas", [0, 1, REPLICAS_MAX])
def test_any_number_of_replicas_may_be_wanted_none_included(replicas: int) -> None:
    assert deployment(replicas_desired=replicas).replicas_desired == replicas


@pytest.mark.parametrize(
    ("field", "value"),
    [("replicas_desired", -1), ("replicas_desired", REPLICAS_MAX + 1), ("port", 0), ("port", 65_536), ("revision", 0)],
)
def test_a_number_out_of_bounds_is_refused_by_the_name_of_its_field(field: str, value: int) -> None:
    with pytest.raises(InvalidSpec, match=f"deployment d1: {field} = {value}"):
        deployment(**{field: value})


@pytest.mark.parametrize("field", ["deployment_id", "engine", "model", "scaling_group", "queue"])
def test_everything_a_deployment_names_has_a_name(field: str) -> None:
    with pytest.raises(InvalidName):
        deployment(**{field: "not a name"})


@pytest.mark.parametrize("path", ["/", "/health", "/v1/models?ready=1", "/" + "x" * 255])
def test_a_health_path_is_a_path(path: str) -> None:
    assert is_health_path(path)
    assert deployment(health_path=path).health_path == path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "health",
        "//evil.example",
        "http://evil.example/",
        "/a b",
        "/a\r\nHost: evil",
        "/é",
        "/" + "x" * 256,
        None,
        7,
    ],
)
def test_a_probe_is_not_led_elsewhere_by_its_path(path: Any) -> None:
    assert not is_health_path(path)
    with pytest.raises(InvalidSpec, match="deployment d1: health_path"):
        deployment(health_path=path)


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
