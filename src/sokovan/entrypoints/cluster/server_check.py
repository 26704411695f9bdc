"""Checks the parts of a manager of a cluster, and reads the state of the cluster."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from sokovan.adapters.local.certificates import fingerprint
from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.sql import migration
from sokovan.adapters.sql.database import Database
from sokovan.adapters.sql.schema.tables import AGENTS, LEASES, SESSIONS
from sokovan.domain.errors import SokovanError
from sokovan.domain.lifecycle.session import SESSION
from sokovan.entrypoints.cluster.database_users import check_users
from sokovan.entrypoints.cluster.server_options import MIGRATE_HINT, VALKEY_HINT, require_shared
from sokovan.entrypoints.cluster.shared_keys import TLS_FOLDER, missing_keys
from sokovan.entrypoints.database import opened, shown
from sokovan.entrypoints.doctor import DoctorFinding
from sokovan.entrypoints.embedded.data_folder import GROUP_AND_OTHERS
from sokovan.entrypoints.joining.joined_agent import fetch_authority
from sokovan.entrypoints.settings.listen_address import link_url
from sokovan.entrypoints.settings.server_settings import ServerSettings
from sokovan.entrypoints.settings.setting_sources import SettingSources

VERSION_LEAST = 150_000
# Beyond this, times of one machine that others show are misleading; leases use the clock of the database.
SKEW_MS_MAX = 2_000


@dataclass(frozen=True, slots=True)
class HeldLease:
    """The leader of a coordinator, and for how long without a renewal."""

    coordinator: str
    holder: str
    epoch: int
    left_ms: int


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The state of a cluster, as its database has it."""

    store: str
    revision: str
    newest: str
    leases: tuple[HeldLease, ...] = ()
    agents: Mapping[str, int] = field(default_factory=dict)
    sessions: Mapping[str, int] = field(default_factory=dict)


def check_server(sources: SettingSources, data: Path) -> list[DoctorFinding]:
    """Check every part of a configuration; nothing is changed.

    Raises InvalidSettings, UnreadableConfig.
    """
    settings = sources.read()
    keys = Path(settings.cluster.keys) if settings.cluster.keys else data
    found = [
        *_database(settings),
        *check_users(settings),
        *_valkey(settings),
        _keys(keys),
        _configuration(sources, settings),
    ]
    return [*found, *(_manager(address, keys) for address in settings.cluster.managers)]


def cluster_state(settings: ServerSettings) -> ClusterState:
    """Leaders, agents and live sessions.

    Raises NoSharedDatabase, StoreMissing, StoreUnavailable.
    """
    address = require_shared(settings)

    async def read() -> ClusterState:
        async with opened(address, read_only=True) as database:
            state = await migration.revisions(database)
            plain = ClusterState(shown(database), state.found or "none", state.newest)
            if state.found != state.newest:
                return plain
            async with database.reading() as connection:
                now_ms = await database.now_ms(connection)
                return ClusterState(
                    plain.store,
                    plain.revision,
                    plain.newest,
                    leases=await _leases(connection, now_ms),
                    agents=await _counts(connection, AGENTS),
                    sessions=await _counts(connection, SESSIONS, SESSIONS.c.status.not_in(tuple(SESSION.terminal))),
                )

    return asyncio.run(read())


async def _leases(connection: AsyncConnection, now_ms: int) -> tuple[HeldLease, ...]:
    rows = await connection.execute(sa.select(LEASES).where(LEASES.c.expires_ms > now_ms).order_by(LEASES.c.name))
    return tuple(HeldLease(row.name, row.holder, row.epoch, row.expires_ms - now_ms) for row in rows)


async def _counts(connection: AsyncConnection, table: sa.Table, *where: sa.ColumnElement[bool]) -> dict[str, int]:
    status = table.c.status
    rows = await connection.execute(sa.select(status, sa.func.count()).where(*where).group_by(status).order_by(status))
    return {str(found): int(count) for found, count in rows}


def _database(settings: ServerSettings) -> list[DoctorFinding]:
    async def look() -> list[DoctorFinding]:
        async with opened(require_shared(settings), read_only=True) as database:
            return [await _version(database), await _clock(database), await _schema(database)]

    try:
        return asyncio.run(look())
    except SokovanError as error:
        return [DoctorFinding("database", ok=False, detail=error.message, hint=error.hint)]


