"""A plugin that raises costs the session at hand its turn, and nobody else anything."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.slot_notation import parse_slots
from sokovan.domain.slots import ResourceSlot
from sokovan.scheduling.extensions import SchedulingPlugin
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.registry import BUILT_IN, PluginRegistry
from sokovan.scheduling.selectors.base import AgentSelector
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload, SystemSnapshot
from sokovan.scheduling.trace import Code
from sokovan.scheduling.validators.base import ValidatorRule

CPU: ResourceSlot = parse_slots("cpu=1")
UNLUCKY = "unlucky:1"


class _Broken(SchedulingPlugin):
    name = "broken"


def _failing(answer: object) -> Callable[..., object]:
    """A method that fails on the unlucky image, wherever it stands in its arguments."""

    def method(self: object, *arguments: object) -> object:
        del self
        assert UNLUCKY not in repr(arguments), "not this one"
        return answer

    return method


def _plan(registry: PluginRegistry, profile: SchedulingProfile) -> SchedulingPlan:
    agents = tuple(AgentInfo(AgentId(name), parse_slots("cpu=4")) for name in ("a1", "a2"))
    sessions = tuple(
        SessionWorkload(SessionId(name), (KernelWorkload(KernelId(f"{name}-1"), CPU, image=image),))
        for name, image in {"first": UNLUCKY, "second": "lucky:1"}.items()
    )
    return schedule(SystemSnapshot(agents, sessions), profile, registry)


@pytest.mark.parametrize(
    ("point", "answer"),
    [
        ("predicate", True),
        ("pre_predicate", None),
        ("session_valid", None),
        ("agent_order_map", None),
        ("session_ready", True),
    ],
)
def test_the_session_is_told_which_plugin_failed_where_and_the_next_is_served(point: str, answer: object) -> None:
    broken = type("Broken", (_Broken,), {point: _failing(answer)})
    registry = PluginRegistry(BUILT_IN.validators, BUILT_IN.sequencers, BUILT_IN.selectors, {"broken": broken})
    plan = _plan(registry, SchedulingProfile(plugins=("broken",)))
    verdict = plan.trace[SessionId("first")]

    assert verdict.code is Code.PLUGIN_FAILED
    assert f"plugin broken failed in {point}: AssertionError: not this one" in verdict.summary
    assert [placement.session_id for placement in plan.placements] == ["second"]


def test_a_selector_that_raises_is_named(registry: PluginRegistry) -> None:
    affinity = type(registry.selector("image-affinity"))
    choose, check = affinity.select, _failing(None)

    def select(self: AgentSelector, *arguments: object) -> object:
        check(self, arguments[0])
        return choose(self, *arguments)  # type: ignore[arg-type]  # passed on as they came

    picky = type("Picky", (affinity,), {"name": "picky", "select": select})
    several = PluginRegistry(BUILT_IN.validators, BUILT_IN.sequencers, {"picky": picky})
    plan = _plan(several, SchedulingProfile(selector="picky"))

    assert plan.trace[SessionId("first")].code is Code.PLUGIN_FAILED
    assert "picky" in plan.trace[SessionId("first")].summary
    assert [placement.session_id for placement in plan.placements] == ["second"]


def test_a_validator_that_raises_is_named() -> None:
    check = _failing(None)
    rule = type("Rule", (ValidatorRule,), {"name": "rule", "validate": lambda self, session, _: check(self, session)})
    registry = PluginRegistry({"rule": rule}, BUILT_IN.sequencers, BUILT_IN.selectors)
    plan = _plan(registry, SchedulingProfile(validators=("rule",)))
    verdict = plan.trace[SessionId("first")]

    assert verdict.code is Code.PLUGIN_FAILED
    assert [check.name for check in verdict.checks if check.result == "no"] == ["rule"]
    assert [placement.session_id for placement in plan.placements] == ["second"]
