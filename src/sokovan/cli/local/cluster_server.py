"""`sokovan server`: a manager of a cluster on PostgreSQL."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from sokovan.cli.arguments.parameters import Parameter
from sokovan.cli.commands.options import Flag
from sokovan.cli.exit_codes import FAILED, NOT_FOUND, OK, REFUSED, UNREACHABLE, USAGE
from sokovan.cli.local.doctor import MARKS
from sokovan.cli.local.setting_options import NO_SETTINGS, SettingOptions
from sokovan.cli.output import as_json, print_data, print_error, print_status, table
from sokovan.domain.errors import InvalidInput, SokovanError

if TYPE_CHECKING:
    from sokovan.entrypoints.cluster.server_check import ClusterState
    from sokovan.entrypoints.settings.setting_sources import SettingSources

DataFolderOption = Annotated[Path | None, Parameter(help="Folder for its state; default: in your data folder.")]
# Exit codes by error code.
_STATUSES = {
    "store-missing": NOT_FOUND,
    "schema-mismatch": REFUSED,
    "conflict": REFUSED,
    "already-up": REFUSED,
    "store-unavailable": UNREACHABLE,
}


def run(
    *,
    role: str = "",
    port: int | None = None,
    listen: str = "",
    workers: int | None = None,
    data: DataFolderOption = None,
    settings: SettingOptions = NO_SETTINGS,
) -> int:
    """Run a manager on a PostgreSQL database.

    Any number of managers may use one database: one leads, and another takes over
    within seconds if it ends. Write the configuration with `sokovan server init`,
    and create the schema with `sokovan server migrate`. Ctrl-C stops it; kernels
    keep running. Exit codes: 2 the settings are wrong, 3 no such database, 5 its
    schema is not current, 7 it is unreachable.

    For example:
      sokovan server --config /etc/sokovan/sokovan.toml
      sokovan server run --config sokovan.toml --role coordinator
      sokovan server --config sokovan.toml --workers 4

    Parameters
    ----------
    role
        What it runs: api, coordinator or both; default: both.
    port
        Port of the API, or the next free one; default: 7646.
    listen
        HOST:PORT for agents of other machines; default: none.
    workers
        Processes that serve the API on one port, 1 to 64; default: 1.
    """
    flags: dict[str, object] = {"--role": role, "--port": port, "--listen": listen, "--workers": workers}
    sources = _sources(settings, data, flags)
    from sokovan.entrypoints.cluster.server_options import server_sources  # noqa: PLC0415  # SQLAlchemy loads only here
    from sokovan.entrypoints.up import UpOptions, run_up  # noqa: PLC0415  # the whole server loads only here

    try:
        return run_up(UpOptions(data=data, sources=server_sources(sources), cluster=True), echo=print_status)
    except SokovanError as error:
        print_error(error, as_object=False)
        return _status_of(error)


def init(folder: Path, /, *, database: str = "", listen: str = "", keys_of: Path | None = None) -> int:
    """Write a configuration file, and create the keys of a cluster.

    FOLDER gets sokovan.toml and the folder keys. Copy both to each manager of the
    cluster. Nothing that exists is changed.

    For example:
      sokovan server init /etc/sokovan
      sokovan server init ./cluster --database postgresql://me@db.example/sokovan
      sokovan server init ./cluster --keys-of ~/.local/share/sokovan

    Parameters
    ----------
    folder
        Folder to create; its owner only may read it.
    database
        URL of the PostgreSQL database; default: one to edit.
    listen
        HOST:PORT for agents of other machines; default: none.
    keys_of
        Data folder of sokovan up whose keys are taken over.
    """
    from sokovan.entrypoints.cluster.server_file import write_server_file  # noqa: PLC0415  # loads only here

    file = write_server_file(folder, database=database, listen=listen, keys_of=keys_of)
    print_data(str(file))
    print_status(f"edit it, then: sokovan server migrate --config {file} && sokovan server --config {file}")
    return OK


def check(*, data: DataFolderOption = None, settings: SettingOptions = NO_SETTINGS, json: Flag = False) -> int:
    """Check each part that a manager needs.

    Reaches the database, the configuration and the other managers, compares
    versions and clocks, and looks for the keys; nothing is changed. Exit codes: 0 a
    manager can run, 1 a part is missing, 2 the settings are wrong.

    For example:
      sokovan server check --config sokovan.toml

    Parameters
    ----------
    json
        Print JSON instead of a table.
    """
    sources = _sources(settings, data, {})
    from sokovan.entrypoints.cluster.server_check import check_server  # noqa: PLC0415  # SQLAlchemy loads only here

    findings = check_server(sources, _root(data))
    if json:
        print_data(as_json([asdict(one) for one in findings]))
    else:
        print_data(table(("PART", "RESULT", "DETAIL"), [(one.name, MARKS[one.ok], one.detail) for one in findings]))
        for one in findings:
            if one.ok is not True and one.hint:
                print_status(f"{one.name}: {one.hint}")
    return FAILED if any(one.ok is False for one in findings) else OK


def migrate(
    *, from_sqlite: Path | None = None, settings: SettingOptions = NO_SETTINGS, data: DataFolderOption = None
) -> int:
    """Create or upgrade the schema; copy a store of sokovan up.

    With --from-sqlite, the store of a stopped `sokovan up` is copied into the
    database, which must be empty: all or nothing, and every table is read back and
    compared. The source is not changed. With storage.migration_url, it runs as this
    user, and grants the users of storage.url and storage.api_url what they need.
    Exit codes: 0 done, 2 the settings are wrong, 3 no such database, 5 refused, 7
    unreachable.

    For example:
      sokovan server migrate --config sokovan.toml
      sokovan server migrate --config sokovan.toml --from-sqlite DATA

    Parameters
    ----------
    from_sqlite
        Data folder of sokovan up, or its state.db, to copy.
    """
    read = _sources(settings, data, {}).read()
    from sokovan.entrypoints.cluster import database_users  # noqa: PLC0415  # SQLAlchemy loads only here
    from sokovan.entrypoints.cluster.server_options import require_migration  # noqa: PLC0415  # loads only here
    from sokovan.entrypoints.cluster.transfer import transfer  # noqa: PLC0415  # SQLAlchemy loads only here
    from sokovan.entrypoints.database import upgraded  # noqa: PLC0415  # SQLAlchemy loads only here

    try:
        address = require_migration(read)
        state = upgraded(address, report=print_status)
        database_users.grant_to_users(read, report=print_status)
        print_data(f"{state.store}  revision {state.after}  current")
        if from_sqlite is not None:
            copied = transfer(from_sqlite, address, report=print_status)
            print_data(f"copied {sum(one.rows for one in copied)} rows of {len(copied)} tables, all verified")
    except SokovanError as error:
        print_error(error, as_object=False)
        return _status_of(error)
    return OK


def roles(
    *,
    api: str = "",
    coordinator: str = "",
    migration: str = "",
    apply: Flag = False,
    settings: SettingOptions = NO_SETTINGS,
    data: DataFolderOption = None,
) -> int:
    """Print the SQL that creates separate database roles, or run it.

    One role each for the API, coordinators and migrations, without passwords. A
    superuser runs it in the cluster's database, and may run it again; with --apply,
    the user of storage.migration_url or storage.url does so now. Then set
    passwords, name the roles in storage.api_url, storage.url and
    storage.migration_url, and run `sokovan server migrate`, which grants what they
    need.

    For example:
      sokovan server roles --config sokovan.toml
      sokovan server roles --config sokovan.toml --apply
      sokovan server roles --api sokovan_web --migration sokovan_owner

    Parameters
    ----------
    api
        Role of the API; default: of storage.api_url, or sokovan_api.
    coordinator
        Role of coordinators; default: sokovan_coordinator.
    migration
        Owner of the tables; default: who migrates now.
    apply
        Run it in the database instead of printing it.
    """
    read = _sources(settings, data, {}).read()
    from sokovan.entrypoints.cluster import database_users  # noqa: PLC0415  # SQLAlchemy loads only here

    named = database_users.roles_of(read, api=api, coordinator=coordinator, migration=migration)
    if apply:
        database_users.create_roles(read, named)
    else:
        print_data(database_users.setup_statements(named).rstrip())
    print_status(f"API: {named.api}, coordinators: {named.coordinator}, migrations: {named.migration}")
    return OK


def status(*, settings: SettingOptions = NO_SETTINGS, data: DataFolderOption = None, json: Flag = False) -> int:
    """Show the leaders, agents and sessions of the cluster.

    Read from the database, so that no manager needs to run. Exit codes: 0 a manager
    leads, 1 none does, 3 no such database, 7 unreachable.

    For example:
      sokovan server status --config sokovan.toml

    Parameters
    ----------
    json
        Print JSON instead of text.
    """
    read = _sources(settings, data, {}).read()
    from sokovan.entrypoints.cluster.server_check import cluster_state  # noqa: PLC0415  # SQLAlchemy loads only here

    try:
        found = cluster_state(read)
    except SokovanError as error:
        print_error(error, as_object=json)
        return _status_of(error)
    if json:
        print_data(as_json(asdict(found)))
    else:
        _show(found)
    return OK if found.leases else FAILED


def _show(found: ClusterState) -> None:
    current = "current" if found.revision == found.newest else f"old; this version needs {found.newest}"
    print_data(f"database    {found.store}, revision {found.revision}, {current}")
    for name, counts in (("agents", found.agents), ("sessions", found.sessions)):
        print_data(f"{name:12}{', '.join(f'{count} {state}' for state, count in counts.items()) or 'none'}")
    if not found.leases:
        print_status("no manager leads: start one with sokovan server")
        return
    rows = [(one.coordinator, one.holder, str(one.epoch), f"{one.left_ms / 1000:.1f} s") for one in found.leases]
    print_data(table(("COORDINATOR", "LEADER", "EPOCH", "EXPIRES"), rows))


def _status_of(error: SokovanError) -> int:
    return USAGE if isinstance(error, InvalidInput) else _STATUSES.get(error.code, FAILED)


def _root(data: Path | None) -> Path:
    from sokovan.entrypoints.embedded.data_folder import data_home  # noqa: PLC0415  # loads only here

    return (data or data_home(os.environ)).absolute()


def _sources(settings: SettingOptions, data: Path | None, flags: dict[str, object]) -> SettingSources:
    from sokovan.entrypoints.settings.setting_sources import sources_of  # noqa: PLC0415  # loads only here

    return sources_of(settings.config, _root(data), environment=os.environ, flags=flags, assignments=settings.set)
