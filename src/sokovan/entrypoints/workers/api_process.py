"""One of several processes that serve the API of a server.

It has its own connections to the database and to the other managers; agents are reached
through the process of the manager, which has their links.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from functools import partial

from sokovan import __version__
from sokovan.adapters.agentlink.relay.agent_relay import RelayServer, metrics_answer
from sokovan.adapters.agentlink.relay.remote_agents import (
    ManagerProcessAway,
    Relay,
    RelayedFiles,
    RelayedGateway,
    RelayedStates,
)
from sokovan.adapters.local.clock import SteadyClock, SystemClock
from sokovan.adapters.local.ids import SortableIds
from sokovan.adapters.prometheus import PrometheusTelemetry
from sokovan.adapters.sql.database import Database
from sokovan.adapters.sql.store import SqlStore
from sokovan.api.app import make_app
from sokovan.dashboard.pages import DashboardPages
from sokovan.domain.cluster.agent_grant import JoinAddress
from sokovan.entrypoints.cluster.api_listener import serve_api
from sokovan.entrypoints.cluster.shared_bus import open_bus
from sokovan.entrypoints.cluster.upload_stores import upload_stores
from sokovan.entrypoints.embedded.background_tasks import keep_running
from sokovan.entrypoints.embedded.control_plane import ManagerPorts
from sokovan.entrypoints.embedded.data_folder import DataFolder
from sokovan.entrypoints.embedded.event_publisher import EVENTS_HINT, Publisher
from sokovan.entrypoints.embedded.gc_tuning import collect_periodically, deferred_gc
from sokovan.entrypoints.embedded.log_file import log_to
from sokovan.entrypoints.settings.component_options import connection_limits_of
from sokovan.entrypoints.settings.setting_sources import SettingSources
from sokovan.entrypoints.web.connection_limits import Connections
from sokovan.entrypoints.web.file_limits import raise_open_files
from sokovan.entrypoints.web.tls_buffers import limit_tls_buffers
from sokovan.entrypoints.workers.api_components import (
    api_dependencies,
    limits_of_api,
    remote_listener,
    report_writes,
    server_database,
    started_settings,
    stop_signal,
    until_stopped,
)
from sokovan.entrypoints.workers.process_metrics import metrics_of
from sokovan.entrypoints.workers.server_processes import MANAGER, ServerSockets
from sokovan.orchestrator.orchestrator import SokovanOrchestrator
from sokovan.orchestrator.periodic_tasks import TaskFailure
from sokovan.ports.environment import Clock
from sokovan.ports.events import EventBus
from sokovan.ports.hints import Hints

# Connections to the database that even one of many processes has.
POOL_MIN = 2


async def serve_api_process(
    name: str, sockets: ServerSockets, sources: SettingSources, *, folder: DataFolder, echo: Callable[[str], None]
) -> int:
    """Serve the API on the shared sockets until SIGINT or SIGTERM."""
    clock, steady = SystemClock(), SteadyClock()
    open_files, stopped, _ = raise_open_files(), stop_signal(), limit_tls_buffers()
    async with AsyncExitStack() as stack:
        live = await started_settings(sources, folder, stack, cache=f"settings-{name}.json")
        settings = live.current
        log = stack.enter_context(log_to(folder.root / "logs" / f"{name}.log", **asdict(settings.log)))
        live.report_to(lambda notice: log(f"settings: {notice.text}"))
        keep = partial(keep_running, stack, log=log, clock=clock)
        keep(partial(sockets.watch_parent, clock, stopped.set), name="watch of the first process")
        telemetry = PrometheusTelemetry()
        whole = server_database(settings, folder, api=True)
        pool_size = max(POOL_MIN, -(-whole.pool_size // sockets.workers))
        database = Database(replace(whole, pool_size=pool_size), clock=steady)
        stack.push_async_callback(database.close)
        report = partial(report_writes, log=log, echo=echo, telemetry=telemetry)
        store = SqlStore(database, ids=SortableIds(clock), report=report)
        hints, events, _ = open_bus(whole.url, settings.valkey, log, stack)
        await _publish(store, hints, events, stack=stack, log=log)
        ports = await _ports(sockets, hints, events, clock=clock, keep=keep)
        uploads = upload_stores(settings, folder, shared=True, log=log, name=name).all
        own = RelayServer(metrics_answer(telemetry.exposition))
        await stack.enter_async_context(own.served(sockets.relays[name].dup()))
        parts = api_dependencies(store, ports, folder, live, telemetry=telemetry, uploads=uploads)
        parts = replace(parts, metrics=partial(_all_metrics, name, sockets, telemetry))
        shown = f"{name} of {sockets.workers}, pid {os.getpid()}"
        limits = limits_of_api(settings, folder).shared_by(sockets.workers, process=shown)
        app = make_app(parts, limits, pages=DashboardPages().routes())
        at_once = connection_limits_of(settings.api).shared_by(sockets.workers).within(open_files)
        connections = Connections(at_once, clock, telemetry=telemetry, log=log)
        remote = remote_listener(settings, folder)
        if remote is not None:
            remote = replace(remote, own=remote.own / name, socket=sockets.remote)
        components = await serve_api(app, sockets.api, connections, stack, remote=remote, keep=keep)
        stack.enter_context(deferred_gc())
        keep(partial(collect_periodically, clock), name="garbage collection")
        keep(live.follow, name="reload of settings")
        log(f"sokovan {__version__} serves the API, {shown}")
        await until_stopped(stopped, components)
    return 0


async def _publish(
    store: SqlStore, hints: Hints, events: EventBus, *, stack: AsyncExitStack, log: Callable[[str], None]
) -> None:
    """Publish the events of what this process writes."""

    def failed(failure: TaskFailure) -> None:
        log(f"task {failure.task}, {failure.in_a_row} in a row: {failure.error!r}")

    orchestrator = SokovanOrchestrator(
        (Publisher(store.outbox, events),), clock=SystemClock(), hints=hints, failed=failed
    )
    await orchestrator.start()
    stack.push_async_callback(orchestrator.stop)


async def _ports(
    sockets: ServerSockets, hints: Hints, events: EventBus, *, clock: Clock, keep: Callable[..., None]
) -> ManagerPorts:
    """The ports of the manager, through its process."""
    relay = Relay(sockets.address(MANAGER))
    gateway = RelayedGateway(relay, clock)
    keep(gateway.follow, name="list of linked agents")
    started = _Started()
    return ManagerPorts(
        hints=hints,
        events=events,
        agents=RelayedStates(relay),
        gateway=gateway,
        files=RelayedFiles(relay),
        link_port=0,
        agent="",
        nudge=lambda: started.run(hints.set(EVENTS_HINT)),
        retime=lambda _timing: None,
        joining=await _joining(relay, clock),
        disconnect=lambda agent_id: started.run(relay.disconnect(agent_id)),
    )


async def _joining(relay: Relay, clock: Clock) -> JoinAddress | None:
    """The address that machines join at, once the manager has started."""
    while True:
        try:
            return await relay.joining()
        except ManagerProcessAway:
            await clock.sleep(0.1)


class _Started:
    """Work that is started without waiting for it."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Future[None]] = set()

    def run(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _all_metrics(name: str, sockets: ServerSockets, telemetry: PrometheusTelemetry) -> bytes:
    async def own() -> bytes:
        return telemetry.exposition()

    others = {one: Relay(sockets.address(one)).metrics for one in sockets.relays if one != name}
    return await metrics_of({one: own if one == name else others[one] for one in sockets.relays})
