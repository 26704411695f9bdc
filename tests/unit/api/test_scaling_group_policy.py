"""Whether the scheduling policy of a pool is one that a cycle can run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sokovan.api.scaling_group_policy import require_runnable, require_shard
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.errors import InvalidInput, InvalidSpec
from sokovan.domain.ids import ScalingGroupName
from sokovan.scheduling.engine.evictions.rules import EvictionOptions
from sokovan.scheduling.profile import profile_of
from sokovan.scheduling.registry import BUILT_IN, UnknownPlugin
from sokovan.testing.stored_cluster import StoredCluster

POOL = ScalingGroup(ScalingGroupName("gpu"))


def pool(**options: Any) -> ScalingGroup:
    return replace(POOL, scheduler_opts=options)


@pytest.mark.parametrize(
    "group",
    [
        POOL,
        replace(POOL, scheduler="drf"),
        pool(agent_selector="dispersed", hierarchy=True, queue_policy="capacity"),
        pool(validators=["concurrency"], actions=["allocate"], shard="a", shard_mode="hard"),
        pool(actions=["allocate", "preempt", "reclaim"], ancestor_reclaim_level=1, evictions_per_cycle=10),
    ],
)
def test_a_policy_of_known_parts_is_fine(group: ScalingGroup) -> None:
    require_runnable(group, BUILT_IN)


@pytest.mark.parametrize(
    ("group", "kind"),
    [
        (replace(POOL, scheduler="psychic"), UnknownPlugin),
        (pool(agent_selector="nearest"), UnknownPlugin),
        (pool(validators=["mood"]), UnknownPlugin),
        (pool(plugins=["mood"]), UnknownPlugin),
        (pool(actions=["dance"]), InvalidSpec),
        (pool(queue_policy="luck"), InvalidSpec),
        (pool(shard_mode="soft"), InvalidSpec),
        (pool(sequencer="lifo"), InvalidSpec),
        (pool(selector="legacy"), InvalidSpec),
        (pool(options={}), InvalidSpec),
        (pool(own={"a": [1, 2.5, None, "x"]}), InvalidSpec),
        (pool(agent_selectr="dispersed"), InvalidSpec),
        (pool(agent_selector=float("nan")), InvalidSpec),
        (pool(ancestor_reclaim_level=-1), InvalidSpec),
    ],
)
def test_a_policy_that_no_cycle_could_run_is_refused(group: ScalingGroup, kind: type[InvalidInput]) -> None:
    with pytest.raises(kind):
        require_runnable(group, BUILT_IN)


def test_a_refused_option_is_named_by_its_place() -> None:
    with pytest.raises(InvalidSpec) as refused:
        require_runnable(pool(sequencer="lifo"), BUILT_IN)
    assert refused.value.field == "scheduler_opts.sequencer"
    assert "`scheduler`" in refused.value.problem


@pytest.mark.parametrize(
    ("given", "meant"),
    [("agent_selectr", "agent_selector"), ("heirarchy", "hierarchy"), ("queue-policy", "queue_policy")],
)
def test_a_misspelt_option_is_refused_with_the_nearest_name(given: str, meant: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        require_runnable(pool(**{given: "dispersed"}), BUILT_IN)
    assert (refused.value.field, refused.value.problem) == (f"scheduler_opts.{given}", "is not a scheduler option")
    assert refused.value.hint.startswith(f"did you mean {meant}?")


def test_an_option_like_no_other_is_refused_with_the_list_of_all() -> None:
    with pytest.raises(InvalidSpec) as refused:
        require_runnable(pool(own=1), BUILT_IN)
    assert "known are actions, agent_selector" in refused.value.hint


@pytest.mark.parametrize(
    ("options", "field", "said", "hint"),
    [
        (
            {"actions": ["preempt"]},
            "actions",
            "has preempt without allocate: sessions would be evicted for one that is never placed",
            "add allocate before preempt, or leave out preempt",
        ),
        ({"actions": ["enqueue", "backfill", "reclaim"]}, "actions", "has reclaim without allocate", "add allocate"),
        ({"actions": ["consolidate"]}, "actions", "has consolidate without allocate", "add allocate"),
        ({"owner_budget": 500}, "owner_budget", "must be a whole number, 0 to 100", "use 100"),
        ({"owner_budget": 101}, "owner_budget", "per cent of a user's running kernels", "use 100"),
    ],
)
def test_a_policy_that_would_not_do_what_it_says_is_refused(
    options: dict[str, Any], field: str, said: str, hint: str
) -> None:
    with pytest.raises(InvalidSpec) as refused:
        require_runnable(pool(**options), BUILT_IN)
    assert (refused.value.code, refused.value.field) == ("invalid-spec", f"scheduler_opts.{field}")
    assert said in refused.value.problem
    assert hint in refused.value.hint
    profile_of(pool(**options))  # one that was stored by an earlier version runs on


def test_a_budget_that_no_policy_can_have_is_refused_with_the_bound_that_can_be_set() -> None:
    with pytest.raises(InvalidSpec, match=r"0 to 100\b"):
        EvictionOptions(owner_budget=-1)
    EvictionOptions(owner_budget=500)  # stored by an earlier version


@pytest.mark.parametrize(
    "options", [{"owner_budget": 0}, {"owner_budget": 100}, {"actions": ["preempt", "allocate"]}, {"actions": []}]
)
def test_a_policy_at_its_bounds_is_fine(options: dict[str, Any]) -> None:
    require_runnable(pool(**options), BUILT_IN)


def test_a_wrong_value_is_named_by_its_place() -> None:
    with pytest.raises(InvalidSpec) as refused:
        require_runnable(pool(agent_selector=3), BUILT_IN)
    assert (refused.value.what, refused.value.field) == ("scaling group gpu", "scheduler_opts.agent_selector")


async def test_a_shard_mode_needs_an_agent_of_the_shard() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.put(POOL)
        await cluster.agent("a1", scaling_group=POOL.name, shard="east")
        east, west = (pool(shard=name, shard_mode="soft") for name in ("east", "west"))

        async def required(group: ScalingGroup, before: ScalingGroup | None) -> None:
            await cluster.store.read(lambda unit: require_shard(unit, group, before))

        await required(POOL, None)
        await required(east, POOL)
        await required(west, west)  # its agents may have left since
        with pytest.raises(InvalidSpec, match="needs an agent of shard west, and this group has none"):
            await required(west, east)
