"""Scaling groups of a configuration, and everything that can be wrong in them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.entrypoints.settings.scaling_group_settings import GROUP_KEYS, OPTIONS, ScalingGroupReader
from sokovan.entrypoints.settings.setting_kinds import SettingProblem
from sokovan.scheduling.profile import EVICTION_OPTIONS, SchedulingProfile, profile_of
from sokovan.scheduling.registry import BUILT_IN, PluginRegistry


def groups_of(value: object, registry: PluginRegistry | None = BUILT_IN) -> tuple[dict[Any, ScalingGroup], list[str]]:
    problems: list[SettingProblem] = []
    groups = ScalingGroupReader(problems, registry).groups(value)
    return dict(groups), [str(problem) for problem in problems]


def test_a_group_without_keys_has_the_default_policy() -> None:
    assert groups_of({}) == ({}, [])
    groups, problems = groups_of({"default": {}})
    assert problems == []
    assert profile_of(groups["default"]) == SchedulingProfile()


def test_a_group_is_read_with_all_that_can_be_said_of_it() -> None:
    options = {"agent_selector": "dispersed", "queue_policy": "capacity", "hierarchy": True, "actions": ["allocate"]}
    given = {
        "scheduler": "drf",
        "scheduler_opts": options,
        "known_slots": ["cpu", "mem"],
        "slot_priority": ["mem"],
        "pending_timeout_s": 60,
    }
    groups, problems = groups_of({"gpu.a100": given})
    assert problems == []
    group = groups["gpu.a100"]
    assert (group.known_slots, group.slot_priority, group.pending_timeout_s) == (("cpu", "mem"), ("mem",), 60)
    assert profile_of(group) == SchedulingProfile(
        sequencer="drf",
        selector="dispersed",
        queue_policy="capacity",
        hierarchy=True,
        actions=("allocate",),
    )


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"queue_policy": "x"}, "queue_policy: 'x' is not known; known are capacity, proportion"),
        ({"queue_policy": 1}, "queue_policy: 1 must be a string"),
        ({"shard_mode": "loud", "shard": "a"}, "shard_mode: 'loud' is not known; known are hard, none, soft"),
        ({"shard_mode": "soft"}, "shard: is needed for shard_mode soft"),
        (
            {"actions": ["preempt"]},
            "actions: has preempt without allocate: sessions would be evicted for one that is never placed; add",
        ),
        (
            {"owner_budget": 500},
            "owner_budget: must be a whole number, 0 to 100: per cent of a user's running kernels; use 100 for",
        ),
        ({"hierarchy": "yes"}, "hierarchy: 'yes' must be true or false"),
        ({"fit_error_cache": 1}, "fit_error_cache: 1 must be true or false"),
        ({"actions": "allocate"}, "actions: 'allocate' must be a list of names"),
        ({"actions": ["dance"]}, "actions: 'dance' is not known; known are allocate,"),
        ({"agent_selector": 1}, "agent_selector: 1 must be a string"),
        ({"queue_polcy": "capacity"}, "queue_polcy: is not known; did you mean queue_policy?"),
        ({"office_hours": [9, 17]}, "office_hours: is not known; known are actions, agent_selector,"),
        ({"ancestor_reclaim_level": -2}, "ancestor_reclaim_level: -2 must be a whole number, 0 to 1000000000"),
        ({"selector": "legacy"}, "selector: is set as agent_selector"),
        ({"sequencer": "drf"}, "sequencer: is set as `scheduler`, next to scheduler_opts"),
        ({"agent_selector": "best"}, "agent_selector: there is no selector 'best'; known are concentrated,"),
        ({"validators": ["none"]}, "validators: there is no validator 'none'; known are concurrency,"),
        ({"plugins": ["ghost"]}, "plugins: there is no plugin 'ghost'; known are none"),
    ],
)
def test_an_option_that_is_wrong_is_named(given: dict[str, object], problem: str) -> None:
    _, [found] = groups_of({"default": {"scheduler_opts": given}})
    assert found.startswith(f"scaling_groups.default.scheduler_opts.{problem}")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("x", ": 'x' must be a table"),
        ({"sheduler": "drf"}, ".sheduler: is not known; did you mean scheduler?"),
        ({"scheduler": 4}, ".scheduler: 4 must be a text"),
        (
            {"scheduler": "fifoo"},
            ".scheduler: there is no sequencer 'fifoo'; known are deadline, drf, fair-share, fifo, lifo, multifactor",
        ),
        ({"scheduler_opts": 1}, ".scheduler_opts: 1 must be a table"),
        ({"known_slots": "cpu"}, ".known_slots: 'cpu' must be a list of slot names"),
        ({"known_slots": ["cpu", 3]}, ".known_slots[1]: 3 must be a text"),
        ({"slot_priority": ["c p u"]}, ".slot_priority[0]: cannot read slots 'c p u'"),
        ({"pending_timeout_s": 0}, ".pending_timeout_s: 0 must be from 1 to"),
        ({"mem_per_gpu_bytes": 0}, ".mem_per_gpu_bytes: 0 must be from 1 to"),
        ({"mem_per_cpu_bytes": "4GiB"}, ".mem_per_cpu_bytes: '4GiB' must be a whole number"),
        ({"pending_timeout_s": "1h"}, ".pending_timeout_s: '1h' must be a whole number"),
    ],
)
def test_a_key_of_a_group_that_is_wrong_is_named(given: object, problem: str) -> None:
    _, [found] = groups_of({"gpu": given})
    assert found.startswith(f"scaling_groups.gpu{problem}")


@pytest.mark.parametrize("action", ["preempt", "reclaim", "consolidate"])
def test_a_group_may_name_actions_that_evict(action: str) -> None:
    groups, problems = groups_of({"default": {"scheduler_opts": {"actions": ["allocate", action]}}})
    assert (problems, profile_of(groups["default"]).actions) == ([], ("allocate", action))


def test_a_missing_plugin_is_reported_with_other_problems() -> None:
    _, problems = groups_of({"default": {"scheduler": "fifoo", "pending_timeout_s": 0}})
    assert len(problems) == 2


def test_every_problem_of_every_group_is_named() -> None:
    bad = {"scheduler": 1, "known_slots": [1, 2], "scheduler_opts": {"hierarchy": 1, "queue_policy": "x"}, "oops": 1}
    _, problems = groups_of({"a": bad, "b": bad, "c d": {}})
    assert len(problems) == 2 * 6 + 1


def test_a_group_whose_name_is_none_is_refused() -> None:
    _, [problem] = groups_of({"a b": {}})
    assert problem == "scaling_groups.a b: 'a b' is not a name for a scaling group"


def test_a_name_with_dots_is_quoted_in_its_path() -> None:
    _, [problem] = groups_of({"gpu.a100": {"x": 1}})
    assert problem.startswith('scaling_groups."gpu.a100".x: ')


def test_groups_that_are_no_table_are_refused() -> None:
    assert groups_of([1])[1] == ["scaling_groups: [1] must be a table of groups"]


def test_without_a_registry_any_plugin_may_be_named() -> None:
    given = {"default": {"scheduler": "ours", "scheduler_opts": {"agent_selector": "mine", "plugins": ["p"]}}}
    groups, problems = groups_of(given, registry=None)
    assert problems == []
    assert profile_of(groups["default"]).plugins == ("p",)


def test_a_plugin_that_cannot_be_made_is_named_with_its_reason() -> None:
    def broken() -> Any:
        raise RuntimeError("out of order")

    registry = PluginRegistry(**{**vars(BUILT_IN), "selectors": {**BUILT_IN.selectors, "broken": broken}})
    _, [problem] = groups_of({"default": {"scheduler_opts": {"agent_selector": "broken"}}}, registry)
    assert "agent_selector: the selector 'broken' cannot be created: RuntimeError: out of order" in problem


def test_the_tables_name_every_field_of_a_group_and_of_a_profile() -> None:
    assert set(GROUP_KEYS) == {one.name for one in fields(ScalingGroup)} - {"name"}
    profile = {one.name for one in fields(SchedulingProfile)} - {"sequencer", "selector", "eviction_options"}
    assert set(OPTIONS) == profile | {"agent_selector", *EVICTION_OPTIONS}


def test_the_tables_say_the_defaults_that_hold() -> None:
    group, profile = groups_of({"default": {}})[0]["default"], SchedulingProfile()
    for key, (_, default) in GROUP_KEYS.items():
        assert getattr(group, key) == (tuple(default) if isinstance(default, list) else default)
    for key, (_, default) in OPTIONS.items():
        holder = profile.eviction_options if key in EVICTION_OPTIONS else profile
        held = getattr(holder, "selector" if key == "agent_selector" else key)
        assert held == (tuple(default) if isinstance(default, list) else default)
