"""Routes of deployments."""

from __future__ import annotations

import pytest

from sokovan.domain.errors import InvalidName
from sokovan.domain.ids import DeploymentId, RouteId
from sokovan.domain.serving.route import RouteSpec


def test_a_route_belongs_to_a_deployment() -> None:
    assert RouteSpec(RouteId("r1"), DeploymentId("d1")).deployment_id == "d1"


@pytest.mark.parametrize("names", [("", "d1"), ("r1", "not a name")])
def test_route_and_deployment_have_names(names: tuple[str, str]) -> None:
    with pytest.raises(InvalidName):
        RouteSpec(RouteId(names[0]), DeploymentId(names[1]))
