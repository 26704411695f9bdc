"""Chooses the scaling group of a session."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import AccessKey, ScalingGroupName
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.problems import Problem
from sokovan.domain.session import SessionType
from sokovan.domain.slots import ResourceSlot
from sokovan.orchestrator.sessions.intake.pools import Pool
from sokovan.orchestrator.sessions.intake.scaling_group_resolver import (
    GroupNeeds,
    ScalingGroupResolver,
    available_slots,
    slot_problems,
    unknown_slots,
)
from sokovan.ports.repositories.agents import SlotRoom


def pool(name: str, *slots: str, **options: Any) -> ScalingGroup:
    return ScalingGroup(ScalingGroupName(name), known_slots=slots, **options)


ASK = "request a whole number, or ask an administrator to start agents with --gpu-shares"
CPU, GPU = ResourceSlot({"cpu": 1}), ResourceSlot({"cpu": 1, "cuda.device": 1})
ADA = Owner("ada", "nlp", "lab", AccessKey("AK1"))
BATCH = SessionType.BATCH


def needs(*each: ResourceSlot, **options: Any) -> GroupNeeds:
    given = {"owner": ADA, "session_type": BATCH, "total": each[0] if each else CPU, **options}
    return GroupNeeds(each=each or (CPU,), **given)


def chosen(groups: list[ScalingGroup], requested: str = "", wanted: GroupNeeds | None = None, **pools: Pool) -> str:
    found = ScalingGroupResolver(groups, pools).choose(requested, wanted or needs()).group
    return "" if found is None else found.name


def agents(*slots: str, free: int = 8, most: int = 8, architecture: str = "x86_64", **options: Any) -> Pool:
    """A pool with one agent that has this much of each slot."""
    room = {architecture: {slot: SlotRoom(free, free, most) for slot in slots}}
    architectures = frozenset({architecture})
    return Pool(architecture, frozenset(slots), architectures=architectures, room=room, **options)


@pytest.mark.parametrize(
    ("groups", "requested", "slots", "expected"),
    [
        (["default", "a"], "a", CPU, "a"),
        (["default", "a"], "b", CPU, ""),
        (["a"], "", GPU, "a"),
        (["b", "default", "a"], "", CPU, "default"),
        (["b", "a"], "", CPU, "a"),
        ([], "", CPU, ""),
    ],
)
def test_the_requested_the_only_the_default_or_the_first_group(
    groups: list[str], requested: str, slots: ResourceSlot, expected: str
) -> None:
    assert chosen([pool(name) for name in groups], requested, needs(slots)) == expected


def test_the_first_that_knows_all_slots_is_taken() -> None:
    groups = [pool("a", "cpu", "mem"), pool("b", "cpu", "cuda.device"), pool("default", "npu.device")]

    assert chosen(groups, wanted=needs(CPU, GPU)) == "b"


def test_the_reason_for_no_match_is_reported() -> None:
    resolver = ScalingGroupResolver([pool("a", "mem"), pool("b", "mem"), pool("hidden", public=False)])

    (unknown,) = resolver.choose("c", needs(GPU)).problems
    (unfit,) = resolver.choose("", needs(GPU)).problems

    assert unknown.problem == "there is no scaling group 'c'; available: a, b"
    assert unfit.problem == (
        "no scaling group takes this session: a has no cuda.device, b has no cuda.device, "
        "hidden is private, and not assigned to you, your group or your domain"
    )
    assert resolver.choose("a", needs()).problems == ()
    assert ScalingGroupResolver([]).choose("", needs()).problems == (
        Problem("scaling_group", "there is no scaling group"),
    )


@pytest.mark.parametrize(
    "assigned", ["keypair:AK1", "user:ada", "group:nlp", "domain:lab"]
)  # fmt: skip
def test_a_private_group_takes_only_those_it_is_assigned_to(assigned: str) -> None:
    mine, others = pool("mine", public=False, assigned_to=(assigned,)), pool("others", public=False)

    assert chosen([mine, others]) == "mine"
    refused = ScalingGroupResolver([mine, others]).choose("others", needs())
    assert (refused.group, refused.is_private, refused.problems[0].where) == (None, True, "scaling_group")
    alone = ScalingGroupResolver([others, pool("third", public=False)]).choose("", needs())
    assert (alone.group, alone.is_private) == (None, True)


def test_a_group_takes_only_the_types_and_times_that_it_allows() -> None:
    night = pool("night", session_types=(BATCH,), lifetime_max_s=60)
    day = pool("day", session_types=(SessionType.INTERACTIVE,))
    groups = [night, day]

    assert chosen(groups) == "night"
    assert chosen(groups, wanted=needs(session_type=SessionType.INTERACTIVE)) == "day"
    (wrong,) = ScalingGroupResolver(groups).choose("day", needs()).problems
    (long,) = ScalingGroupResolver([night]).choose("", needs(time_limit_s=61)).problems
    assert wrong == Problem("type", "scaling group day takes sessions of type interactive, not batch")
    assert long == Problem("time_limit", "scaling group night ends sessions after 1m, before the time limit of 1m1s")


def test_a_group_has_agents_of_the_architecture() -> None:
    pools = {"a": agents("cpu"), "b": agents("cpu", architecture="aarch64")}
    arm = needs(architectures=frozenset({"aarch64"}))

    found = ScalingGroupResolver([pool("a"), pool("b")], pools).choose("", arm)

    assert found.why == "scaling group b: it has room now; left out: a has agents of x86_64 only"


def test_room_decides_among_the_groups_that_take_a_session() -> None:
    groups = [pool("default"), pool("a"), pool("b")]
    small, full, free = agents("cpu", free=0, most=0), agents("cpu", free=0), agents("cpu")

    assert chosen(groups, default=small, a=full) == "a"
    assert chosen(groups, default=full, a=full, b=free) == "b"
    assert chosen(groups, default=free, a=free) == "default"
    assert chosen(groups, default=replace(free, taken={"cpu": 8}), a=free) == "a"
    assert chosen(groups, a=agents("cpu", free=4), b=free) == "b"
    why = ScalingGroupResolver(groups, {"default": small, "a": full, "b": free}).choose("", needs()).why
    assert why == (
        "scaling group b: it has room now; left out: a has no room now, default has no agent that is large enough"
    )


def test_accelerators_that_are_not_requested_are_kept_for_others() -> None:
    gpus, plain = agents("cpu", "cuda.device"), agents("cpu", free=2)

    assert chosen([pool("default"), pool("plain")], default=gpus, plain=plain) == "plain"
    assert chosen([pool("default"), pool("plain")], wanted=needs(GPU), default=gpus, plain=plain) == "default"


def test_few_of_many_groups_are_named() -> None:
    groups = [pool(f"g{number:02}") for number in range(40)]

    why = ScalingGroupResolver(groups).choose("", needs()).why

    assert why.endswith("g08 has no agent that is large enough, 31 more")


def test_a_scaling_group_that_lists_no_slots_knows_those_of_its_agents() -> None:
    pools = {"a": Pool("x86_64", frozenset({"odd.unit"}))}
    assert unknown_slots(pool("a"), pools, [ResourceSlot({"foo": 1, "odd.unit": 1})]) == ("foo",)
    assert available_slots(pool("a"), pools) == ("cpu", "mem", "odd.unit")
    assert unknown_slots(pool("a", "cuda.device"), pools, [GPU, ResourceSlot({"odd.unit": 1})]) == ("odd.unit",)


def test_every_scaling_group_has_cpu_and_memory_whether_it_lists_them_or_not() -> None:
    assert available_slots(pool("a", "cuda.device"), {}) == ("cpu", "cuda.device", "mem")
    assert unknown_slots(pool("a", "cuda.device"), {}, [ResourceSlot({"cpu": 1, "mem": 1})]) == ()


def test_a_slot_that_it_puts_in_order_is_known_before_any_agent_has_it() -> None:
    pools = {"a": Pool("x86_64", frozenset({"cpu"}))}
    bare = ScalingGroup(ScalingGroupName("a"), slot_priority=("cpu",))
    assert unknown_slots(pool("a"), pools, [GPU]) == ()
    assert unknown_slots(bare, pools, [GPU]) == ("cuda.device",)


def test_a_scaling_group_without_agents_that_lists_no_slots_knows_them_all() -> None:
    assert unknown_slots(pool("a"), {}, [ResourceSlot({"foo": 1})]) == ()
    assert unknown_slots(pool("a", "cpu"), {}, [GPU, GPU]) == ("cuda.device",)


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
        (
            "cuda.mig-x.device",
            "cuda.device",
            "scaling group a offers slices of devices only (cuda.mig-x.device); one is --slot cuda.mig-x.device=1",
        ),
        ("tpu.device", "cuda.shares", ""),
    ],
)
def test_devices_of_the_other_kind_are_named_with_the_way_to_get_them(offered: str, slot: str, text: str) -> None:
    pools = {"a": Pool("x86_64", frozenset({"cpu", offered}))}

    found = list(slot_problems(pool("a"), pools, ResourceSlot({"cpu": 1, slot: 1}), where="resources"))

    assert [(one.where, one.problem) for one in found] == ([(f"resources/{slot}", text)] if text else [])


def test_a_group_has_agents_that_can_run_the_images() -> None:
    groups = [pool("containers"), pool("default")]
    pools = {
        "default": agents("cpu", runtimes=frozenset({"process"})),
        "containers": agents("cpu", runtimes=frozenset({"docker", "fake"})),
    }
    container, process = frozenset({"docker"}), frozenset({"process"})

    assert chosen(groups, "", needs(runtimes=container), **pools) == "containers"
    assert chosen(groups, "", needs(runtimes=process), **pools) == "default"
    why = ScalingGroupResolver(groups, pools).choose("", needs(runtimes=container)).why
    assert why == "scaling group containers: it has room now; left out: default has no agent that runs containers"
    # Each kernel needs an agent of its runtime; one that reports none decides itself.
    both = container | process
    pools["containers"] = agents("cpu", runtimes=frozenset({"docker", ""}))
    assert chosen(groups, "", needs(runtimes=both), **pools) == "containers"


def test_fake_agents_do_not_serve() -> None:
    pools = {"a": agents("cpu", runtimes=frozenset({"fake"})), "b": agents("cpu", runtimes=frozenset({"process"}))}
    serving = needs(runtimes=frozenset({"process"}), session_type=SessionType.INFERENCE)

    assert chosen([pool("a"), pool("b")], "", needs(runtimes=frozenset({"process"})), **pools) == "a"
    assert chosen([pool("a"), pool("b")], "", serving, **pools) == "b"


def test_a_session_that_no_group_can_run_is_refused_with_the_reasons() -> None:
    pools = {name: agents("cpu", runtimes=frozenset({"process"})) for name in ("a", "b")}
    (problem,) = (
        ScalingGroupResolver([pool("a"), pool("b")], pools).choose("", needs(runtimes=frozenset({"docker"}))).problems
    )
    assert problem.problem == (
        "no scaling group takes this session: a has no agent that runs containers, b has no agent that runs containers"
    )
