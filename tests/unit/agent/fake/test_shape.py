"""A fake fleet has names, racks and accelerators."""

from __future__ import annotations

import pytest

from sokovan.agent.fake.shape import FleetShape
from sokovan.domain.cluster.topology import HyperNodeTree
from sokovan.domain.errors import InvalidInput
from sokovan.domain.ids import ScalingGroupName


def test_agents_stand_in_racks_and_have_what_was_asked_for() -> None:
    shape = FleetShape(count=64, gpus=8, scaling_group=ScalingGroupName("gpu"), architecture="aarch64")
    agents = shape.agents()
    assert (len(agents), agents[0].agent_id, agents[25].agent_id, agents[63].agent_id) == (
        64,
        "r00n0",
        "r03n1",
        "r07n7",
    )
    info = agents[25]
    assert dict(info.available_slots) == {"cpu": 64_000, "mem": 512 << 30, "cuda.device": 8}
    assert (info.labels["rack"], info.scaling_group, info.architecture) == ("r03", "gpu", "aarch64")
    assert info.labels["sokovan.runtime"] == "fake"
    assert [device.device_id for device in shape.devices()] == [f"gpu{number}" for number in range(8)]


@pytest.mark.parametrize("count", [1, 7, 8, 9, 64, 256, 257, 1000, 10_000])
def test_the_network_is_a_tree_over_all_agents_in_the_order_of_their_names(count: int) -> None:
    shape = FleetShape(count=count, gpus=0)
    names = [info.agent_id for info in shape.agents()]
    assert len(set(names)) == count
    assert names == sorted(names)
    HyperNodeTree(names, shape.topology().hypernodes)
    *racks, root = shape.topology().hypernodes
    assert [member for rack in racks for member in rack.members] == names
    assert (root.tier, root.members) == (2, tuple(rack.name for rack in racks))
    assert {(rack.tier, rack.tier_name) for rack in racks} == {(1, "rack")}


@pytest.mark.parametrize(("count", "per_rack"), [(64, 8), (256, 8), (1000, 32), (1024, 32), (10_000, 100)])
def test_large_fleets_have_as_many_racks_as_a_rack_has_agents(count: int, per_rack: int) -> None:
    assert FleetShape(count=count, gpus=1).per_rack == per_rack


def test_a_rack_may_have_another_size() -> None:
    assert [len(agents) for _, agents in FleetShape(count=10, gpus=1, rack_size=4).racks()] == [4, 4, 2]


@pytest.mark.parametrize(("count", "gpus"), [(0, 1), (-1, 1), (10_001, 1), (1, -1), (1, 65)])
def test_a_fleet_of_an_impossible_size_is_refused(count: int, gpus: int) -> None:
    with pytest.raises(InvalidInput, match="cannot be simulated"):
        FleetShape(count=count, gpus=gpus)
