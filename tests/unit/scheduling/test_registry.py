"""PluginRegistry: plugins by kind and name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sokovan.scheduling.extensions import SchedulingPlugin
from sokovan.scheduling.registry import BUILT_IN, DuplicatePlugin, PluginRegistry, UnknownPlugin, UnusablePlugin
from sokovan.scheduling.selectors.concentrated import ConcentratedSelector
from sokovan.scheduling.sequencers.drf import DRFSequencer
from sokovan.scheduling.validators.concurrency import ConcurrencyValidator
from tests.unit.scheduling.little_cluster import agent, decide, plugin_with, registry_with, session, snapshot


def test_every_plugin_of_the_seed_is_built_in_under_its_name() -> None:
    assert sorted(BUILT_IN.sequencers) == ["deadline", "drf", "fair-share", "fifo", "lifo", "multifactor"]
    assert sorted(BUILT_IN.selectors) == ["concentrated", "dispersed", "legacy", "roundrobin"]
    assert sorted(BUILT_IN.validators) == [
        "concurrency", "dependencies", "domain-resource-limit", "group-resource-limit", "keypair-resource-limit",
        "pending-session-count-limit", "pending-session-resource-limit", "reserved-batch-session",
        "user-resource-limit",
    ]  # fmt: skip
    assert BUILT_IN.plugins == {}


def test_a_plugin_is_created_anew_for_each_call() -> None:
    assert isinstance(BUILT_IN.sequencer("drf"), DRFSequencer)
    assert isinstance(BUILT_IN.selector("concentrated"), ConcentratedSelector)
    assert isinstance(BUILT_IN.validator("concurrency"), ConcurrencyValidator)
    assert BUILT_IN.selector("concentrated") is not BUILT_IN.selector("concentrated")
    tester = plugin_with()
    assert isinstance(registry_with(tester).plugin("tester"), SchedulingPlugin)


@pytest.mark.parametrize("kind", ["validator", "sequencer", "selector", "plugin"])
def test_every_built_in_plugin_carries_the_name_that_it_is_found_by(kind: str) -> None:
    shelf: dict[str, Callable[[], object]] = getattr(BUILT_IN, f"{kind}s")
    assert all(getattr(make(), "name", None) == name for name, make in shelf.items())


@pytest.mark.parametrize(
    ("kind", "known"),
    [
        ("validator", "concurrency, dependencies, domain-resource-limit"),
        ("sequencer", "deadline, drf, fair-share, fifo, lifo, multifactor"),
        ("selector", "concentrated, dispersed, legacy, roundrobin"),
        ("plugin", "none"),
    ],
)
def test_an_unknown_name_is_refused_with_the_list_of_known_ones(kind: str, known: str) -> None:
    with pytest.raises(UnknownPlugin) as refused:
        getattr(BUILT_IN, kind)("nope")
    assert (refused.value.kind, refused.value.name, refused.value.code) == (kind, "nope", "unknown-plugin")
    assert refused.value.known == tuple(sorted(getattr(BUILT_IN, f"{kind}s")))
    assert refused.value.message.startswith(f"there is no {kind} 'nope'; known are {known}")


@pytest.mark.parametrize(
    "policy",
    [{"sequencer": "nope"}, {"selector": "nope"}, {"validators": ("concurrency", "nope")}, {"plugins": ("nope",)}],
)
def test_a_profile_that_names_an_unknown_plugin_is_refused_before_anything_is_decided(policy: dict[str, str]) -> None:
    with pytest.raises(UnknownPlugin, match="'nope'"):
        decide(snapshot([agent("a")], [session("s")]), **policy)  # type: ignore[arg-type]  # a row of any policy


def test_an_empty_registry_has_no_plugins() -> None:
    with pytest.raises(UnknownPlugin, match="known are none"):
        PluginRegistry().selector("concentrated")


def test_a_duplicate_is_reported_by_kind_and_name() -> None:
    error = DuplicatePlugin(kind="selector", name="mine")
    assert (error.message, error.code) == ("two selectors are named 'mine'", "duplicate-plugin")


def test_a_plugin_that_cannot_be_made_is_reported_by_kind_and_name() -> None:
    class NeedsALicence(ConcentratedSelector):
        def __init__(self) -> None:
            raise PermissionError("no licence")

    with pytest.raises(UnusablePlugin, match="PermissionError: no licence") as refused:
        registry_with(selectors={"mine": NeedsALicence}).selector("mine")
    assert (refused.value.kind, refused.value.name, refused.value.code) == ("selector", "mine", "unusable-plugin")
