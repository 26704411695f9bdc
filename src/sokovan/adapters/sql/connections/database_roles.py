"""Separate roles of PostgreSQL for the API, coordinators and migrations.

Each has the privileges that it needs. A coordinator is a member of the API's role, so that it
may also end transactions of API managers that hang; otherwise PostgreSQL requires a
privilege for the whole server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from sokovan.adapters.sql.schema.privileges import REVISIONS, TablePrivileges
from sokovan.adapters.sql.schema.tables import METADATA
from sokovan.domain.errors import InvalidInput, SokovanError, quoted

# PostgreSQL cuts longer names.
NAME_MAX = 63
_NAME = re.compile(rf"[A-Za-z0-9_.@+-]{{1,{NAME_MAX}}}")
# Privileges that a check names.
NAMED_MAX = 3
_NOT_ALLOWED = "42501"  # insufficient_privilege
_SUPERUSER = "everything, as a superuser"
WRITES: Final = ("INSERT", "UPDATE", "DELETE", "TRUNCATE", "TRIGGER", "REFERENCES")
# Sequences of the columns of our tables that need a privilege; those of identity columns need none.
_SEQUENCES = sa.text(
    """
    SELECT DISTINCT pg_get_serial_sequence(quote_ident(table_name), column_name) AS name
    FROM information_schema.columns
    WHERE table_schema = current_schema() AND table_name = ANY(:tables) AND column_default LIKE 'nextval(%'
    ORDER BY name
    """
)
_PRESENT = sa.text(
    "SELECT tablename FROM pg_tables"
    " WHERE schemaname = current_schema() AND tablename = ANY(:tables) ORDER BY tablename"
)
_KNOWN = sa.text("SELECT rolname FROM pg_roles WHERE rolname = ANY(:names)")
_ALLOWED = sa.text(
    """
    SELECT wanted.name, wanted.kind, wanted.field, CASE
        WHEN wanted.field = '' THEN has_table_privilege(quote_ident(wanted.name), wanted.kind)
        ELSE has_column_privilege(quote_ident(wanted.name), wanted.field, wanted.kind)
    END AS allowed
    FROM unnest(CAST(:names AS text[]), CAST(:kinds AS text[]), CAST(:fields AS text[])) AS wanted(name, kind, field)
    """
)
_SELF = sa.text(
    """
    SELECT current_user AS name, current_schema() IS NULL AS shut,
        (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS superuser,
        has_schema_privilege(current_schema(), 'CREATE') AS creates,
        (SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename = ANY(:tables)
            AND pg_has_role(tableowner, 'USAGE')) AS owned,
        (SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename = ANY(:tables)) AS tables
    """
)
_MEMBER = sa.text("SELECT pg_has_role(oid, 'USAGE') FROM pg_roles WHERE rolname = :name")

_CREATE = """\
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{name}') THEN
        CREATE ROLE "{name}" LOGIN;
    END IF;
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO "{name}"', current_database());
END $$;
"""
# Without the second line every user may fill the disk with temporary tables.
_SCHEMA = (
    "REVOKE CREATE ON SCHEMA public FROM PUBLIC;\n",
    "DO $$ BEGIN EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database()); END $$;\n",
    'GRANT USAGE ON SCHEMA public TO "{api}", "{coordinator}", "{migration}";\n',
    'GRANT CREATE ON SCHEMA public TO "{migration}";\n',
    'GRANT "{api}" TO "{coordinator}";\n',
)
_OWNER = """\
DO $$ DECLARE found text; BEGIN
    FOR found IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tableowner <> '{migration}'
        AND tablename IN (
            {tables}
        )
    LOOP
        EXECUTE format('ALTER TABLE public.%I OWNER TO "{migration}"', found);
    END LOOP;
END $$;
"""


class BadRoleName(InvalidInput):
    """A name cannot be that of a database role."""

    code = "bad-role-name"
    hint = f"use another name for each role: up to {NAME_MAX} letters, digits and _ . @ + -"


class RoleMissing(InvalidInput):
    """A database role does not exist."""

    code = "role-missing"
    hint = "create the roles: sokovan server roles prints the statements"


class RolesNotCreated(SokovanError):
    """The user of the database may not create roles, or not give them its tables."""

    code = "roles-not-created"
    hint = "let a superuser run what sokovan server roles prints, for example with psql"


@dataclass(frozen=True, slots=True)
class DatabaseRoles:
    """Names of the three roles. Raises BadRoleName."""

    api: str
    coordinator: str
    migration: str

    def __post_init__(self) -> None:
        names = (self.api, self.coordinator, self.migration)
        for name in names:
            if not _NAME.fullmatch(name):
                raise BadRoleName(f"{quoted(name)} is not the name of a database role")
        if len(set(names)) < len(names):
            raise BadRoleName(f"{quoted(names[0])}, {quoted(names[1])} and {quoted(names[2])} are not three roles")


@dataclass(frozen=True, slots=True)
class RoleState:
    """A user of the database: privileges that it lacks, and those beyond its role."""

    user: str
    lacking: tuple[str, ...] = ()
    beyond: tuple[str, ...] = ()


def setup_statements(roles: DatabaseRoles) -> str:
    """Statements for psql that create the roles, without passwords.

    They may be run again. The tables of a database that is in use become those of the role for migrations.
    """
    return "".join(_setup(roles))


def _setup(roles: DatabaseRoles) -> Iterator[str]:
    """The statements, one by one."""
    tables = ", ".join(f"'{name}'" for name in sorted(_tables()))
    for name in (roles.api, roles.coordinator, roles.migration):
        yield _CREATE.format(name=name)
    for statement in (*_SCHEMA, _OWNER):
        yield statement.format(**asdict(roles), tables=tables)


async def create(connection: AsyncConnection, roles: DatabaseRoles) -> None:
    """Run the same statements, all of them or none once it is committed.

    Raises RolesNotCreated.
    """
    for statement in _setup(roles):
        try:
            await connection.exec_driver_sql(statement)
        except sa.exc.DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) != _NOT_ALLOWED:
                raise
            detail = str(error.orig).partition(": ")[2] or str(error.orig)
            raise RolesNotCreated(f"the roles cannot be created: {detail}") from error


async def grant(connection: AsyncConnection, wanted: Mapping[str, Mapping[str, TablePrivileges]]) -> None:
    """Give users exactly their privileges on the tables, as the owner of these.

    `wanted` has the privileges by table, by user. Raises RoleMissing.
    """
    known = set((await connection.execute(_KNOWN, {"names": list(wanted)})).scalars())
    missing = sorted(wanted.keys() - known)
    if missing:
        raise RoleMissing(f"the database has no role {quoted(missing[0])}")
    found = (await connection.execute(_PRESENT, {"tables": _tables()})).scalars().all()
    sequences = (await connection.execute(_SEQUENCES, {"tables": list(found)})).scalars().all()
    for user, tables in wanted.items():
        # As of the driver: a name may have a colon.
        await connection.exec_driver_sql(f"REVOKE ALL ON TABLE {_names(found)} FROM {_names([user])}")
        for privileges in dict.fromkeys(tables[name] for name in found):
            same = [name for name in found if tables[name] == privileges]
            await connection.exec_driver_sql(f"GRANT {_listed(privileges)} ON TABLE {_names(same)} TO {_names([user])}")
        for sequence in sequences:
            await connection.exec_driver_sql(f"GRANT USAGE ON SEQUENCE {sequence} TO {_names([user])}")


async def state_of_user(connection: AsyncConnection, wanted: Mapping[str, TablePrivileges]) -> RoleState:
    """Compare what the user of a connection may do with what it needs."""
    itself = (await connection.execute(_SELF, {"tables": _tables()})).one()
    beyond = [text for text, is_so in _powers(itself) if is_so]
    present = (await connection.execute(_PRESENT, {"tables": _tables()})).scalars().all()
    asked = [line for name in present for line in _asked(name, wanted[name])]
    rows = (await connection.execute(_ALLOWED, _columns(asked))).all()
    needed = {(name, kind, field): is_needed for name, kind, field, is_needed in asked}
    lacking = [row for row in rows if needed[row.name, row.kind, row.field] and not row.allowed]
    # An owner may do everything with its tables, which is said once.
    more = [row for row in rows if not needed[row.name, row.kind, row.field] and row.allowed and not beyond]
    lacks = ["USAGE of the schema"] if itself.shut else _summary(lacking)
    return RoleState(itself.name, tuple(lacks), (*beyond, *_summary(more)))


async def state_of_owner(connection: AsyncConnection) -> RoleState:
    """Check whether the user of a connection may migrate the tables."""
    itself = (await connection.execute(_SELF, {"tables": _tables()})).one()
    lacks = [
        *([] if itself.creates else ["CREATE in the schema"]),
        *([] if itself.owned == itself.tables else [f"the ownership of {itself.tables - itself.owned} tables"]),
    ]
    return RoleState(itself.name, tuple(lacks), (_SUPERUSER,) if itself.superuser else ())


async def is_member(connection: AsyncConnection, role: str) -> bool:
    """Whether the user of a connection has the privileges of a role."""
    return bool((await connection.execute(_MEMBER, {"name": role})).scalar())


def _tables() -> list[str]:
    return [*METADATA.tables, REVISIONS]


def _powers(itself: Any) -> Iterator[tuple[str, bool]]:
    yield _SUPERUSER, itself.superuser
    yield "alter tables, which it owns", itself.owned > 0 and not itself.superuser
    yield "create tables", itself.creates and not itself.superuser and not itself.owned


def _asked(name: str, wanted: TablePrivileges) -> Iterator[tuple[str, str, str, bool]]:
    """The questions about a table: table, privilege, column or empty, and whether it is needed."""
    yield name, "SELECT", "", True
    for kind in WRITES:
        yield name, kind, "", kind in wanted.kinds
    for column in wanted.columns:
        yield name, "UPDATE", column, True


def _columns(asked: list[tuple[str, str, str, bool]]) -> dict[str, list[str]]:
    return {
        "names": [name for name, _, _, _ in asked],
        "kinds": [kind for _, kind, _, _ in asked],
        "fields": [field for _, _, field, _ in asked],
    }


def _summary(rows: list[Any]) -> list[str]:
    """The first few privileges, and how many more."""
    shown = [f"{row.kind} on {row.name}" for row in rows[:NAMED_MAX]]
    return [*shown, f"{len(rows) - NAMED_MAX} more"] if len(rows) > NAMED_MAX else shown


def _listed(privileges: TablePrivileges) -> str:
    columns = [f"UPDATE ({', '.join(privileges.columns)})"] if privileges.columns else []
    return ", ".join([*sorted(privileges.kinds), *columns])


def _names(names: Sequence[str]) -> str:
    return ", ".join('"{}"'.format(name.replace('"', '""')) for name in names)
