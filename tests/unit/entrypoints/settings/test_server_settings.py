"""Everything that can be set, checked as a whole."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.entrypoints.settings.server_settings import InvalidSettings, ServerSettings, described, settings_of
from sokovan.entrypoints.settings.setting_sections import SECTIONS
from sokovan.scheduling.registry import BUILT_IN

SEQUENCERS = ("deadline", "drf", "fair-share", "fifo", "lifo", "multifactor")


def test_an_empty_configuration_is_all_defaults() -> None:
    settings = settings_of({}, BUILT_IN)
    assert settings == ServerSettings()
    assert (settings.scheduler.short_cycle_ms, settings.scheduler.long_cycle_s) == (20, 10)
    assert (settings.scheduler.batch_max, settings.scheduler.allocator) == (100, "repository")
    assert (settings.orchestrator.agent_suspect_s, settings.orchestrator.agent_lost_s) == (15, 60)
    assert settings.orchestrator.mass_loss_percent == 30
    assert (settings.orchestrator.agent_failing_sessions, settings.orchestrator.agent_failing_window_s) == (3, 600)
    assert settings.storage.url == "sqlite:"
    assert settings.scaling_groups == {}


def test_every_section_is_read() -> None:
    settings = settings_of(
        {
            "scaling_groups": {"gpu": {"scheduler": "drf"}},
            "scheduler": {"short_cycle_ms": 5},
            "orchestrator": {"agent_lost_s": 90},
            "storage": {"url": "postgresql://u:p@db/sokovan"},
            "agent": {"labels": ["rack=r01"], "gpu_shares": True},
            "api": {"port": 0},
            "uploads": {"files_max": 7},
            "log": {"files_kept": 0},
            "config": {"url": "etcd://one:2379,two:2379", "poll_s": 3},
        },
        BUILT_IN,
    )
    assert settings.scaling_groups.keys() == {"gpu"}
    assert (settings.scheduler.short_cycle_ms, settings.orchestrator.agent_lost_s) == (5, 90)
    assert settings.storage.url == "postgresql://u:p@db/sokovan"
    assert (settings.agent.labels, settings.agent.gpu_shares) == (("rack=r01",), True)
    assert (settings.api.port, settings.uploads.files_max, settings.log.files_kept) == (0, 7, 0)
    assert settings.config.poll_s == 3


def test_every_problem_is_listed_with_its_full_path() -> None:
    values = {
        "scaling_groups": {"default": {"scheduler_opts": {"queue_policy": "x"}, "scheduler": "fifoo"}},
        "schedular": {},
        "scheduler": {"short_cycle_ms": "20", "batch_max": 0, "shortcycle_ms": 1},
        "orchestrator": 5,
        "storage": {"url": "mysql://x"},
    }
    with pytest.raises(InvalidSettings) as refused:
        settings_of(values, BUILT_IN)
    assert refused.value.message.splitlines() == [
        "8 settings cannot be used:",
        "  schedular: is not known; did you mean scheduler?",
        "  scaling_groups.default.scheduler_opts.queue_policy: 'x' is not known; known are capacity, proportion",
        f"  scaling_groups.default.scheduler: there is no sequencer 'fifoo'; known are {', '.join(SEQUENCERS)}",
        "  scheduler.short_cycle_ms: '20' must be a whole number",
        "  scheduler.batch_max: 0 must be from 1 to 100000",
        "  scheduler.shortcycle_ms: is not known; did you mean short_cycle_ms?",
        "  orchestrator: must be a table, not int",
        "  storage.url: begins with 'mysql:'; it must begin with sqlite:, postgresql:",
    ]
    assert refused.value.code == "invalid-settings"


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"orchestrator": {"agent_lost_s": 15}}, "agent_lost_s: 15 must be more than agent_suspect_s, 15"),
        ({"orchestrator": {"agent_suspect_s": 60}}, "agent_lost_s: 60 must be more than agent_suspect_s, 60"),
        (
            {"scheduler": {"short_cycle_ms": 5000, "long_cycle_s": 1}},
            "short_cycle_ms: 5000 ms must not be longer than long_cycle_s, 1 s",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(values: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidSettings) as refused:
        settings_of(values)
    [found] = refused.value.problems
    assert f"{found.path.partition('.')[2]}: {found.text}" == problem


def test_a_password_is_printed_neither_in_the_settings_nor_in_an_error() -> None:
    address = "postgresql://u:hunter2@db/x"
    assert "hunter2" not in repr(settings_of({"storage": {"url": address}}))
    with pytest.raises(InvalidSettings) as refused:
        settings_of({"storage": {"url": address, "x": 1}, "config": {"url": address}, "log": address})
    assert "hunter2" not in str(refused.value)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from([path.rpartition(".")[2] for path, *_ in described()]) | st.text(max_size=6)
TABLES = JSON | st.dictionaries(KEYS, JSON, max_size=4)


@pytest.mark.slow
@given(
    st.dictionaries(
        st.sampled_from([*SECTIONS, "scaling_groups"]) | st.text(max_size=5),
        TABLES | st.dictionaries(st.text(max_size=5), TABLES | st.dictionaries(KEYS, TABLES, max_size=3), max_size=2),
        max_size=4,
    )
)
def test_any_values_give_settings_or_a_list_of_problems(values: dict[str, Any]) -> None:
    try:
        assert isinstance(settings_of(values, BUILT_IN), ServerSettings)
    except InvalidSettings as error:
        problems = error.problems
    else:
        problems = ()
    assert all(any(problem.path.startswith(key) for key in values) for problem in problems)
    assert all(problem.text for problem in problems)


def test_every_setting_has_its_meaning_a_sentence_and_a_default_that_is_legal() -> None:
    for path, about, default in described():
        assert about.meaning.endswith("."), path
        if path.partition(".")[0] in SECTIONS:
            assert default == "" or about.problem(default) == "", path


def test_every_section_is_described() -> None:
    sections = {path.partition(".")[0] for path, *_ in described()}
    assert sections == {one.name for one in fields(ServerSettings)}


def test_only_the_hot_settings_of_a_change_are_taken() -> None:
    before = settings_of({"scheduler": {"batch_max": 5, "long_cycle_s": 5}})
    requested = settings_of({"scheduler": {"batch_max": 6, "long_cycle_s": 6}, "scaling_groups": {"gpu": {}}})
    after = before.with_hot(requested)
    assert (after.scheduler.batch_max, after.scheduler.long_cycle_s) == (6, 5)
    assert before.differences(after) == ["scaling_groups.gpu", "scheduler.batch_max"]
    assert after.differences(requested) == ["scheduler.long_cycle_s"]


def test_a_problem_names_the_place_of_its_value_or_of_the_table_around_it() -> None:
    origins = {"scheduler": "s.toml:1", "scheduler.batch_max": "s.toml:2", "scaling_groups.a.known_slots": "s.toml:9"}
    values: dict[str, object] = {
        "scheduler": {"batch_max": 0, "allocator": 5},
        "scaling_groups": {"a": {"known_slots": ["cpu", "no slot"]}},
    }
    with pytest.raises(InvalidSettings) as refused:
        settings_of(values, origins=origins)
    assert [one.origin for one in refused.value.problems] == ["s.toml:9", "s.toml:2", "s.toml:1"]
