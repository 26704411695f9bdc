"""The settings in force, as they are shown."""

from __future__ import annotations

from pathlib import Path

from sokovan.adapters.local.clock import SystemClock
from sokovan.entrypoints.settings.effective_settings import effective_settings, setting_views
from sokovan.entrypoints.settings.live_settings import LiveSettings
from sokovan.entrypoints.settings.server_settings import settings_of, single_settings
from sokovan.entrypoints.settings.setting_sources import sources_of


async def test_every_setting_has_its_value_and_its_source(tmp_path: Path) -> None:
    file = tmp_path / "sokovan.toml"
    file.write_text("[api]\nport = 1\n[scaling_groups.gpu]\nscheduler = 'drf'\n", encoding="utf-8")
    sources = sources_of(None, tmp_path, environment={"SOKOVAN_LOG__FILES_KEPT": "0"}, flags={"--name": "n"})
    store = sources.store(sources.read().config, clock=SystemClock())
    live = LiveSettings(store, clock=SystemClock(), overlay=sources.over)
    await live.start_from(None)
    view = effective_settings(live)
    found = {one.name: (one.value, one.source) for one in view.settings}
    assert found["api.port"] == (1, f"{file}:2")
    assert found["log.files_kept"] == (0, "SOKOVAN_LOG__FILES_KEPT")
    assert found["agent.name"] == ("n", "--name")
    assert found["scheduler.batch_max"] == (100, "default")
    assert found["scaling_groups.gpu"] == ("scheduler drf", f"{file}:3")
    assert found.keys() == {*single_settings(), "scaling_groups.gpu"}
    assert view.notices == []


def test_a_password_is_hidden_and_a_key_of_etcd_is_the_source_of_what_it_sets() -> None:
    settings = settings_of({"storage": {"url": "postgresql://u:hunter2@db/x"}})
    views = {one.name: one for one in setting_views(settings, {"storage": "etcd:storage"})}
    assert views["storage.url"].value == "postgresql://u:(hidden)@db/x"
    assert views["storage.url"].source == "etcd:storage"
    assert views["storage.pool_size"].source == "default"
