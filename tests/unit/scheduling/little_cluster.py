"""Builders of small clusters, and `decide`, which these tests schedule with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AccessKey, AgentId, KernelId, QueueName, SessionId
from sokovan.domain.owners.policy import ResourcePolicy, Scope
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.slot_notation import parse_slots
from sokovan.domain.slots import SlotLimits
from sokovan.scheduling.extensions import SchedulingPlugin
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.registry import BUILT_IN, PluginRegistry
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload, SystemSnapshot
from sokovan.scheduling.trace import Verdict

Limits = dict[Scope, dict[str, ResourcePolicy]]


def agent(name: str, slots: str = "cpu=4", *, used: str = "", **more: Any) -> AgentInfo:
    """An agent with these slots, some of them in use."""
    return AgentInfo(AgentId(name), parse_slots(slots), parse_slots(used), **more)


def kernel(name: str, slots: str = "cpu=1", *, on: str | None = None, **more: Any) -> KernelWorkload:
    """A kernel that requests these slots, or has them on an agent already."""
    return KernelWorkload(KernelId(name), parse_slots(slots), agent=AgentId(on) if on else None, **more)


def session(name: str, *requests: str | KernelWorkload, user: str = "default", **more: Any) -> SessionWorkload:
    """A session of a user; each request is one kernel, by default one of one cpu."""
    kernels = tuple(
        request if isinstance(request, KernelWorkload) else kernel(f"{name}.{index}", request)
        for index, request in enumerate(requests or ("cpu=1",))
    )
    owner = more.pop("owner", Owner(user=user, access_key=AccessKey(user)))
    queue = QueueName(more.pop("queue", "default"))
    return SessionWorkload(SessionId(name), kernels, owner=owner, queue=queue, **more)


def snapshot(agents: Iterable[AgentInfo], sessions: Iterable[SessionWorkload] = (), **more: Any) -> SystemSnapshot:
    """A system whose sessions were submitted in the order in which they are listed."""
    aged = tuple(replace(one, submitted=one.submitted or index) for index, one in enumerate(sessions, start=1))
    return SystemSnapshot(tuple(agents), aged, **more)


def decide(
    seen: SystemSnapshot, registry: PluginRegistry = BUILT_IN, *, plugins: Iterable[str] | None = None, **policy: Any
) -> SchedulingPlan:
    """The plan for a snapshot by a policy; by default with all engine plugins of the registry."""
    named = tuple(registry.plugins) if plugins is None else tuple(plugins)
    return schedule(seen, SchedulingProfile(plugins=named, **policy), registry)


def where(plan: SchedulingPlan) -> dict[str, str]:
    """The agent of each placed kernel."""
    return {str(placement.kernel_id): str(placement.agent_id) for placement in plan.placements}


def started(plan: SchedulingPlan) -> list[str]:
    """The sessions with placements, in the order of the plan."""
    return list(dict.fromkeys(str(placement.session_id) for placement in plan.placements))


def verdict_of(plan: SchedulingPlan, name: str) -> Verdict:
    """The verdict of a session."""
    return plan.trace[SessionId(name)]


def limits(scope: Scope, name: str, slots: str | None = None, **more: Any) -> Limits:
    """A limit on one owner. Slots as they are written, a limit of 0 included."""
    if slots is not None:
        more["slots_max"] = slot_limits(slots)
    return {scope: {name: ResourcePolicy("policy", **more)}}


def slot_limits(slots: str) -> SlotLimits:
    """Limits as they are written; unlike an amount, a limit of 0 is kept."""
    names = [item.partition("=")[0] for item in slots.split()]
    amounts = parse_slots(slots)
    return SlotLimits({name: amounts[name] for name in names})


def plugin_with(**points: Callable[..., object]) -> type[SchedulingPlugin]:
    """An engine plugin that overrides these points; the functions take what the point takes."""
    members = {point: staticmethod(answer) for point, answer in points.items()}
    return cast("type[SchedulingPlugin]", type("Tester", (SchedulingPlugin,), {"name": "tester", **members}))


def registry_with(
    *plugins: type[SchedulingPlugin],
    validators: Mapping[str, Callable[[], Any]] | None = None,
    sequencers: Mapping[str, Callable[[], Any]] | None = None,
    selectors: Mapping[str, Callable[[], Any]] | None = None,
) -> PluginRegistry:
    """The built-in plugins and these."""
    return PluginRegistry(
        validators={**BUILT_IN.validators, **(validators or {})},
        sequencers={**BUILT_IN.sequencers, **(sequencers or {})},
        selectors={**BUILT_IN.selectors, **(selectors or {})},
        plugins={plugin.name: plugin for plugin in plugins},
    )
