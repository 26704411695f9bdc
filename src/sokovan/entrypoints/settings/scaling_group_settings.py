"""Reads the scaling groups of a configuration and reports all problems."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from sokovan.domain.cluster.scaling_group import (
    BEST_EFFORT_COUNT_MAX,
    BEST_EFFORT_PER_AGENT_DEFAULT,
    BEST_EFFORT_PER_USER_DEFAULT,
    GROUP_TIME_MAX_S,
    SLOT_PRIORITY_DEFAULT,
    ScalingGroup,
    read_session_types,
)
from sokovan.domain.errors import InvalidSpec, SokovanError, quoted
from sokovan.domain.ids import DEFAULT_SCALING_GROUP, ScalingGroupName, is_name
from sokovan.domain.owners.past_usage import HALF_LIFE_DEFAULT_S, HALF_LIFE_MAX_S
from sokovan.domain.slots import AMOUNT_MAX, checked_slot_name
from sokovan.entrypoints.settings.setting_kinds import SettingInfo, SettingProblem, unknown
from sokovan.ports.config import setting_path
from sokovan.scheduling.engine.evictions.rules import OPTION_MAX, OWNER_BUDGET_MAX
from sokovan.scheduling.profile import (
    RESERVE_DEPTH_MAX,
    SchedulingProfile,
    profile_from,
    profile_of,
    require_sensible,
)
from sokovan.scheduling.registry import PluginRegistry

_DEFAULT = SchedulingProfile()

# Key of a group -> its description and default.
GROUP_KEYS: dict[str, tuple[SettingInfo, object]] = {
    "scheduler": (SettingInfo("name", "The sequencer: the order in which sessions are considered."), "fifo"),
    "scheduler_opts": (SettingInfo("table", "The rest of the policy; see below."), {}),
    "known_slots": (
        SettingInfo("list of slot names", "The slots that may be requested; if empty, those of its agents."),
        [],
    ),
    "slot_priority": (
        SettingInfo("list of slot names", "The order in which the legacy selector compares agents."),
        list(SLOT_PRIORITY_DEFAULT),
    ),
    "pending_timeout_s": (
        SettingInfo(
            "whole number",
            "Time after which a pending session is cancelled, counted from when it may start.",
            least=1,
            most=GROUP_TIME_MAX_S,
        ),
        None,
    ),
    "usage_half_life_s": (
        SettingInfo("whole number", "Time in which past usage halves.", least=1, most=HALF_LIFE_MAX_S),
        HALF_LIFE_DEFAULT_S,
    ),
    "slot_weights": (
        SettingInfo("table", "Weight in past usage by slot; by default a device has 40, a core 4, a GiB 1."),
        {},
    ),
    "mem_per_gpu_bytes": (
        SettingInfo(
            "whole number",
            "Memory per accelerator of a kernel that requests none; if not set, its share of an agent's memory.",
            least=1,
            most=AMOUNT_MAX,
        ),
        None,
    ),
    "mem_per_cpu_bytes": (
        SettingInfo(
            "whole number",
            "Memory per cpu of a kernel that requests neither memory nor accelerators; if not set, its share.",
            least=1,
            most=AMOUNT_MAX,
        ),
        None,
    ),
    "session_types": (SettingInfo("list of names", "The session types that it takes; if empty, all."), []),
    "public": (SettingInfo("true or false", "Whether every owner may use it; else those of assigned_to only."), True),
    "assigned_to": (
        SettingInfo("list of owners", "Owners that may use it if it is not public: group:nlp, domain:physics."),
        [],
    ),
    "isolated_network": (
        SettingInfo("true or false", "Whether each kernel has a network of its own, with itself in it only."),
        False,
    ),
    "mount_roots": (
        SettingInfo(
            "list of folders",
            "Sessions may use folders of agents beneath these; `{user}` and `{group}` stand for their owner.",
        ),
        [],
    ),
    "default_queue": (SettingInfo("name", "The queue of its sessions that name none."), None),
    "lifetime_max_s": (
        SettingInfo("whole number", "Time after which a running session is ended.", least=1, most=GROUP_TIME_MAX_S),
        None,
    ),
    "idle_timeout_s": (
        SettingInfo(
            "whole number", "Idle timeout of interactive sessions that set none.", least=1, most=GROUP_TIME_MAX_S
        ),
        None,
    ),
    "idle_timeout_max_s": (
        SettingInfo(
            "whole number", "The longest idle timeout of interactive sessions.", least=1, most=GROUP_TIME_MAX_S
        ),
        None,
    ),
    "allow_best_effort": (SettingInfo("true or false", "Whether kernels may request 0 of everything."), False),
    "best_effort_per_agent_max": (
        SettingInfo("whole number", "Most best-effort kernels on one agent.", least=0, most=BEST_EFFORT_COUNT_MAX),
        BEST_EFFORT_PER_AGENT_DEFAULT,
    ),
    "best_effort_per_user_max": (
        SettingInfo("whole number", "Most best-effort kernels of one user.", least=0, most=BEST_EFFORT_COUNT_MAX),
        BEST_EFFORT_PER_USER_DEFAULT,
    ),
}

# Key of `scheduler_opts` -> its description and default.
OPTIONS: dict[str, tuple[SettingInfo, object]] = {
    "agent_selector": (
        SettingInfo("name", "The selector: the preferred agent among those that fit."),
        _DEFAULT.selector,
    ),
    "queue_policy": (SettingInfo("name", "How queues share resources: proportion or capacity."), _DEFAULT.queue_policy),
    "hierarchy": (
        SettingInfo("true or false", "Whether queues form a tree; only its leaves run sessions."),
        _DEFAULT.hierarchy,
    ),
    "actions": (
        SettingInfo("list of names", "The actions of a cycle, in order; preempt and reclaim evict sessions."),
        list(_DEFAULT.actions),
    ),
    "validators": (SettingInfo("list of names", "The rules that admit sessions."), list(_DEFAULT.validators)),
    "plugins": (SettingInfo("list of names", "The enabled engine plugins."), list(_DEFAULT.plugins)),
    "shard": (SettingInfo("text", "The shard of this scheduler."), _DEFAULT.shard),
    "shard_mode": (
        SettingInfo("name", "Use of agents of other shards: none (equally), soft (as a second choice), hard (never)."),
        _DEFAULT.shard_mode,
    ),
    "fit_error_cache": (
        SettingInfo("true or false", "Whether equal kernels that do not fit are checked once per cycle."),
        _DEFAULT.fit_error_cache,
    ),
    "prefer_lower_tier": (
        SettingInfo("true or false", "Whether a session waits for a lower tier rather than start in a higher one now."),
        _DEFAULT.prefer_lower_tier,
    ),
    "reserve_depth": (
        SettingInfo(
            "whole number", "So many queues hold room from a time on for a session.", least=0, most=RESERVE_DEPTH_MAX
        ),
        _DEFAULT.reserve_depth,
    ),
    "ancestor_reclaim_level": (
        SettingInfo(
            "whole number",
            "How many queues above a victim's must use more than they deserve, too.",
            least=0,
            most=OPTION_MAX,
        ),
        _DEFAULT.eviction_options.ancestor_reclaim_level,
    ),
    "evictions_per_cycle": (
        SettingInfo(
            "whole number", "The most kernels that preempt and reclaim evict in a cycle.", least=0, most=OPTION_MAX
        ),
        _DEFAULT.eviction_options.evictions_per_cycle,
    ),
    "assumed_checkpoint": (
        SettingInfo("seconds", "A session that reports no checkpoints counts as saved this long ago."),
        _DEFAULT.eviction_options.assumed_checkpoint,
    ),
    "cool_down": (
        SettingInfo("seconds", "So long after it gave, a queue reclaims only within its share of every slot."),
        _DEFAULT.eviction_options.cool_down,
    ),
    "owner_budget": (
        SettingInfo(
            "per cent",
            f"The most of a user's running kernels that others evict in an hour, 0 to {OWNER_BUDGET_MAX}.",
        ),
        _DEFAULT.eviction_options.owner_budget,
    ),
    "move_cost_max": (
        SettingInfo("slot seconds", "The most that consolidate may lose by moving sessions for one that waits."),
        _DEFAULT.eviction_options.move_cost_max,
    ),
    "restart_cost": (
        SettingInfo("seconds", "What a restart costs each slot of a session that consolidate moves."),
        _DEFAULT.eviction_options.restart_cost,
    ),
}
# Keys of a profile with another name or place here.
_MISPLACED = {
    "sequencer": "is set as `scheduler`, next to scheduler_opts",
    "selector": "is set as agent_selector",
}
_SLOT_LISTS = ("known_slots", "slot_priority")
# Keys that the scaling group itself checks.
_BUILT = ("slot_weights", "session_types", "assigned_to", "mount_roots")


class ScalingGroupReader:
    """Reads all groups and collects their problems."""

    def __init__(self, problems: list[SettingProblem], registry: PluginRegistry | None) -> None:
        self._problems, self._registry = problems, registry

    def groups(self, value: object) -> dict[ScalingGroupName, ScalingGroup]:
        """All configured groups by name."""
        if not isinstance(value, Mapping):
            self._wrong("scaling_groups", f"{quoted(value)} must be a table of groups")
            return {}
        return {ScalingGroupName(name): self._group(name, group) for name, group in value.items()}

    def _group(self, name: str, value: object) -> ScalingGroup:
        path = setting_path("scaling_groups", name)
        before = len(self._problems)
        if not is_name(name):
            self._wrong(path, f"{quoted(name)} is not a name for a scaling group")
        if not isinstance(value, Mapping):
            self._wrong(path, f"{quoted(value)} must be a table")
            value = {}
        for key, given in value.items():
            self._key(f"{path}.{key}", key, given)
        self._check_names(path, value)
        if len(self._problems) > before:
            return ScalingGroup(DEFAULT_SCALING_GROUP)
        group = _build_group(name, value)
        self._check_profile(path, group)
        return group

    def _key(self, path: str, key: str, value: object) -> None:
        if key not in GROUP_KEYS:
            self._wrong(path, unknown(key, GROUP_KEYS))
        elif key in _SLOT_LISTS:
            self._slots(path, value)
        elif key == "scheduler_opts":
            self._options(path, value)
        elif key in _BUILT:
            self._attempt(path, partial(_build_group, DEFAULT_SCALING_GROUP, {key: value}))
        else:
            problem = GROUP_KEYS[key][0].problem(value)
            if problem:
                self._wrong(path, problem)

    def _slots(self, path: str, value: object) -> None:
        if not isinstance(value, list | tuple):
            self._wrong(path, f"{quoted(value)} must be a list of slot names")
            return
        for index, slot in enumerate(value):
            if not isinstance(slot, str):
                self._wrong(f"{path}[{index}]", f"{quoted(slot)} must be a text")
                continue
            self._attempt(f"{path}[{index}]", partial(checked_slot_name, slot, given=slot))

    def _options(self, path: str, value: object) -> None:
        """Check each option separately, so that all problems are reported."""
        if not isinstance(value, Mapping):
            self._wrong(path, f"{quoted(value)} must be a table")
            return
        for key, given in value.items():
            here = f"{path}.{key}"
            if key in _MISPLACED:
                self._wrong(here, _MISPLACED[key])
            elif key not in OPTIONS:
                self._wrong(here, unknown(key, OPTIONS))
            else:
                self._attempt(here, partial(profile_from, {"shard": "any", key: given}))

    def _check_names(self, path: str, group: Mapping[str, object]) -> None:
        """Check that the named plugins exist."""
        opts = group.get("scheduler_opts")
        options = opts if isinstance(opts, Mapping) else {}
        if self._registry is None:
            return
        named: list[tuple[str, Callable[[str], object], object]] = [
            ("scheduler", self._registry.sequencer, [group.get("scheduler")]),
            ("scheduler_opts.agent_selector", self._registry.selector, [options.get("agent_selector")]),
            ("scheduler_opts.validators", self._registry.validator, options.get("validators")),
            ("scheduler_opts.plugins", self._registry.plugin, options.get("plugins")),
        ]
        for key, find, names in named:
            for name in _texts(names):
                self._attempt(f"{path}.{key}", partial(find, name))

    def _check_profile(self, path: str, group: ScalingGroup) -> None:
        """Check options that depend on each other."""
        try:
            require_sensible(profile_of(group))
        except InvalidSpec as error:
            self._wrong(f"{path}.scheduler_opts.{error.field}", f"{error.problem}{_advice_of(error)}")

    def _attempt(self, path: str, make: Callable[[], object]) -> None:
        try:
            make()
        except InvalidSpec as error:
            self._wrong(path, f"{quoted(error.value)} {error.problem}{_advice_of(error)}")
        except SokovanError as error:
            self._wrong(path, error.message)

    def _wrong(self, path: str, text: str) -> None:
        self._problems.append(SettingProblem(path, text))


def _build_group(name: str, value: Mapping[str, object]) -> ScalingGroup:
    """Build a group from checked values."""
    given = {key: tuple(one) if isinstance(one, list) else one for key, one in value.items()}
    types = given.get("session_types")
    if isinstance(types, tuple):
        given["session_types"] = read_session_types(types, what=f"scaling group {name}")
    return ScalingGroup(name=ScalingGroupName(name), **given)  # type: ignore[arg-type]  # each was checked above


def _advice_of(error: InvalidSpec) -> str:
    return f"; {error.hint}" if error.hint != InvalidSpec.hint else ""


def _texts(value: object) -> list[str]:
    """The strings of a list; other values are reported elsewhere."""
    return [one for one in value if isinstance(one, str)] if isinstance(value, list | tuple) else []
