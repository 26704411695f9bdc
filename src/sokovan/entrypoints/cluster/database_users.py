"""The users of the cluster's database: their roles, and what they may do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sokovan.adapters.sql.connections.address import driver_url
from sokovan.adapters.sql.connections.database_roles import (
    DatabaseRoles,
    RoleState,
    create,
    grant,
    is_member,
    setup_statements,
    state_of_owner,
    state_of_user,
)
from sokovan.adapters.sql.schema.privileges import API, COORDINATOR
from sokovan.domain.errors import SokovanError
from sokovan.entrypoints.cluster.server_options import require_migration
from sokovan.entrypoints.database import opened
from sokovan.entrypoints.doctor import DoctorFinding
from sokovan.entrypoints.settings.server_settings import ServerSettings
from sokovan.entrypoints.settings.setting_sections import SAME_DATABASE_USER, StorageSettings

__all__ = ["check_users", "create_roles", "grant_to_users", "roles_of", "setup_statements"]

DEFAULT_ROLES = DatabaseRoles("sokovan_api", "sokovan_coordinator", "sokovan_migration")
_LACKING_HINT = "run sokovan server migrate, which grants them, and sokovan server roles for the rest"
_BEYOND_HINT = "see sokovan server roles: the owner of the tables is for migrations only"


def roles_of(settings: ServerSettings, *, api: str = "", coordinator: str = "", migration: str = "") -> DatabaseRoles:
    """The names of the roles: given, those of the addresses, or the usual ones.

    If one user does everything as yet, it owns the tables, and keeps them. Raises
    BadRoleName.
    """
    storage = settings.storage
    several = storage.migration_url != SAME_DATABASE_USER
    own = _user(storage.url)
    return DatabaseRoles(
        api or _user(storage.api_url) or DEFAULT_ROLES.api,
        coordinator or (own if several else "") or DEFAULT_ROLES.coordinator,
        migration or _user(storage.url_of_migration) or DEFAULT_ROLES.migration,
    )


def create_roles(settings: ServerSettings, roles: DatabaseRoles) -> None:
    """Create the roles as the user who migrates.

    Raises NoSharedDatabase, RolesNotCreated, StoreUnavailable.
    """
    address = require_migration(settings)

    async def write() -> None:
        async with opened(address, read_only=False) as database, database.writing() as connection:
            await create(connection, roles)
            await connection.commit()

    asyncio.run(write())


def grant_to_users(settings: ServerSettings, *, report: Callable[[str], None]) -> None:
    """Give the users of the settings their privileges, as the owner of the tables.

    Raises NoSharedDatabase, RoleMissing, StoreUnavailable.
    """
    address, storage = require_migration(settings), settings.storage
    users = {_user(storage.url): COORDINATOR, _user(storage.api_url): API}
    wanted = {user: tables for user, tables in users.items() if user and user != _user(address)}
    if not wanted:
        return

    async def write() -> None:
        async with opened(address, read_only=False) as database, database.writing() as connection:
            await grant(connection, wanted)
            await connection.commit()

    asyncio.run(write())
    report(f"granted privileges to {', '.join(wanted)}")


def check_users(settings: ServerSettings) -> list[DoctorFinding]:
    """One finding for each user of the database that the settings name."""
    storage = settings.storage
    named = {
        "coordinator": storage.url if storage.url.startswith("postgresql:") else "",
        "api": _named(storage.api_url),
        "migration": _named(storage.migration_url),
    }
    if not named["api"] and not named["migration"]:
        return [_one_user(storage)] if named["coordinator"] else []
    return [_checked(role, address, storage) for role, address in named.items() if address]


def _one_user(storage: StorageSettings) -> DoctorFinding:
    detail = f"{_user(storage.url)} for API, coordinators and migrations"
    return DoctorFinding("roles", ok=None, detail=detail, hint="sokovan server roles separates them")


def _checked(role: str, address: str, storage: StorageSettings) -> DoctorFinding:
    async def look() -> RoleState:
        async with opened(address, read_only=True) as database, database.reading() as connection:
            if role == "migration":
                return await state_of_owner(connection)
            state = await state_of_user(connection, API if role == "api" else COORDINATOR)
            api = _user(storage.api_url)
            if role == "coordinator" and api and not await is_member(connection, api):
                lacks = f"membership in {api}, to end its transactions that hang"
                return RoleState(state.user, (*state.lacking, lacks), state.beyond)
            return state

    name = f"role {role}"
    try:
        state = asyncio.run(look())
    except SokovanError as error:
        return DoctorFinding(name, ok=False, detail=error.message, hint=error.hint)
    if state.lacking:
        return DoctorFinding(
            name, ok=False, detail=f"{state.user} lacks {', '.join(state.lacking)}", hint=_LACKING_HINT
        )
    if state.beyond:
        return DoctorFinding(
            name, ok=None, detail=f"{state.user} may do too much: {', '.join(state.beyond)}", hint=_BEYOND_HINT
        )
    return DoctorFinding(name, ok=True, detail=f"{state.user} may do what it needs, and no more")


def _named(address: str) -> str:
    return "" if address == SAME_DATABASE_USER else address


def _user(address: str) -> str:
    """The user of an address, or empty."""
    return (driver_url(address).username or "") if address.startswith("postgresql:") else ""
