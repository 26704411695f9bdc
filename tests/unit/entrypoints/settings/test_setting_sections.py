"""The sections of settings."""

from __future__ import annotations

import pytest

from sokovan.domain.errors import InvalidInput
from sokovan.entrypoints.settings.setting_kinds import settings_in
from sokovan.entrypoints.settings.setting_sections import (
    SECTIONS,
    OrchestratorSettings,
    SchedulerSettings,
    StorageSettings,
    read_label,
)


def test_the_defaults_of_every_section_agree_with_each_other() -> None:
    for section in SECTIONS.values():
        assert not list(getattr(section(), "contradictions", list)())


def test_timeouts_that_contradict_the_heartbeat_are_named() -> None:
    assert [name for name, _ in OrchestratorSettings(heartbeat_ms=20_000).contradictions()] == ["agent_suspect_s"]
    assert [name for name, _ in OrchestratorSettings(probe_after_max_s=5).contradictions()] == ["probe_after_max_s"]
    assert [name for name, _ in SchedulerSettings(short_cycle_ms=11_000).contradictions()] == ["short_cycle_ms"]


def test_users_of_the_database_share_one_database() -> None:
    url = "postgresql://c:p/@h/n?sslmode=require"
    same = StorageSettings(url=url, api_url="postgresql://a@pooler:6432/n", migration_url="postgresql://m@h/n")
    assert not list(same.contradictions())
    assert (same.url_of_api, same.url_of_migration) == ("postgresql://a@pooler:6432/n", "postgresql://m@h/n")
    assert StorageSettings(url=url).url_of_api == url
    assert [name for name, _ in StorageSettings(url=url, api_url="postgresql://a@h/other").contradictions()] == [
        "api_url"
    ]


def test_a_unit_is_part_of_the_name_of_a_time_or_a_size() -> None:
    for section in SECTIONS.values():
        for name, (info, _) in settings_in(section).items():
            if info.meaning.startswith(("Time", "Interval", "How long")):
                assert name.endswith(("_s", "_ms")), name


@pytest.mark.parametrize("label", ["rack", "=x", "sokovan.ports=1"])
def test_a_label_is_a_name_and_a_value(label: str) -> None:
    assert read_label("rack=r=1") == ("rack", "r=1")
    with pytest.raises(InvalidInput):
        read_label(label)
