"""The scheduling plugins that are installed, found by entry point."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from unittest.mock import Mock

import pytest

from sokovan.entrypoints import plugins
from sokovan.entrypoints.plugins import GROUPS, UnloadablePlugin, installed_plugins, registry_of
from sokovan.scheduling.registry import BUILT_IN, DuplicatePlugin
from sokovan.scheduling.selectors.dispersed import DispersedSelector
from tests.unit.scheduling.little_cluster import agent, decide, session, snapshot, started, where

HERE = "tests.unit.entrypoints.third_party"


def point(group: str, name: str, what: str) -> EntryPoint:
    """An entry point as an installed package would offer it."""
    return EntryPoint(name=name, value=f"{HERE}:{what}", group=f"sokovan.{group}")


def test_what_is_installed_has_everything_that_is_built_in() -> None:
    installed = installed_plugins()
    assert BUILT_IN.validators.items() <= installed.validators.items()
    assert BUILT_IN.sequencers.items() <= installed.sequencers.items()
    assert BUILT_IN.selectors.items() <= installed.selectors.items()


def test_the_metadata_of_the_packages_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Mock(wraps=entry_points)
    monkeypatch.setattr(plugins, "entry_points", read)
    installed_plugins()
    read.assert_called_once_with()


def test_without_entry_points_there_is_what_is_built_in() -> None:
    assert registry_of([]) == BUILT_IN


def test_a_selector_of_another_package_is_used_by_its_name() -> None:
    registry = registry_of([point("selectors", "last", "LastById")])
    seen = snapshot([agent("a"), agent("b"), agent("c")], [session("s")])
    assert where(decide(seen, registry, selector="last")) == {"s.0": "c"}


def test_a_sequencer_of_another_package_is_used_by_its_name() -> None:
    registry = registry_of([point("sequencers", "alphabetical", "Alphabetical")])
    seen = snapshot([agent("a")], [session("z"), session("b")])
    assert started(decide(seen, registry, sequencer="alphabetical")) == ["b", "z"]


def test_a_validator_of_another_package_is_used_by_its_name() -> None:
    registry = registry_of([point("validators", "nobody", "Nobody")])
    seen = snapshot([agent("a")], [session("s")])
    assert started(decide(seen, registry, validators=("nobody",))) == []
    assert started(decide(seen, registry)) == ["s"]


@pytest.mark.parametrize("group", ["predicates", "plugins"])
def test_an_engine_plugin_may_be_offered_as_a_predicate_or_as_a_plugin(group: str) -> None:
    registry = registry_of([point(group, "not-a", "NotOnA")])
    seen = snapshot([agent("a"), agent("b")], [session("s")])
    assert where(decide(seen, registry, plugins=("not-a",))) == {"s.0": "b"}
    assert where(decide(seen, registry, plugins=())) == {"s.0": "a"}


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("Missing", "AttributeError: "),
        ("NOT_A_CLASS", "is not a subclass of AgentSelector"),
        ("Alphabetical", "is not a subclass of AgentSelector"),
        ("LastById", "has the name 'last'"),
    ],
)
def test_what_is_not_a_plugin_of_its_group_and_name_is_refused_where_it_is_named(what: str, said: str) -> None:
    registry = registry_of([point("selectors", "mine", what)])
    with pytest.raises(UnloadablePlugin) as refused:
        registry.selector("mine")
    assert (refused.value.group, refused.value.name) == ("sokovan.selectors", "mine")
    assert refused.value.message.startswith("plugin 'mine' of group sokovan.selectors: ")
    assert said in refused.value.problem
    assert refused.value.code == "unloadable-plugin"


def test_a_package_that_does_not_import_fails_by_its_error_and_disturbs_no_other() -> None:
    broken = EntryPoint("mine", "no_such_package:Thing", "sokovan.selectors")
    registry = registry_of([broken, point("selectors", "last", "LastById")])
    assert registry.selector("last").name == "last"
    with pytest.raises(UnloadablePlugin, match="ModuleNotFoundError: No module named 'no_such_package'"):
        registry.selector("mine")


def test_a_plugin_cannot_replace_a_built_in_one() -> None:
    registry = registry_of([point("selectors", "dispersed", "LastById")])
    assert isinstance(registry.selector("dispersed"), DispersedSelector)


def test_two_plugins_of_one_kind_cannot_share_a_name_even_across_groups() -> None:
    registry = registry_of([point("predicates", "not-a", "NotOnA"), point("plugins", "not-a", "NotOnA")])
    with pytest.raises(DuplicatePlugin, match="two plugins are named 'not-a'"):
        registry.plugin("not-a")


def test_there_is_a_group_for_every_kind_of_plugin() -> None:
    assert set(GROUPS) == {
        "sokovan.validators", "sokovan.sequencers", "sokovan.selectors", "sokovan.predicates", "sokovan.plugins",
    }  # fmt: skip


def test_a_package_on_the_path_is_found_by_its_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    described = tmp_path / "demo-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n", encoding="utf-8")
    (described / "entry_points.txt").write_text(f"[sokovan.selectors]\nlast = {HERE}:LastById\n", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert installed_plugins().selector("last").name == "last"
