"""The privileges of API and coordinators."""

from __future__ import annotations

from sokovan.adapters.sql.repositories.catalog import CATALOG_TABLES
from sokovan.adapters.sql.schema.privileges import API, COORDINATOR, REVISIONS
from sokovan.adapters.sql.schema.tables import AUDIT_LOG, HISTORIES, LEASES, METADATA, SESSIONS


def test_every_table_has_privileges() -> None:
    assert set(API) == set(COORDINATOR) == {*METADATA.tables, REVISIONS}


def test_the_api_removes_items_of_the_catalog_and_nothing_that_happened() -> None:
    assert all("DELETE" in API[entry.table.name].kinds for entry in CATALOG_TABLES.values())
    for table in (SESSIONS, AUDIT_LOG, *HISTORIES.values()):
        assert "DELETE" not in API[table.name].kinds
        assert "DELETE" in COORDINATOR[table.name].kinds


def test_nobody_changes_the_audit_trail_and_the_past() -> None:
    for table in (AUDIT_LOG, *HISTORIES.values()):
        assert all("UPDATE" not in tables[table.name].kinds for tables in (API, COORDINATOR))
    assert API[LEASES.name].kinds == {"SELECT"}


def test_a_coordinator_may_do_all_that_the_api_may() -> None:
    assert all(privileges.kinds <= COORDINATOR[name].kinds for name, privileges in API.items())
