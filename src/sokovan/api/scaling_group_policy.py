"""Validates the scheduling policy of a scaling group."""

from __future__ import annotations

import math

from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.errors import InvalidSpec
from sokovan.scheduling.profile import ACTIONS_TO_COME, UnsupportedAction, profile_of
from sokovan.scheduling.registry import PluginRegistry

# Profile keys that a scaling group sets elsewhere, rejected here to avoid contradictions.
WRITTEN_ELSEWHERE = {"sequencer": "`scheduler`", "selector": "`agent_selector`", "options": "keys of their own"}


def require_runnable(group: ScalingGroup, plugins: PluginRegistry) -> None:
    """Reject a policy that the scheduler cannot run.

    Raises InvalidSpec, UnknownPlugin, UnsupportedAction.
    """
    for key, written in WRITTEN_ELSEWHERE.items():
        if key in group.scheduler_opts:
            raise _wrong_option(group, key, f"is written as {written}")
    for key, value in group.scheduler_opts.items():
        if _has_non_finite(value):
            raise _wrong_option(group, key, "contains a number that JSON cannot represent")
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


def _has_non_finite(value: object) -> bool:
    """Whether the value contains an infinity or NaN."""
    if isinstance(value, dict):
        return any(_has_non_finite(item) for item in value.values())
    if isinstance(value, list):
        return any(_has_non_finite(item) for item in value)
    return isinstance(value, float) and not math.isfinite(value)
