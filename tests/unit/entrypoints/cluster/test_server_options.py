"""Requirements of `sokovan server`."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.adapters.sql.migration import SchemaMismatch
from sokovan.domain.errors import InvalidInput, StoreUnavailable
from sokovan.entrypoints.cluster import server_options
from sokovan.entrypoints.cluster.server_options import (
    NoSharedDatabase,
    NoValkeyClient,
    SeveralUsersOfDatabase,
    require_database,
    require_migration,
    require_one_user,
    require_shared,
    server_sources,
    serves_api,
)
from sokovan.entrypoints.settings.server_settings import settings_of
from sokovan.entrypoints.settings.setting_kinds import InvalidSettings
from sokovan.entrypoints.settings.setting_sources import sources_of


def test_a_manager_runs_no_agent_and_no_proxy_whatever_the_file_says(tmp_path: Path) -> None:
    (tmp_path / "sokovan.toml").write_text("[agent]\nenabled = true\n", encoding="utf-8")
    sources = server_sources(sources_of(None, tmp_path, environment={}))
    settings = sources.read()
    assert (settings.agent.enabled, settings.proxy.enabled) == (False, False)
    assert sources.local_tree().origins["agent.enabled"] == "sokovan server"


def test_a_role_serves_the_api_or_not() -> None:
    assert [serves_api(settings_of({"cluster": {"role": role}})) for role in ("api", "coordinator", "both")] == [
        True,
        False,
        True,
    ]
    with pytest.raises(InvalidSettings, match="use one of api, coordinator, both"):
        settings_of({"cluster": {"role": "boss"}})


def test_a_database_of_one_machine_is_refused() -> None:
    with pytest.raises(NoSharedDatabase, match="needs a PostgreSQL database"):
        require_database(settings_of({}))


def test_each_role_has_its_address_of_the_database() -> None:
    urls = {"url": "postgresql://c@h/n", "api_url": "postgresql://a@h/n", "migration_url": "postgresql://m@h/n"}
    of_role = {
        role: settings_of({"cluster": {"role": role}, "storage": urls}) for role in ("api", "coordinator", "both")
    }
    assert {role: require_shared(settings) for role, settings in of_role.items()} == {
        "api": urls["api_url"],
        "coordinator": urls["url"],
        "both": urls["url"],
    }
    assert require_migration(of_role["api"]) == urls["migration_url"]
    # A manager that only serves the API needs no other address.
    only = settings_of({"cluster": {"role": "api"}, "storage": {"api_url": urls["api_url"]}})
    assert require_shared(only) == urls["api_url"]
    with pytest.raises(NoSharedDatabase):
        require_migration(only)


def test_an_embedded_server_refuses_several_users_of_its_database() -> None:
    require_one_user(settings_of({}))
    with pytest.raises(SeveralUsersOfDatabase):
        require_one_user(settings_of({"storage": {"api_url": "postgresql://a@h/n"}}))


def test_a_missing_client_for_valkey_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_options, "find_spec", lambda _name: None)
    with pytest.raises(NoValkeyClient) as refused:
        require_database(settings_of({"valkey": {"url": "valkey://127.0.0.1:1"}}))
    assert "pip install 'sokovan[valkey]'" in refused.value.hint


def test_an_unreachable_database_is_named() -> None:
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1/none"):
        require_database(settings_of({"storage": {"url": "postgresql://x@127.0.0.1:1/none"}}))


def test_a_database_without_the_schema_is_refused_with_the_command(postgres_url: str) -> None:
    with pytest.raises(SchemaMismatch) as refused:
        require_database(settings_of({"storage": {"url": postgres_url}}))
    assert "sokovan server migrate" in refused.value.hint


def test_sokovan_up_serves_its_api_in_one_process() -> None:
    several = settings_of({"api": {"workers": 2}})
    with pytest.raises(InvalidInput, match="serves the API in one process"):
        require_one_user(several)
