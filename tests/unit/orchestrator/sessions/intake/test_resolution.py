"""Scaling group, image and slots, worked out together."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.cluster.image import Image
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import ScalingGroupName
from sokovan.domain.slots import ResourceSlot
from sokovan.orchestrator.sessions.intake.pools import Pool
from sokovan.orchestrator.sessions.intake.requests import KernelGroupRequest
from sokovan.orchestrator.sessions.intake.resolution import Resolution, resolved
from sokovan.orchestrator.sessions.intake.resource_calculator import ResourceCalculator
from tests.unit.orchestrator.sessions.intake.request_builders import asked

CPUS = ScalingGroup(ScalingGroupName("cpus"), known_slots=("cpu", "mem"))
GPUS = ScalingGroup(ScalingGroupName("gpus"), known_slots=("cpu", "mem", "cuda.device"))


def resolution(facts: dict[str, Any] | None = None, **options: Any) -> Resolution:
    return resolved(asked(facts, **options), ResourceCalculator())


def test_the_scaling_group_follows_from_the_slots() -> None:
    found = resolution({"scaling_groups": (CPUS, GPUS)}, resources={"gpu": 1})

    assert found.scaling_group is GPUS
    assert found.problems == ()


def test_the_image_follows_from_the_usual_processor_of_the_scaling_group() -> None:
    images = {"torch": (Image("torch", "x86_64"), Image("torch", "aarch64"))}

    (group,) = resolution({"images": images, "pools": {"default": Pool("aarch64")}}, image="torch").groups

    assert group.image == images["torch"][1]


def test_the_slots_follow_from_the_image() -> None:
    images = {"torch": (Image("torch", slots_min=ResourceSlot({"cpu": 3000})),)}

    (group,) = resolution({"images": images}, image="torch").groups

    assert group.slots["cpu"] == 3000


def test_each_group_has_its_own() -> None:
    groups = (KernelGroupRequest(name="a", resources={"cpu": 2}), KernelGroupRequest(name="b"))

    first, second = resolution(groups=groups, resources={"cpu": 4}).groups

    assert (first.slots["cpu"], second.slots["cpu"]) == (2000, 4000)


def test_unknown_slots_are_told_for_the_scaling_group_that_was_chosen() -> None:
    found = resolution({"scaling_groups": (CPUS,)}, resources={"gpu": 1})

    (problem,) = found.problems
    assert problem.where == "resources/cuda.device"
    assert problem.problem == "scaling group cpus has cpu, mem, not cuda.device"


@pytest.mark.parametrize(
    ("slot", "meant"),
    [("foo", ""), ("cuda", "; did you mean cuda.device?"), ("cuda.devise", "; did you mean cuda.device?")],
)
def test_where_no_slots_are_listed_those_that_agents_have_are_known(slot: str, meant: str) -> None:
    pools = {"default": Pool("x86_64", frozenset({"cuda.device"}))}

    (problem,) = resolution({"pools": pools}, resources={slot: 1}).problems

    assert problem.where == f"resources/{slot}"
    assert problem.problem == f"the agents of scaling group default have cpu, cuda.device, mem, not {slot}{meant}"
    assert resolution({"pools": pools}, resources={"gpu": 1, slot: 0}).problems == ()


def test_while_there_are_no_agents_every_slot_is_fine() -> None:
    pools = {"elsewhere": Pool("x86_64", frozenset({"cpu"}))}

    assert resolution({"pools": pools}, resources={"foo": 1}).problems == ()


def test_a_bad_amount_does_not_hide_that_the_scaling_group_is_missing() -> None:
    found = resolution(scaling_group="nowhere", resources={"cpu": "x"})

    assert found.scaling_group is None
    assert {problem.where for problem in found.problems} == {"scaling_group", "resources/cpu"}
