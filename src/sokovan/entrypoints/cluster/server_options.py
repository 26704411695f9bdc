"""Options and requirements of `sokovan server`."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

from sokovan.domain.errors import InvalidInput
from sokovan.entrypoints.settings.server_settings import ServerSettings
from sokovan.entrypoints.settings.setting_sections import API_ROLE, COORDINATOR_ROLE, SAME_DATABASE_USER
from sokovan.entrypoints.settings.setting_sources import Override, SettingSources

ORIGIN = "sokovan server"
MIGRATE_HINT = "run `sokovan server migrate` once, with the newest version of sokovan among your machines"

VALKEY_HINT = "install the client: pip install 'sokovan[valkey]'"


class NoValkeyClient(InvalidInput):
    """The client for Valkey is not installed."""

    code = "no-valkey-client"
    hint = VALKEY_HINT


class NoSharedDatabase(InvalidInput):
    """A manager of a cluster needs a database that others can reach."""

    code = "no-shared-database"
    hint = (
        "set storage.url to postgresql://USER:PASSWORD@HOST/NAME (sokovan server init writes a file), or use sokovan up"
    )


class SeveralUsersOfDatabase(InvalidInput):
    """The embedded server has one connection to its database."""

    code = "several-users-of-database"
    hint = "remove storage.api_url and storage.migration_url, or use sokovan server"


def server_sources(sources: SettingSources) -> SettingSources:
    """The sources of a manager, which runs neither an agent nor a proxy itself."""
    own = (Override("agent.enabled", value=False, origin=ORIGIN), Override("proxy.enabled", value=False, origin=ORIGIN))
    return replace(sources, overrides=(*sources.overrides, *own))


def serves_api(settings: ServerSettings) -> bool:
    """Whether a server with this role serves the API."""
    return settings.cluster.role != COORDINATOR_ROLE


def require_shared(settings: ServerSettings) -> str:
    """The address of the database for a manager of this role. Raises NoSharedDatabase."""
    return _shared(settings.storage.url_of_api if settings.cluster.role == API_ROLE else settings.storage.url)


def require_migration(settings: ServerSettings) -> str:
    """The address of the database for migrations. Raises NoSharedDatabase."""
    return _shared(settings.storage.url_of_migration)


def require_one_user(settings: ServerSettings) -> None:
    """Refuse several database users or processes: only `sokovan server` has them.

    Raises SeveralUsersOfDatabase, InvalidInput.
    """
    if settings.api.workers > 1:
        raise InvalidInput(
            f"sokovan up serves the API in one process, api.workers is {settings.api.workers}",
            hint="remove api.workers, or use sokovan server",
        )
    storage = settings.storage
    if (storage.api_url, storage.migration_url) != (SAME_DATABASE_USER, SAME_DATABASE_USER):
        raise SeveralUsersOfDatabase("sokovan up has one user of the database, and storage names several")


def _shared(address: str) -> str:
    if not address.startswith("postgresql:"):
        raise NoSharedDatabase("sokovan server needs a PostgreSQL database, storage.url names another")
    return address


def require_database(settings: ServerSettings) -> None:
    """Require a reachable database with the newest schema.

    If Valkey is configured, its client must be installed; its server need not run yet. Raises
    NoSharedDatabase, NoValkeyClient, StoreMissing, StoreUnavailable, SchemaMismatch.
    """
    if settings.valkey.is_used and find_spec("valkey") is None:
        raise NoValkeyClient("valkey.url is set, and the client for it is not installed")
    from sokovan.adapters.sql.migration import SchemaMismatch  # noqa: PLC0415  # slow to load, and not used by `up`
    from sokovan.entrypoints.database import checked  # noqa: PLC0415  # loads the migrations

    addresses = [require_shared(settings), *([settings.storage.url_of_api] if serves_api(settings) else [])]
    for address in dict.fromkeys(addresses):
        state = checked(address)
        if not state.current:
            raise SchemaMismatch(
                f"{state.store} is at revision {state.before or 'none'}, this version needs {state.newest}",
                hint=MIGRATE_HINT,
            )
