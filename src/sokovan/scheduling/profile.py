"""SchedulingProfile: the scheduling policy of one scaling group.

It names the plugins and sets a few options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from sokovan.domain.checks import require_int
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.errors import InvalidSpec, nearest
from sokovan.domain.ids import ScalingGroupName
from sokovan.domain.lifecycle.eviction import CONSOLIDATE, PREEMPT, RECLAIM
from sokovan.scheduling.engine.evictions.rules import OWNER_BUDGET_MAX, EvictionOptions
from sokovan.scheduling.engine.usage.queue_usage import POLICIES, PROPORTION

_ALLOCATE = "allocate"
ACTIONS = ("enqueue", _ALLOCATE, "backfill")
# Actions that evict. A scaling group runs those only if it names them.
EVICTING_ACTIONS = (PREEMPT, RECLAIM, CONSOLIDATE)
# Every time at which room is held costs a column per slot and agent.
RESERVE_DEPTH_MAX = 64
SHARD_MODES = ("none", "soft", "hard")

VALIDATORS_DEFAULT = (
    "keypair-resource-limit",
    "group-resource-limit",
    "domain-resource-limit",
    "user-resource-limit",
    "concurrency",
    "dependencies",
    "pending-session-count-limit",
    "pending-session-resource-limit",
    "reserved-batch-session",
)


EVICTION_OPTIONS = tuple(one.name for one in fields(EvictionOptions))


@dataclass(frozen=True)
class SchedulingProfile:
    """The policy of a scaling group.

    `shard` is the scheduler's own shard; `shard_mode` says whether agents of other
    shards come second (soft), not at all (hard), or are equal (none). With
    `prefer_lower_tier` a session waits for released room in a low tier rather than start
    in a higher one. Room is held in time for the first waiting sessions of at most
    `reserve_depth` queues. `eviction_options` are those of the actions that evict.
    """

    sequencer: str = "fifo"
    selector: str = "concentrated"
    queue_policy: str = PROPORTION
    hierarchy: bool = False
    actions: tuple[str, ...] = ACTIONS
    validators: tuple[str, ...] = VALIDATORS_DEFAULT
    plugins: tuple[str, ...] = ()
    shard: str | None = None
    shard_mode: str = "none"
    fit_error_cache: bool = True
    prefer_lower_tier: bool = False
    reserve_depth: int = 8
    eviction_options: EvictionOptions = field(default_factory=EvictionOptions)

    def __post_init__(self) -> None:
        _require_one_of("queue_policy", self.queue_policy, POLICIES)
        _require_one_of("shard_mode", self.shard_mode, SHARD_MODES)
        require_int(self.reserve_depth, what="profile", field="reserve_depth", least=0, most=RESERVE_DEPTH_MAX)
        for action in self.actions:
            _require_one_of("actions", action, (*ACTIONS, *EVICTING_ACTIONS))
        if self.shard_mode != "none" and self.shard is None:
            raise InvalidSpec(
                what="profile", field="shard", value=None, problem=f"is needed for shard_mode {self.shard_mode}"
            )


_LIST_HINT = """write a list in JSON, as in --option '{name}=["NAME", "NAME"]'"""
_FIELDS = tuple(one.name for one in fields(SchedulingProfile) if one.name != "eviction_options")
_PROFILE_KEYS = (*_FIELDS, "agent_selector", *EVICTION_OPTIONS)
# The keys of `scheduler_opts`; sequencer and selector are written differently there.
SCHEDULER_OPTIONS = (
    "agent_selector",
    *(name for name in _FIELDS if name not in {"sequencer", "selector"}),
    *EVICTION_OPTIONS,
)


def profile_of(group: ScalingGroup) -> SchedulingProfile:
    """The profile of a scaling group's configuration.

    `scheduler` names the sequencer and `scheduler_opts.agent_selector` the selector;
    further options are fields of the profile. Unknown options are refused when a group
    is stored; one that was stored by an earlier version must not stop the group.
    """
    known = {key: value for key, value in group.scheduler_opts.items() if key in _PROFILE_KEYS}
    return profile_from({"sequencer": group.scheduler, **known})


def group_of(profile: SchedulingProfile) -> ScalingGroup:
    """A scaling group with this profile; the inverse of `profile_of`."""
    options: dict[str, object] = {"agent_selector": profile.selector}
    default = SchedulingProfile()
    for name in (
        "queue_policy",
        "hierarchy",
        "actions",
        "validators",
        "plugins",
        "shard",
        "shard_mode",
        "fit_error_cache",
        "prefer_lower_tier",
        "reserve_depth",
    ):
        value = getattr(profile, name)
        if value != getattr(default, name):
            options[name] = list(value) if isinstance(value, tuple) else value
    for name in EVICTION_OPTIONS:
        value = getattr(profile.eviction_options, name)
        if value != getattr(default.eviction_options, name):
            options[name] = value
    return ScalingGroup(name=ScalingGroupName("default"), scheduler=profile.sequencer, scheduler_opts=options)


def profile_from(options: Mapping[str, object]) -> SchedulingProfile:
    """A profile from plain keys, as in scenarios. Raises InvalidSpec."""
    for key, value in options.items():
        if key not in _PROFILE_KEYS:
            advice = nearest(key, _PROFILE_KEYS)
            raise InvalidSpec(what="profile", field=key, value=value, problem="is not a scheduler option", hint=advice)
    values = {"selector" if key == "agent_selector" else key: value for key, value in options.items()}
    settings: dict[str, object] = {key: value for key, value in values.items() if key in _FIELDS}
    for name in ("actions", "validators", "plugins"):
        if name in settings:
            settings[name] = _strings(name, settings[name])
    for name in ("hierarchy", "fit_error_cache", "prefer_lower_tier"):
        if not isinstance(settings.get(name, False), bool):
            raise InvalidSpec(what="profile", field=name, value=settings[name], problem="must be true or false")
    for name in ("sequencer", "selector", "queue_policy", "shard_mode", "shard"):
        if not isinstance(settings.get(name, ""), str):
            raise InvalidSpec(what="profile", field=name, value=settings[name], problem="must be a string")
    rest = EvictionOptions(**{key: value for key, value in values.items() if key in EVICTION_OPTIONS})  # type: ignore[arg-type]  # it checks them
    return SchedulingProfile(**settings, eviction_options=rest)  # type: ignore[arg-type]  # each was checked above


def require_sensible(profile: SchedulingProfile) -> None:
    """Refuse options that a cycle could run, but that do not do what they say.

    Asked when a scaling group is configured; one that was stored by an earlier version runs on. Raises InvalidSpec.
    """
    evicting = [one for one in profile.actions if one in EVICTING_ACTIONS]
    if evicting and _ALLOCATE not in profile.actions:
        problem = f"has {evicting[0]} without {_ALLOCATE}: sessions would be evicted for one that is never placed"
        hint = f"add {_ALLOCATE} before {evicting[0]}, or leave out {evicting[0]}"
        raise InvalidSpec(what="profile", field="actions", value=list(profile.actions), problem=problem, hint=hint)
    budget = profile.eviction_options.owner_budget
    if budget > OWNER_BUDGET_MAX:
        problem = f"must be a whole number, 0 to {OWNER_BUDGET_MAX}: per cent of a user's running kernels"
        hint = f"use {OWNER_BUDGET_MAX} for no limit but all of them in an hour"
        raise InvalidSpec(what="profile", field="owner_budget", value=budget, problem=problem, hint=hint)


def _strings(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise InvalidSpec(
            what="profile",
            field=name,
            value=value,
            problem="must be a list of names",
            hint=_LIST_HINT.format(name=name),
        )
    return tuple(value)


def _require_one_of(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InvalidSpec(
            what="profile", field=name, value=value, problem="is not known", hint=nearest(str(value), known)
        )
