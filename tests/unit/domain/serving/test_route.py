"""Routes: which endpoints stand behind an address, and which of them get requests."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.errors import InvalidName, InvalidSpec
from sokovan.domain.ids import DeploymentId, RouteId
from sokovan.domain.serving.health import Health
from sokovan.domain.serving.route import WEIGHT_MAX, Endpoint, RouteSpec, serving


def endpoint(kernel: str = "k1", **fields: Any) -> Endpoint:
    usual: dict[str, Any] = {"kernel_id": kernel, "agent_id": "a1", "port": 8000}
    return Endpoint(**usual | fields)


def route(*endpoints: Endpoint) -> RouteSpec:
    return RouteSpec(RouteId("r1"), DeploymentId("d1"), endpoints)


def test_only_healthy_endpoints_with_a_weight_get_new_requests() -> None:
    good = endpoint("good", health=Health.HEALTHY)
    others = [
        endpoint("new"),
        endpoint("ill", health=Health.UNHEALTHY),
        endpoint("drained", health=Health.HEALTHY, weight=0),
    ]
    assert serving([*others, good]) == (good,)
    assert serving(others) == ()


def test_endpoints_keep_their_order() -> None:
    both = (endpoint("b", health=Health.HEALTHY), endpoint("a", health=Health.HEALTHY))
    assert serving(both) == both


def test_a_new_endpoint_is_unknown_and_has_weight_one() -> None:
    assert (endpoint().health, endpoint().weight) == (Health.UNKNOWN, 1)


def test_one_port_of_one_agent_is_one_endpoint() -> None:
    assert len(route(endpoint("k1"), endpoint("k2", port=8001), endpoint("k3", agent_id="a2")).endpoints) == 3
    with pytest.raises(InvalidSpec, match="route r1: endpoints = 'a1:8000': two endpoints have this address"):
        route(endpoint("k1"), endpoint("k2"))


def test_a_route_may_have_no_endpoints_yet() -> None:
    assert route().endpoints == ()


@pytest.mark.parametrize(
    ("field", "value"), [("port", 0), ("port", 65_536), ("weight", -1), ("weight", WEIGHT_MAX + 1)]
)
def test_a_number_out_of_bounds_is_refused_by_the_name_of_its_field(field: str, value: Any) -> None:
    with pytest.raises(InvalidSpec, match=f"endpoint k1: {field} = {value}"):
        endpoint(**{field: value})


def test_routes_and_endpoints_have_names() -> None:
    with pytest.raises(InvalidName, match="route"):
        RouteSpec(RouteId(""), DeploymentId("d1"))
    with pytest.raises(InvalidName, match="deployment"):
        RouteSpec(RouteId("r1"), DeploymentId(""))
    with pytest.raises(InvalidName, match="kernel"):
        endpoint("")
    with pytest.raises(InvalidName, match="agent"):
        endpoint(agent_id="")
