"""Components of a server that each of its processes with an API has."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.ids import SortableIds
from sokovan.adapters.local.random_source import number
from sokovan.adapters.prometheus import PrometheusTelemetry
from sokovan.adapters.sql.database import DatabaseSettings
from sokovan.adapters.sql.leases import SqlLeases
from sokovan.adapters.sql.snapshots.source import SqlSnapshots
from sokovan.adapters.sql.store import SqlStore
from sokovan.api.context import ApiDependencies
from sokovan.api.settings import ApiSettings
from sokovan.entrypoints.cluster.api_listener import ApiListener, allowed_hosts, api_listener
from sokovan.entrypoints.cluster.shared_keys import PEPPER_FILE, PROXY_KEY_FILE, TLS_FOLDER, key_folder
from sokovan.entrypoints.embedded.background_tasks import ComponentEnded
from sokovan.entrypoints.embedded.control_plane import ManagerPorts
from sokovan.entrypoints.embedded.data_folder import DataFolder
from sokovan.entrypoints.embedded.manager_runtime import decide_in_thread
from sokovan.entrypoints.embedded.notifying_store import NotifyingStore
from sokovan.entrypoints.plugins import installed_plugins
from sokovan.entrypoints.serving import digest_key, serving_controllers
from sokovan.entrypoints.settings.component_options import (
    api_settings_of,
    database_settings_of,
    dry_run_limits_of,
)
from sokovan.entrypoints.settings.effective_settings import effective_settings
from sokovan.entrypoints.settings.live_settings import LiveSettings
from sokovan.entrypoints.settings.secret_keys import secret_box
from sokovan.entrypoints.settings.server_settings import ServerSettings
from sokovan.entrypoints.settings.setting_sources import SettingSources
from sokovan.orchestrator.sessions.controller import SchedulingController
from sokovan.orchestrator.sessions.explain.plan import DryRuns
from sokovan.orchestrator.sessions.intake.names import name_of
from sokovan.orchestrator.sessions.intake.submissions import Submissions
from sokovan.ports.uploads import UploadStore
from sokovan.sdk.machine import machine_mark

SETTINGS_CACHE_FILE = "settings.json"


async def started_settings(
    sources: SettingSources, folder: DataFolder, stack: AsyncExitStack, *, cache: str = SETTINGS_CACHE_FILE
) -> LiveSettings:
    """The settings in force.

    Raises ConfigUnavailable, UnreadableConfig, InvalidSettings.

    A shared configuration that is unreachable is replaced by the last valid one, in the
    file `cache`; a wrong file of this machine is an error, because its owner starts the server.
    """
    clock, config = SystemClock(), sources.read().config
    store = sources.store(config, clock=clock)
    stack.push_async_callback(store.close)
    shared = not config.url.startswith("file:")
    overlay = sources.over_shared if shared else sources.over
    live = LiveSettings(store, clock=clock, registry=installed_plugins(), overlay=overlay)
    await live.start_from(folder.root / cache if shared else None)
    return live


def server_database(settings: ServerSettings, folder: DataFolder, *, api: bool) -> DatabaseSettings:
    """Address and limits of the database, of the API's user if `api`."""
    return database_settings_of(settings.storage, data_folder_url=folder.store_url, api=api)


def report_writes(
    cause: str, *, log: Callable[[str], None], echo: Callable[[str], None], telemetry: PrometheusTelemetry
) -> None:
    """Log that writes to the store fail or work again.

    In the terminal too, as the log may be on a full disk.
    """
    line = f"the store cannot be written: {cause}; it is tried again" if cause else "the store can be written again"
    telemetry.gauge("store_writable", 0 if cause else 1)
    echo(line)
    log(line)


async def until_stopped(stopped: asyncio.Event, components: Mapping[str, asyncio.Future[None]]) -> None:
    """Wait for the signal to stop. Raises ComponentEnded if a component ends before."""
    waiting = asyncio.ensure_future(stopped.wait())
    watched: set[asyncio.Future[Any]] = {waiting, *components.values()}
    await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    for name, component in components.items():
        if component.done() and not stopped.is_set():
            cause = None if component.cancelled() else component.exception()
            raise cause if isinstance(cause, ComponentEnded) else ComponentEnded(f"{name} has ended: {cause!r}")


def stop_signal() -> asyncio.Event:
    """An event that is set by SIGINT and SIGTERM."""
    stopped = asyncio.Event()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signal_number, stopped.set)
    return stopped


def api_dependencies(
    store: SqlStore,
    ports: ManagerPorts,
    folder: DataFolder,
    live: LiveSettings,
    *,
    telemetry: PrometheusTelemetry,
    uploads: UploadStore,
) -> ApiDependencies:
    """The ports and controllers of the API."""
    clock, settings = SystemClock(), live.current
    ids = SortableIds(clock)
    plugins = installed_plugins()
    keys = key_folder(settings, folder)
    notifying, box = NotifyingStore(store, ports.nudge), secret_box(keys.root)
    controller = SchedulingController(
        notifying,
        Submissions(notifying, ids=ids, clock=clock, names=lambda: name_of(number()), secrets=box),
        hints=ports.hints,
        dry_runs=DryRuns(
            SqlSnapshots(store), partial(decide_in_thread, plugins), limits=dry_run_limits_of(settings.scheduler)
        ),
    )
    if settings.api.allow_several_users_without_isolation:
        controller.allow_sharing()
    pepper = keys.secret(PEPPER_FILE).encode()
    deployments, routes = serving_controllers(notifying, controller, hints=ports.hints, ids=ids, pepper=pepper, box=box)
    return ApiDependencies(
        store=notifying,
        leases=SqlLeases(store),
        controller=controller,
        deployments=deployments,
        routes=routes,
        hints=ports.hints,
        events=ports.events,
        agents=ports.agents,
        gateway=ports.gateway,
        files=ports.files,
        clock=clock,
        ids=ids,
        telemetry=telemetry,
        metrics=telemetry.exposition,
        plugins=plugins,
        uploads=uploads,
        settings=partial(effective_settings, live),
        joining=ports.joining,
        disconnect=ports.disconnect,
    )


def limits_of_api(settings: ServerSettings, folder: DataFolder) -> ApiSettings:
    """Limits and secrets of the API."""
    keys = key_folder(settings, folder)
    pepper = keys.secret(PEPPER_FILE).encode()
    return replace(
        # Agents of other machines do not see the files of this one.
        api_settings_of(settings, pepper=pepper, machine="" if settings.orchestrator.listen else machine_mark()),
        allowed_hosts=allowed_hosts(settings),
        proxy_token=keys.secret(PROXY_KEY_FILE),
        digest_key=digest_key(pepper),
    )


def remote_listener(settings: ServerSettings, folder: DataFolder) -> ApiListener | None:
    """The listener of the API for other machines, if one is configured."""
    keys = key_folder(settings, folder)
    return api_listener(settings, folder=keys.root / TLS_FOLDER, own=folder.root / TLS_FOLDER)