async def _version(database: Database) -> DoctorFinding:
    async with database.reading() as connection:
        number = int((await connection.execute(sa.text("SHOW server_version_num"))).scalar_one())
    detail = f"{shown(database)}, PostgreSQL {number // 10_000}.{number % 10_000}"
    return DoctorFinding("database", number >= VERSION_LEAST, detail, "use PostgreSQL 15 or later")


async def _clock(database: Database) -> DoctorFinding:
    clock = SystemClock()
    async with database.reading() as connection:
        before_ms = clock.now_ms()
        theirs_ms = await database.now_ms(connection)
        skew_ms = theirs_ms - (before_ms + clock.now_ms()) // 2
    detail = f"{skew_ms:+} ms between this machine and the database"
    return DoctorFinding("clock", abs(skew_ms) <= SKEW_MS_MAX, detail, "synchronize the clocks of both machines (NTP)")


async def _schema(database: Database) -> DoctorFinding:
    state = await migration.revisions(database)
    detail = f"revision {state.found or 'none'}, this version needs {state.newest}"
    return DoctorFinding("schema", state.found == state.newest, detail, MIGRATE_HINT)


def _valkey(settings: ServerSettings) -> list[DoctorFinding]:
    """Whether Valkey answers, if messages go by it; managers work without it, and react later."""
    if not settings.valkey.is_used:
        return []
    hint = "start it, or check valkey.url; without it managers look for work at intervals"

    async def version() -> str:
        from sokovan.adapters.broadcast.valkey_connection import ValkeyConnection  # noqa: PLC0415  # an optional dependency

        connection = ValkeyConnection(settings.valkey.url)
        try:
            lines = (await connection.call("INFO", "server")).decode(errors="replace").splitlines()
        finally:
            await connection.close()
        facts = dict(line.split(":", 1) for line in lines if ":" in line)
        name = "valkey" if "valkey_version" in facts else "redis"
        return f"{name.title()} {facts.get(f'{name}_version', 'of an unknown version')}"

    try:
        return [DoctorFinding("valkey", ok=True, detail=asyncio.run(version()))]
    except ModuleNotFoundError as error:
        return [DoctorFinding("valkey", ok=False, detail=f"{error.name} is not installed", hint=VALKEY_HINT)]
    except SokovanError as error:
        return [DoctorFinding("valkey", ok=False, detail=error.message, hint=hint)]


def _keys(folder: Path) -> DoctorFinding:
    hint = "copy the folder of keys from another manager, with mode 700, or create it: sokovan server init"
    if not folder.is_dir():
        return DoctorFinding("keys", ok=False, detail=f"there is no folder {folder}", hint=hint)
    if folder.stat().st_mode & GROUP_AND_OTHERS or not os.access(folder, os.R_OK | os.X_OK):
        return DoctorFinding("keys", ok=False, detail=f"{folder} is not readable by its owner only", hint=hint)
    missing = missing_keys(folder)
    detail = f"{folder} lacks {', '.join(missing)}" if missing else str(folder)
    return DoctorFinding("keys", not missing, detail, hint)


def _configuration(sources: SettingSources, settings: ServerSettings) -> DoctorFinding:
    if settings.config.url.startswith("file:"):
        found = sources.file.exists()
        detail = str(sources.file) if found else f"there is no file {sources.file}, all settings have their defaults"
        return DoctorFinding("configuration", ok=found or None, detail=detail, hint="write one: sokovan server init")

    async def read() -> str:
        store = sources.store(settings.config, clock=SystemClock())
        try:
            return f"etcd, revision {(await store.read()).revision}"
        finally:
            await store.close()

    try:
        return DoctorFinding("configuration", ok=True, detail=asyncio.run(read()))
    except ModuleNotFoundError as error:
        hint = "install the client: pip install 'sokovan[etcd]'"
        return DoctorFinding("configuration", ok=False, detail=f"{error.name} is not installed", hint=hint)
    except SokovanError as error:
        return DoctorFinding("configuration", ok=False, detail=error.message, hint=error.hint)


def _manager(address: str, keys: Path) -> DoctorFinding:
    """Whether a manager answers to agents with the authority of the cluster; it may not run yet."""
    name, hint = f"manager {address}", "start it, open the port, and give it the keys of this cluster"
    try:
        own = fingerprint((keys / TLS_FOLDER / "authority.pem").read_text(encoding="ascii"))
        fetch_authority(link_url(address), own)
    except (SokovanError, OSError, ValueError) as error:
        return DoctorFinding(name, ok=None, detail=str(error), hint=hint)
    return DoctorFinding(name, ok=True, detail="answers agents with the authority of this cluster")
