"""Everything that can be set, checked as a whole."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.entrypoints.settings import SECTIONS, InvalidSettings, ServerSettings, described, settings_of
from sokovan.scheduling.registry import BUILT_IN


def test_an_empty_configuration_is_all_defaults() -> None:
    settings = settings_of({}, BUILT_IN)
    assert settings == ServerSettings()
    assert (settings.scheduler.short_cycle_ms, settings.scheduler.long_cycle_s) == (20, 10)
    assert (settings.scheduler.batch_max, settings.scheduler.allocator) == (500, "repository")
    assert (settings.orchestrator.agent_suspect_s, settings.orchestrator.agent_lost_s) == (15, 60)
    assert settings.orchestrator.mass_loss_percent == 30
    assert (settings.orchestrator.agent_failing_sessions, settings.orchestrator.agent_failing_window_s) == (3, 600)
    assert settings.storage.url.startswith("sqlite:")
    assert list(settings.scaling_groups) == ["default"]


def test_every_section_is_read() -> None:
    settings = settings_of(
        {
            "scaling_groups": {"gpu": {"scheduler": "drf"}},
            "scheduler": {"short_cycle_ms": 5},
            "orchestrator": {"agent_lost_s": 90},
            "storage": {"url": "postgresql://u:p@db/sokovan"},
            "bus": {"url": "valkey://cache:6379/0"},
            "config": {"url": "etcd://one:2379,two:2379", "poll_s": 3},
        },
        BUILT_IN,
    )
    assert settings.scaling_groups.keys() == {"gpu"}
    assert (settings.scheduler.short_cycle_ms, settings.orchestrator.agent_lost_s) == (5, 90)
    assert (settings.storage.url, settings.bus.url) == ("postgresql://u:p@db/sokovan", "valkey://cache:6379/0")
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
        "  scaling_groups.default.scheduler: there is no sequencer 'fifoo'; known are drf, fair-share, fifo, lifo",
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
        settings_of({"storage": {"url": address, "x": 1}, "bus": {"url": address}, "config": address})
    assert "hunter2" not in str(refused.value)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from([path.rpartition(".")[2] for path, *_ in described()]) | st.text(max_size=6)
TABLES = JSON | st.dictionaries(KEYS, JSON, max_size=4)


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
    for path, about, default, _ in described():
        assert about.meaning.endswith("."), path
        if path.partition(".")[0] in SECTIONS:
            assert about.problem(default) == "", path


def test_every_section_is_described_and_known_to_be_hot_or_not() -> None:
    sections = {path.partition(".")[0] for path, *_ in described()}
    assert sections == {one.name for one in fields(ServerSettings)}
    assert set(ServerSettings.hot) < sections
    assert {path.partition(".")[0] for path, _, _, is_hot in described() if is_hot} == set(ServerSettings.hot)
