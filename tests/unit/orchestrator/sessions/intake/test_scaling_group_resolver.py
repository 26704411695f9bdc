"""Chooses the scaling group of a session."""

from __future__ import annotations

import pytest

from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import ScalingGroupName
from sokovan.domain.slots import ResourceSlot
from sokovan.orchestrator.sessions.intake.pools import Pool
from sokovan.orchestrator.sessions.intake.scaling_group_resolver import (
    ScalingGroupResolver,
    available_slots,
    slot_problems,
    unknown_slots,
)


def pool(name: str, *slots: str) -> ScalingGroup:
    return ScalingGroup(ScalingGroupName(name), known_slots=slots)


ASK = "request a whole number, or ask an administrator to start agents with --gpu-shares"
CPU, GPU = ResourceSlot({"cpu": 1}), ResourceSlot({"cpu": 1, "cuda.device": 1})


@pytest.mark.parametrize(
    ("groups", "requested", "slots", "chosen"),
    [
        (["default", "a"], "a", CPU, "a"),
        (["default", "a"], "b", CPU, None),
        (["a"], "", GPU, "a"),
        (["b", "default", "a"], "", CPU, "default"),
        (["b", "a"], "", CPU, "a"),
        ([], "", CPU, None),
    ],
)
def test_the_requested_the_only_the_default_or_the_first_group(
    groups: list[str], requested: str, slots: ResourceSlot, chosen: str | None
) -> None:
    found = ScalingGroupResolver([pool(name) for name in groups]).resolve(requested, [slots])

    assert (None if found is None else found.name) == chosen


def test_without_a_default_the_first_that_knows_all_slots_is_taken() -> None:
    resolver = ScalingGroupResolver(
        [pool("a", "cpu", "mem"), pool("b", "cpu", "cuda.device"), pool("c", "cuda.device")]
    )

    found = resolver.resolve("", [CPU, GPU])

    assert found is not None
    assert found.name == "b"


def test_the_reason_for_no_match_is_reported() -> None:
    resolver = ScalingGroupResolver([pool("a", "mem"), pool("b", "mem")])

    (unknown,) = resolver.problems("c", [CPU])
    (unfit,) = resolver.problems("", [CPU])

    assert unknown.problem == "there is no scaling group 'c'; available: a, b"
    assert unfit.problem == "no scaling group has all requested slots; available: a, b"
    assert list(resolver.problems("a", [CPU])) == []


def test_a_scaling_group_that_lists_no_slots_knows_those_of_its_agents() -> None:
    pools = {"a": Pool("x86_64", frozenset({"odd.unit"}))}
    assert unknown_slots(pool("a"), pools, [ResourceSlot({"foo": 1, "odd.unit": 1})]) == ("foo",)
    assert available_slots(pool("a"), pools) == ("cpu", "mem", "odd.unit")
    assert unknown_slots(pool("a", "cuda.device"), pools, [GPU]) == ("cpu",)


def test_a_slot_that_it_puts_in_order_is_known_before_any_agent_has_it() -> None:
    pools = {"a": Pool("x86_64", frozenset({"cpu"}))}
    bare = ScalingGroup(ScalingGroupName("a"), slot_priority=("cpu",))
    assert unknown_slots(pool("a"), pools, [GPU]) == ()
    assert unknown_slots(bare, pools, [GPU]) == ("cuda.device",)


def test_a_scaling_group_without_agents_that_lists_no_slots_knows_them_all() -> None:
    assert unknown_slots(pool("a"), {}, [ResourceSlot({"foo": 1})]) == ()
    assert unknown_slots(pool("a", "cpu"), {}, [GPU, GPU]) == ("cuda.device",)


def test_without_a_default_the_first_whose_agents_have_all_slots_is_taken() -> None:
    pools = {name: Pool("x86_64", frozenset(slots)) for name, slots in (("a", {"cpu"}), ("b", {"odd.unit"}))}

    found = ScalingGroupResolver([pool("a"), pool("b")], pools).resolve("", [CPU, ResourceSlot({"odd.unit": 1})])

    assert found is not None
    assert found.name == "b"


@pytest.mark.parametrize(
    ("offered", "slot", "text"),
    [
        (
            "cuda.device",
            "cuda.shares",
            f"scaling group a offers whole devices only (cuda.device), no shares of them; {ASK}",
        ),
        (
            "cuda.shares",
            "cuda.device",
            "scaling group a offers devices in shares only (cuda.shares); a whole one is --slot cuda.shares=1",
        ),
        ("tpu.device", "cuda.shares", ""),
    ],
)
def test_devices_of_the_other_kind_are_named_with_the_way_to_get_them(offered: str, slot: str, text: str) -> None:
    pools = {"a": Pool("x86_64", frozenset({"cpu", offered}))}

    found = list(slot_problems(pool("a"), pools, ResourceSlot({"cpu": 1, slot: 1}), where="resources"))

    assert [(one.where, one.problem) for one in found] == ([(f"resources/{slot}", text)] if text else [])
