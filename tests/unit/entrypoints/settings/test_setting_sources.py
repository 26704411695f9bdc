"""Flags, variables and the file, and which of them wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.adapters.etcd.config import EtcdConfig
from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.toml_config import TomlConfig
from sokovan.domain.errors import InvalidInput
from sokovan.entrypoints.settings.server_settings import InvalidSettings, single_settings
from sokovan.entrypoints.settings.setting_sections import ConfigSettings
from sokovan.entrypoints.settings.setting_sources import SettingFileMissing, sources_of, variable_of
from sokovan.ports.config import ConfigTree

TEXT = """[scheduler]
batch_max = 1

[api]
port = 1
body_bytes_max = 2048
"""


def test_a_flag_wins_over_a_variable_that_over_the_file_and_that_over_the_default(tmp_path: Path) -> None:
    (tmp_path / "sokovan.toml").write_text(TEXT, encoding="utf-8")
    variables = {"SOKOVAN_API__PORT": "2", "SOKOVAN_SCHEDULER__BATCH_MAX": "2", "SOKOVAN_TOKEN": "no setting"}
    sources = sources_of(None, tmp_path, environment=variables, flags={"--port": 3, "--fake": "4x8", "--name": ""})
    settings, origins = sources.read(), sources.local_tree().origins
    assert (settings.api.port, settings.scheduler.batch_max, settings.api.body_bytes_max) == (3, 2, 2048)
    assert settings.agent.name == ""
    assert origins["api.port"] == "--port"
    assert origins["scheduler.batch_max"] == "SOKOVAN_SCHEDULER__BATCH_MAX"
    assert origins["api.body_bytes_max"] == f"{tmp_path / 'sokovan.toml'}:6"
    assert "api.requests_per_s" not in origins


def test_an_assignment_sets_any_setting(tmp_path: Path) -> None:
    given = ["agent.labels=rack=r01,zone=z", "agent.enabled=false", "log.files_kept=0"]
    settings = sources_of(None, tmp_path, environment={}, assignments=given).read()
    assert settings.agent.labels == ("rack=r01", "zone=z")
    assert (settings.agent.enabled, settings.log.files_kept) == (False, 0)


def test_the_file_may_be_named_by_a_variable_and_has_drop_ins(tmp_path: Path) -> None:
    (tmp_path / "lab.toml").write_text(TEXT, encoding="utf-8")
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "50.toml").write_text("[api]\nport = 9\n", encoding="utf-8")
    sources = sources_of(None, Path("/nowhere"), environment={"SOKOVAN_CONFIG": str(tmp_path / "lab.toml")})
    assert (sources.read().api.port, sources.read().scheduler.batch_max) == (9, 1)
    assert sources.local_tree().origins["api.port"] == f"{tmp_path / 'conf.d' / '50.toml'}:2"


def test_a_named_file_must_exist_and_the_usual_one_need_not(tmp_path: Path) -> None:
    with pytest.raises(SettingFileMissing, match="there is no file"):
        sources_of(tmp_path / "no.toml", tmp_path, environment={})
    assert sources_of(None, tmp_path, environment={}).read().api.port == 7646


def test_a_switched_off_part_has_a_flag_of_its_own(tmp_path: Path) -> None:
    for given, enabled in ((True, False), (False, True)):
        assert sources_of(None, tmp_path, environment={}, flags={"--no-agent": given}).read().agent.enabled is enabled


@pytest.mark.parametrize("text", ["batch_max=5", "scheduler.batch_max", "", "="])
def test_an_assignment_without_section_or_value_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidInput, match="is not SETTING=VALUE"):
        sources_of(None, tmp_path, environment={}, assignments=[text])


def test_a_wrong_variable_is_refused_by_its_name(tmp_path: Path) -> None:
    variables = {"SOKOVAN_API__PORT": "web", "SOKOVAN_SCHEDULAR__X": "1", "SOKOVAN_STORAGE__URL": "u:hunter2@x"}
    with pytest.raises(InvalidSettings) as refused:
        sources_of(None, tmp_path, environment=variables).read()
    assert [str(one) for one in refused.value.problems] == [
        "SOKOVAN_SCHEDULAR__X: schedular: is not known; did you mean scheduler?",
        "SOKOVAN_API__PORT: api.port: 'web' must be a whole number",
        "SOKOVAN_STORAGE__URL: storage.url: begins with 'u:'; it must begin with sqlite:, postgresql:",
    ]


def test_a_section_that_is_no_table_is_refused_although_a_variable_sets_a_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "sokovan.toml").write_text("api = 5\n", encoding="utf-8")
    with pytest.raises(InvalidSettings, match=r"sokovan\.toml:1: api: must be a table"):
        sources_of(None, tmp_path, environment={"SOKOVAN_API__PORT": "1"}).read()


def test_what_this_machine_sets_wins_over_what_managers_share(tmp_path: Path) -> None:
    (tmp_path / "sokovan.toml").write_text(TEXT, encoding="utf-8")
    sources = sources_of(None, tmp_path, environment={"SOKOVAN_API__PORT": "2"})
    shared = ConfigTree({"api": {"port": 8, "requests_burst": 8}}, "1", {"api": "etcd:api"})
    tree = sources.over_shared(shared)
    assert tree.values["api"] == {"port": 2, "requests_burst": 8, "body_bytes_max": 2048}
    assert tree.origins["api.port"] == "SOKOVAN_API__PORT"


async def test_the_store_is_the_file_or_etcd(tmp_path: Path) -> None:
    sources = sources_of(None, tmp_path, environment={})
    clock = SystemClock()
    assert isinstance(sources.store(ConfigSettings(), clock=clock), TomlConfig)
    shared = sources.store(ConfigSettings(url="etcd://u:p@one:2379,two:2379"), clock=clock)
    assert isinstance(shared, EtcdConfig)
    await shared.close()


def test_every_setting_has_its_own_variable() -> None:
    variables = [variable_of(path) for path in single_settings()]
    assert len(set(variables)) == len(variables)
    assert variable_of("scheduler.batch_max") == "SOKOVAN_SCHEDULER__BATCH_MAX"
