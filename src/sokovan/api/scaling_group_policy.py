"""Whether the scheduling policy of a pool is one that a cycle can run."""

from __future__ import annotations

import math

from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.errors import InvalidSpec
from sokovan.scheduling.profile import ACTIONS_TO_COME, UnsupportedAction, profile_of
from sokovan.scheduling.registry import PluginRegistry

# Names of the profile that a scaling group writes in another place; both could contradict each other.
WRITTEN_ELSEWHERE = {"sequencer": "`scheduler`", "selector": "`agent_selector`", "options": "keys of their own"}


def require_runnable(group: ScalingGroup, plugins: PluginRegistry) -> None:
    """Refuse a policy that no cycle could run.

    Raises InvalidSpec, UnknownPlugin, UnsupportedAction.
    """
    for key, written in WRITTEN_ELSEWHERE.items():
        if key in group.scheduler_opts:
            raise _wrong_option(group, key, f"is written as {written}")
    for key, value in group.scheduler_opts.items():
        if _is_endless(value):
            raise _wrong_option(group, key, "holds a number that JSON does not have")
    profile = profile_of(group)
    plugins.sequencer(profile.sequencer)
    plugins.selector(profile.selector)
    for name in profile.validators:
        plugins.validator(name)
    for name in profile.plugins:
        plugins.plugin(name)
    for action in profile.actions:
        if action in ACTIONS_TO_COME:
            raise UnsupportedAction(f"scheduler_opts.actions names {action}")


def _wrong_option(group: ScalingGroup, key: str, problem: str) -> InvalidSpec:
    what, field = f"scaling group {group.name}", f"scheduler_opts.{key}"
    return InvalidSpec(what=what, field=field, value=group.scheduler_opts[key], problem=problem)


def _is_endless(value: object) -> bool:
    """Whether there is an infinity, or no number at all, where a number should be."""
    if isinstance(value, dict):
        return any(_is_endless(item) for item in value.values())
    if isinstance(value, list):
        return any(_is_endless(item) for item in value)
    return isinstance(value, float) and not math.isfinite(value)
