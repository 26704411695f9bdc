"""Privileges of the database users of API and coordinators, by table.

The API may neither remove nor change what has happened, nor lead; coordinators remove what
is beyond its retention. Only the owner of the tables, who migrates them, may alter them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sokovan.adapters.sql.schema.tables import (
    AGENT_GRANTS,
    AUDIT_LOG,
    BOOKINGS,
    COMMITS,
    CREDENTIALS,
    CURSORS,
    DOMAINS,
    GROUPS,
    HISTORIES,
    IMAGES,
    JOIN_TOKENS,
    KEYPAIRS,
    LEASE_TERMS,
    LEASES,
    LOGIN_CODES,
    LOGINS,
    METADATA,
    OUTBOX,
    POLICIES,
    QUEUES,
    RESERVATIONS,
    SCALING_GROUPS,
    TOPOLOGY,
    USERS,
)

REVISIONS: Final = "alembic_version"
_READ = frozenset({"SELECT"})
_APPEND = _READ | {"INSERT"}
_WRITE = _APPEND | {"UPDATE"}
_REMOVE = frozenset({"DELETE"})
# A reason that is noted again is counted in its row; the rest of a row stays.
_COUNTED = ("detail", "last_ms", "times")


@dataclass(frozen=True, slots=True)
class TablePrivileges:
    """Privileges of a user on a table; without UPDATE, it may update `columns` alone."""

    kinds: frozenset[str]
    columns: tuple[str, ...] = ()


_RECORDED = TablePrivileges(_APPEND, _COUNTED)
_HISTORY = {table.name: _RECORDED for table in HISTORIES.values()}
_OF_LEADERS = {table.name: TablePrivileges(_READ) for table in (LEASES, LEASE_TERMS, RESERVATIONS, CURSORS)}
_CATALOG = (DOMAINS, GROUPS, USERS, KEYPAIRS, POLICIES, SCALING_GROUPS, QUEUES, TOPOLOGY, BOOKINGS, IMAGES)
_REMOVED_BY_API = (*_CATALOG, JOIN_TOKENS, AGENT_GRANTS, LOGINS, LOGIN_CODES, CREDENTIALS, OUTBOX)

API: Final[Mapping[str, TablePrivileges]] = {
    **{table.name: TablePrivileges(_WRITE) for table in METADATA.tables.values()},
    **{table.name: TablePrivileges(_WRITE | _REMOVE) for table in _REMOVED_BY_API},
    **{table.name: TablePrivileges(_APPEND) for table in (AUDIT_LOG, COMMITS)},
    **_HISTORY,
    **_OF_LEADERS,
    REVISIONS: TablePrivileges(_READ),
}
COORDINATOR: Final[Mapping[str, TablePrivileges]] = {
    **{table.name: TablePrivileges(_WRITE | _REMOVE) for table in METADATA.tables.values()},
    **{table.name: TablePrivileges(_APPEND | _REMOVE) for table in (AUDIT_LOG, COMMITS)},
    **{name: TablePrivileges(_APPEND | _REMOVE, _COUNTED) for name in _HISTORY},
    LEASE_TERMS.name: TablePrivileges(_APPEND),
    REVISIONS: TablePrivileges(_READ),
}
