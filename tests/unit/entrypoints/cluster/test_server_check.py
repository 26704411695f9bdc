"""The checks of a manager's parts, and the state of a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.entrypoints.cluster.server_check import check_server, cluster_state
from sokovan.entrypoints.cluster.server_file import write_server_file
from sokovan.entrypoints.database import upgraded
from sokovan.entrypoints.settings.setting_sources import SettingSources, sources_of


def sources(folder: Path, database: str, *assignments: str) -> SettingSources:
    file = write_server_file(folder / "etc", database=database)
    return sources_of(file, folder, environment={}, assignments=assignments)


@pytest.mark.slow
def test_every_part_is_checked(tmp_path: Path, postgres_url: str) -> None:
    made = sources(tmp_path, postgres_url, "cluster.managers=127.0.0.1:1")
    found = {one.name: one.ok for one in check_server(made, tmp_path)}
    assert found == {
        "database": True,
        "clock": True,
        "schema": False,
        "roles": None,
        "keys": True,
        "configuration": True,
        "manager 127.0.0.1:1": None,
    }
    upgraded(postgres_url, report=lambda _line: None)
    assert {one.name: one.ok for one in check_server(made, tmp_path)}["schema"] is True
    state = cluster_state(made.read())
    assert (state.revision, state.leases, dict(state.agents)) == (state.newest, (), {})


@pytest.mark.slow
def test_what_is_missing_is_named(tmp_path: Path) -> None:
    made = sources(tmp_path, "postgresql://x@127.0.0.1:1/none")
    (tmp_path / "etc" / "keys" / "pepper").unlink()
    found = {one.name: one for one in check_server(made, tmp_path)}
    assert (found["database"].ok, found["keys"].ok) == (False, False)
    assert "lacks pepper" in found["keys"].detail
    (tmp_path / "etc" / "keys").chmod(0o755)
    assert "owner only" in {one.name: one for one in check_server(made, tmp_path)}["keys"].detail


def test_valkey_is_checked_if_messages_go_by_it(tmp_path: Path, valkey_url: str) -> None:
    file = write_server_file(tmp_path / "etc", database="sqlite:")
    for url, ok, detail in ((valkey_url, True, "Valkey "), ("valkey://127.0.0.1:1/0", False, "does not respond")):
        made = sources_of(file, tmp_path, environment={}, assignments=(f"valkey.url={url}",))
        found = {one.name: one for one in check_server(made, tmp_path)}["valkey"]
        assert (found.ok, detail in found.detail) == (ok, True), found


def test_a_configuration_that_managers_share_must_be_reachable(tmp_path: Path) -> None:
    made = sources(tmp_path, "sqlite:", "config.url=etcd://127.0.0.1:1")
    found = {one.name: one for one in check_server(made, tmp_path)}
    assert found["configuration"].ok is False
    assert "needs a PostgreSQL database" in found["database"].detail
