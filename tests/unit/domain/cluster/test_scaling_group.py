"""Pools of agents."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.cluster.scaling_group import (
    ASSIGNED_MAX,
    GROUP_TIME_MAX_S,
    SLOT_PRIORITY_DEFAULT,
    SLOTS_MAX,
    ScalingGroup,
    read_session_types,
)
from sokovan.domain.errors import InvalidName, InvalidSlots, InvalidSpec
from sokovan.domain.ids import ScalingGroupName
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.session import SessionType

NAME = ScalingGroupName("gpu-pool")


def test_a_pool_is_served_first_come_first_served_and_waits_for_ever_by_default() -> None:
    group = ScalingGroup(NAME)
    assert (group.scheduler, group.pending_timeout_s, group.scheduler_opts) == ("fifo", None, {})


def test_a_pool_may_wait_as_little_as_a_second() -> None:
    assert ScalingGroup(NAME, pending_timeout_s=1).pending_timeout_s == 1
    assert ScalingGroup(NAME, mem_per_gpu_bytes=1, mem_per_cpu_bytes=1).mem_per_cpu_bytes == 1


def test_a_pool_that_lists_no_slots_accepts_any() -> None:
    assert ScalingGroup(NAME).known_slots == ()


def test_accelerators_come_before_processors_in_the_usual_priority() -> None:
    assert ScalingGroup(NAME).slot_priority == SLOT_PRIORITY_DEFAULT
    assert SLOT_PRIORITY_DEFAULT.index("cuda.device") < SLOT_PRIORITY_DEFAULT.index("cpu")


def test_a_pool_names_any_scheduler_and_its_options_whether_or_not_it_is_installed() -> None:
    group = ScalingGroup(NAME, scheduler="my-scheduler", scheduler_opts={"depth": 3})
    assert (group.scheduler, group.scheduler_opts) == ("my-scheduler", {"depth": 3})


@pytest.mark.parametrize("field", ["known_slots", "slot_priority"])
def test_slots_of_a_pool_are_slot_names(field: str) -> None:
    listed: dict[str, Any] = {field: ("cpu", "GPU")}
    with pytest.raises(InvalidSlots, match="'GPU' is not a slot name"):
        ScalingGroup(NAME, **listed)


def test_a_pool_and_its_scheduler_have_names() -> None:
    with pytest.raises(InvalidName, match="scaling group"):
        ScalingGroup(ScalingGroupName("my pool"))
    with pytest.raises(InvalidName, match="scheduler"):
        ScalingGroup(NAME, scheduler="")


def test_a_session_times_out_some_time_after_it_could_start() -> None:
    group = ScalingGroup(NAME, pending_timeout_s=60)
    assert (group.times_out_ms(5_000), group.times_out_ms(None)) == (65_000, None)
    assert ScalingGroup(NAME).times_out_ms(5_000) is None


def test_a_pool_takes_every_type_and_owner_unless_it_says_otherwise() -> None:
    group = ScalingGroup(NAME, session_types=(SessionType.BATCH,), public=False, assigned_to=("group:nlp",))
    assert all(ScalingGroup(NAME).takes(one) for one in SessionType)
    assert [one for one in SessionType if group.takes(one)] == [SessionType.BATCH]
    assert ScalingGroup(NAME).is_open_to(Owner())
    assert (group.is_open_to(Owner(group="nlp")), group.is_open_to(Owner(user="nlp"))) == (True, False)


@pytest.mark.parametrize("text", ["nlp", "group:", "team:nlp", ":", "Group:nlp"])
def test_an_owner_that_a_pool_is_assigned_to_has_a_kind_and_a_name(text: str) -> None:
    with pytest.raises(InvalidSpec, match="must be domain:NAME"):
        ScalingGroup(NAME, assigned_to=(text,))


@pytest.mark.parametrize(
    "options",
    [
        {"assigned_to": tuple(f"user:u{number}" for number in range(ASSIGNED_MAX + 1))},
        {"slot_priority": tuple(f"a.b{number}" for number in range(SLOTS_MAX + 1))},
        {"known_slots": ("cpu", "cpu")},
        {"lifetime_max_s": 0},
        {"idle_timeout_s": 0},
        {"idle_timeout_max_s": -1},
        {"allow_best_effort": 1},
        {"best_effort_per_agent_max": -1},
        {"best_effort_per_user_max": None},
        {"idle_timeout_s": 61, "idle_timeout_max_s": 60},
        {"pending_timeout_s": GROUP_TIME_MAX_S + 1},
        {"public": "yes"},
        {"session_types": ("batch ",)},
    ],
)
def test_the_settings_of_a_pool_are_bounded(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpec):
        ScalingGroup(NAME, **options)


def test_an_unknown_session_type_is_refused_with_the_nearest_one() -> None:
    assert read_session_types(["batch", "system", "batch"], what="x") == (SessionType.BATCH, SessionType.SYSTEM)
    with pytest.raises(InvalidSpec) as refused:
        read_session_types(["btch"], what="x")
    assert refused.value.hint == "did you mean batch?"
    with pytest.raises(InvalidSpec, match="dream"):
        read_session_types(["dream"], what="x")


@pytest.mark.parametrize(
    ("settings", "requested_s", "expected_s"),
    [({}, None, None), ({}, 5, 5), ({"idle_timeout_s": 60}, None, 60), ({"idle_timeout_s": 60}, 5, 5),
     ({"idle_timeout_max_s": 90}, None, 90), ({"idle_timeout_s": 60, "idle_timeout_max_s": 90}, None, 60)],
)  # fmt: skip
def test_an_interactive_session_gets_the_idle_timeout_of_its_group(
    settings: dict[str, int], requested_s: int | None, expected_s: int | None
) -> None:
    group = ScalingGroup(ScalingGroupName("g"), **settings)  # type: ignore[arg-type]  # of the fields above
    assert group.idle_timeout_of(SessionType.INTERACTIVE, requested_s) == expected_s
    assert group.idle_timeout_of(SessionType.BATCH, None) is None
