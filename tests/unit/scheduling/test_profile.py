"""SchedulingProfile: read from configuration and scenarios."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.errors import InvalidSpec
from sokovan.domain.ids import ScalingGroupName
from sokovan.scheduling.engine.evictions.rules import EvictionOptions
from sokovan.scheduling.profile import (
    ACTIONS,
    EVICTING_ACTIONS,
    VALIDATORS_DEFAULT,
    SchedulingProfile,
    group_of,
    profile_from,
    profile_of,
)
from sokovan.scheduling.registry import BUILT_IN


def test_by_default_sessions_go_by_age_onto_the_fullest_agent_and_every_rule_runs() -> None:
    profile = SchedulingProfile()
    assert (profile.sequencer, profile.selector, profile.queue_policy) == ("fifo", "concentrated", "proportion")
    assert (profile.hierarchy, profile.shard_mode, profile.fit_error_cache) == (False, "none", True)
    assert profile.actions == ("enqueue", "allocate", "backfill")
    assert set(profile.validators) == set(BUILT_IN.validators)
    assert profile.plugins == ()


def test_a_scaling_group_names_its_sequencer_and_its_selector() -> None:
    group = ScalingGroup(ScalingGroupName("default"), scheduler="fifo", scheduler_opts={"agent_selector": "dispersed"})
    assert profile_of(group) == SchedulingProfile(sequencer="fifo", selector="dispersed")


def test_further_options_of_a_scaling_group_are_fields_of_the_profile() -> None:
    options = {"agent_selector": "legacy", "queue_policy": "capacity", "hierarchy": True, "actions": ["allocate"]}
    profile = profile_of(ScalingGroup(ScalingGroupName("g"), scheduler="drf", scheduler_opts=options))
    assert (profile.sequencer, profile.selector) == ("drf", "legacy")
    assert (profile.queue_policy, profile.hierarchy, profile.actions) == ("capacity", True, ("allocate",))


def test_every_key_may_be_written_plainly() -> None:
    given: dict[str, object] = {
        "sequencer": "lifo", "selector": "roundrobin", "queue_policy": "capacity", "hierarchy": True,
        "actions": ["enqueue", "allocate"], "validators": ["concurrency"], "plugins": ["mine"], "shard": "east",
        "shard_mode": "soft", "fit_error_cache": False,
    }  # fmt: skip
    assert profile_from(given) == SchedulingProfile(
        "lifo", "roundrobin", "capacity", True, ("enqueue", "allocate"), ("concurrency",), ("mine",), "east", "soft",
        False,
    )  # fmt: skip


def test_the_options_of_the_actions_that_evict_are_read() -> None:
    options = profile_from({"ancestor_reclaim_level": 2, "evictions_per_cycle": 5}).eviction_options
    assert options == EvictionOptions(ancestor_reclaim_level=2, evictions_per_cycle=5, assumed_checkpoint=600)


def test_an_unknown_key_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InvalidSpec) as refused:
        profile_from({"selectr": "dispersed"})
    assert (refused.value.field, refused.value.hint) == ("selectr", "did you mean selector?")


def test_an_unknown_option_that_was_stored_earlier_does_not_stop_a_scaling_group() -> None:
    group = ScalingGroup(ScalingGroupName("g"), scheduler_opts={"own": [1], "agent_selector": "legacy"})
    assert profile_of(group) == SchedulingProfile(selector="legacy")


def test_an_empty_mapping_gives_the_default() -> None:
    assert profile_from({}) == SchedulingProfile()
    assert profile_from({}).validators == VALIDATORS_DEFAULT


@pytest.mark.parametrize(
    ("given", "field", "said"),
    [
        ({"queue_policy": "lottery"}, "queue_policy", "known are capacity, proportion"),
        ({"shard_mode": "firm"}, "shard_mode", "known are hard, none, soft"),
        ({"shard_mode": "hard"}, "shard", "is needed for shard_mode hard"),
        (
            {"actions": ["allocate", "dance"]},
            "actions",
            "known are allocate, backfill, consolidate, enqueue, preempt, reclaim",
        ),
        ({"actions": ["allocate", "preemt"]}, "actions", "did you mean preempt?"),
        ({"actions": ["alocate"]}, "actions", "did you mean allocate?"),
        ({"actions": "allocate"}, "actions", "must be a list of names"),
        ({"actions": "allocate"}, "actions", """--option 'actions=["NAME", "NAME"]'"""),
        ({"validators": [1]}, "validators", "must be a list of names"),
        ({"plugins": {"a": 1}}, "plugins", "must be a list of names"),
        ({"hierarchy": "yes"}, "hierarchy", "must be true or false"),
        ({"fit_error_cache": 1}, "fit_error_cache", "must be true or false"),
        ({"prefer_lower_tier": "yes"}, "prefer_lower_tier", "must be true or false"),
        ({"sequencer": 5}, "sequencer", "must be a string"),
        ({"selector": None}, "selector", "must be a string"),
        ({"agent_selector": ["x"]}, "selector", "must be a string"),
        ({"queue_policy": []}, "queue_policy", "must be a string"),
        ({"ancestor_reclaim_level": -1}, "ancestor_reclaim_level", "must be a whole number, 0 to 1000000000"),
        ({"evictions_per_cycle": "many"}, "evictions_per_cycle", "must be a whole number, 0 to 1000000000"),
        ({"cool_down": 1 << 70}, "cool_down", "must be a whole number, 0 to 1000000000"),
        ({"assumed_checkpoint": True}, "assumed_checkpoint", "must be a whole number, 0 to 1000000000"),
    ],
)
def test_a_wrong_value_is_refused_with_the_key_and_what_is_known(given: dict[str, Any], field: str, said: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        profile_from(given)
    assert refused.value.field == field
    assert said in str(refused.value)


def test_actions_that_evict_run_only_where_they_are_named() -> None:
    profile = profile_from({"actions": [*ACTIONS, *EVICTING_ACTIONS]})
    assert profile.actions == (*ACTIONS, *EVICTING_ACTIONS)
    assert not set(EVICTING_ACTIONS) & set(SchedulingProfile().actions)


@pytest.mark.parametrize(
    "profile",
    [
        SchedulingProfile(),
        SchedulingProfile(sequencer="drf", selector="legacy", eviction_options=EvictionOptions(1, 2, 3)),
        SchedulingProfile(queue_policy="capacity", hierarchy=True, actions=(), validators=("concurrency",)),
        SchedulingProfile(
            plugins=("mine",), shard="east", shard_mode="hard", fit_error_cache=False, prefer_lower_tier=True
        ),
    ],
)
def test_a_profile_comes_back_from_the_scaling_group_that_describes_it(profile: SchedulingProfile) -> None:
    assert profile_of(group_of(profile)) == profile
