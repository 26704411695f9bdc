"""`sokovan up` and `sokovan server`: manager, API and agent in one process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import socket
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from fastapi import FastAPI

from sokovan import __version__
from sokovan.adapters.agentlink.relay.agent_relay import RelayedPorts, RelayServer, metrics_answer
from sokovan.adapters.local.clock import SteadyClock, SystemClock
from sokovan.adapters.local.ids import SortableIds
from sokovan.adapters.process.shim.processes import look_up
from sokovan.adapters.prometheus import PrometheusTelemetry
from sokovan.adapters.sql.database import Database
from sokovan.adapters.sql.schema.revision import is_newest
from sokovan.adapters.sql.store import SqlStore
from sokovan.agent.fake.shape import FleetShape
from sokovan.agent.inventory import agent_name
from sokovan.api.app import make_app
from sokovan.api.context import ApiDependencies
from sokovan.dashboard.pages import DashboardPages
from sokovan.entrypoints.agent import AgentOptions, agent_options_of
from sokovan.entrypoints.agent_runtimes import first_commands
from sokovan.entrypoints.cluster.api_listener import (
    ServerAddresses,
    serve_api,
)
from sokovan.entrypoints.cluster.server_options import require_database, require_one_user, serves_api
from sokovan.entrypoints.cluster.shared_bus import open_bus
from sokovan.entrypoints.cluster.shared_keys import (
    AGENT_KEY_FILE,
    PEPPER_FILE,
    PROXY_KEY_FILE,
    TLS_FOLDER,
    key_folder,
)
from sokovan.entrypoints.cluster.upload_stores import UploadStores, upload_stores
from sokovan.entrypoints.embedded.background_tasks import keep_running
from sokovan.entrypoints.embedded.bootstrap import admin_key, bootstrap
from sokovan.entrypoints.embedded.control_plane import ControlPlane, ManagerPorts
from sokovan.entrypoints.embedded.data_folder import (
    GROUP_AND_OTHERS,
    PRIVATE_FOLDER,
    AlreadyUp,
    DataFolder,
    data_home,
)
from sokovan.entrypoints.embedded.gc_tuning import collect_periodically, deferred_gc
from sokovan.entrypoints.embedded.log_file import log_to
from sokovan.entrypoints.embedded.manager_runtime import ManagerOptions
from sokovan.entrypoints.embedded.web_server import bound_socket
from sokovan.entrypoints.joining.data_options import require_authority, with_data_listener
from sokovan.entrypoints.joining.machine_options import MachineLinkOptions
from sokovan.entrypoints.proxies.embedded_gateway import EmbeddedGateway, GatewayOptions, gateway_listener
from sokovan.entrypoints.serving import with_gateway
from sokovan.entrypoints.settings.component_options import (
    connection_limits_of,
    timing_of,
)
from sokovan.entrypoints.settings.listen_address import link_url, own_labels, read_listen
from sokovan.entrypoints.settings.secret_keys import secret_box
from sokovan.entrypoints.settings.server_settings import ServerSettings
from sokovan.entrypoints.settings.setting_sections import API_ROLE
from sokovan.entrypoints.settings.setting_sources import SettingSources, sources_of
from sokovan.entrypoints.settings.settings_reload import SettingsReload, put_groups
from sokovan.entrypoints.upload_collection import collect_uploads
from sokovan.entrypoints.web.connection_limits import Connections, link_limits
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
from sokovan.entrypoints.workers.api_process import serve_api_process
from sokovan.entrypoints.workers.server_processes import MANAGER, ServerSockets, open_sockets, run_processes
from sokovan.sdk.config import config_path, save_context
from sokovan.wire.api.system import LINK_PORT

HOST = "127.0.0.1"
CONTEXT = "local"
UP_FILE = "up.json"
KEY_FILE = "token"
PROXY_FOLDER = "proxy"
# Thread switch interval: a scheduling cycle must not delay the API.
SWITCH_INTERVAL_S = 0.0005


@dataclass(frozen=True, slots=True)
class UpOptions:
    """Options of `sokovan up`.

    `fake_agents` is the number of simulated agents and of devices of each. `sources` are
    those of the settings; by default the environment and the file in the data folder.
    With `cluster`, the options of `sokovan server`.
    """

    data: Path | None = None
    fake_agents: tuple[int, int] | None = None
    sources: SettingSources | None = None
    cluster: bool = False


def run_up(options: UpOptions, *, echo: Callable[[str], None]) -> int:
    """Run until SIGINT or SIGTERM; kernels keep running. Raises SokovanError."""
    root = options.data or data_home(os.environ)
    sources = options.sources or sources_of(None, root, environment=os.environ)
    shape_of(options)  # validated before anything is created, as the settings are
    settings = sources.read_with_plugins()
    require_authority(settings)
    (require_database if options.cluster else require_one_user)(settings)
    # SQLite creates the store's files with the process umask; the umask of kernels is set by their shim.
    umask = os.umask(GROUP_AND_OTHERS)
    try:
        folder = DataFolder(root)
        with folder.locked():
            folder.check_store()
            if serves_api(settings) and settings.api.workers > 1:
                return _run_processes(options, sources, folder, settings=settings, echo=echo)
            return asyncio.run(_up(options, sources, folder, echo))
    except AlreadyUp as already:
        echo(f"{already.message}; nothing to do")
        return 0
    finally:
        os.umask(umask)


def _run_processes(
    options: UpOptions,
    sources: SettingSources,
    folder: DataFolder,
    *,
    settings: ServerSettings,
    echo: Callable[[str], None],
) -> int:
    """Run the manager and the API as separate processes. Raises NoFreePort."""
    with ExitStack() as stack:
        sockets = open_sockets(
            folder,
            stack,
            port=settings.api.port,
            workers=settings.api.workers,
            remote=remote_listener(settings, folder),
        )
        return run_processes(
            sockets,
            manager=lambda: asyncio.run(_up(options, sources, folder, echo, sockets=sockets)),
            api=lambda name: asyncio.run(serve_api_process(name, sockets, sources, folder=folder, echo=echo)),
            echo=echo,
        )


async def _up(
    options: UpOptions,
    sources: SettingSources,
    folder: DataFolder,
    echo: Callable[[str], None],
    *,
    sockets: ServerSockets | None = None,
) -> int:
    """Run the server in this process; with `sockets`, others serve the API."""
    began_ms = (clock := SystemClock()).monotonic_ms()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    open_files, stopped, _ = raise_open_files(), stop_signal(), limit_tls_buffers()
    async with AsyncExitStack() as stack:
        live = await started_settings(sources, folder, stack)
        settings = live.current
        log = stack.enter_context(log_to(folder.root / "logs" / "sokovan.log", **asdict(settings.log)))
        live.report_to(lambda notice: log(f"settings: {notice.text}"))
        # One clock for both connections to the store: their times are compared.
        telemetry, steady = PrometheusTelemetry(), SteadyClock()
        database = Database(server_database(settings, folder, api=serves_api(settings)), clock=steady)
        stack.push_async_callback(database.close)
        report = partial(report_writes, log=log, echo=echo, telemetry=telemetry)
        store = SqlStore(database, ids=SortableIds(clock), report=report)
        token = await _prepare_store(store, folder, settings, log, upgrade=not options.cluster)
        listener = sockets.api if sockets else bound_socket(HOST, settings.api.port)
        gateway = _gateway_listener(settings, folder, stack, log)
        at = _addresses(settings, folder, listener, gateway)
        uploads = upload_stores(settings, folder, shared=sockets is not None, log=log)
        limits = connection_limits_of(settings.api).within(open_files)
        manager = replace(_manager_options(settings, folder, telemetry, log, uploads=uploads), store_clock=steady)
        manager = replace(
            manager, link_limits=link_limits(open_files - limits.total_max), fake_agents=shape_of(options)
        )
        stack.callback((plane := ControlPlane(manager)).stop)
        ports = await asyncio.wrap_future(plane.start())
        components = {"the manager": asyncio.wrap_future(plane.ended)}
        keep = partial(keep_running, stack, log=log, clock=clock)
        if sockets is not None:
            await _serve_processes(sockets, ports, stack, telemetry=telemetry)
            keep(partial(sockets.watch_parent, clock, stopped.set), name="watch of the first process")
        else:
            parts = api_dependencies(store, ports, folder, live, telemetry=telemetry, uploads=uploads.all)
            connections = Connections(limits, clock, telemetry=telemetry, log=log)
            components |= await serve_api(
                _app(parts, settings, folder, at), listener, connections, stack, remote=at.remote, keep=keep
            )
        _write_server_info(folder, at, ports, token, process=sockets.parent if sockets else os.getpid())
        stack.callback((folder.root / UP_FILE).unlink, missing_ok=True)
        stack.enter_context(deferred_gc())
        keep(partial(collect_periodically, clock), name="garbage collection")
        keep(partial(collect_uploads, store, uploads.own, clock, log), name="removal of uploads")
        if gateway is not None:
            run_as, wanted = _gateway_options(settings, folder, at), partial(_has_routes, store)
            keep(EmbeddedGateway(gateway, run_as, wanted=wanted, clock=clock, log=log).run, name="the proxy")
        keep(SettingsReload(live, store, ports.hints, retime=ports.retime, log=log).run, name="reload of settings")
        log(f"sokovan {__version__} is ready at {at.url or at.probes}, pid {os.getpid()}")
        ready_s = (clock.monotonic_ms() - began_ms) / 1000
        echo("\n".join(ready_lines(options, settings, ports, folder=folder.root, at=at, ready_s=ready_s)))
        await until_stopped(stopped, components)
        echo("stopping; running kernels continue, and the next start adopts them")
    return 0


def _addresses(
    settings: ServerSettings, folder: DataFolder, listener: socket.socket, gateway: socket.socket | None
) -> ServerAddresses:
    return ServerAddresses(
        url=_url(listener) if serves_api(settings) else "",
        probes="" if serves_api(settings) else _url(listener),
        gateway=_url(gateway) if gateway else "",
        remote=remote_listener(settings, folder) if serves_api(settings) else None,
    )


def _app(parts: ApiDependencies, settings: ServerSettings, folder: DataFolder, at: ServerAddresses) -> FastAPI:
    """The API, or the probes alone where this process serves no API."""
    pages = DashboardPages().routes()
    return make_app(
        with_gateway(parts, at.models), limits_of_api(settings, folder), pages=pages, probes_only=bool(at.probes)
    )


async def _serve_processes(
    sockets: ServerSockets, ports: ManagerPorts, stack: AsyncExitStack, *, telemetry: PrometheusTelemetry
) -> None:
    """Answer the processes of the API, which have no links to agents."""
    relayed = RelayedPorts(
        gateway=ports.gateway,
        files=ports.files,
        agents=ports.agents,
        joining=ports.joining,
        disconnect=ports.disconnect,
    )
    server = RelayServer({**relayed.answers(), **metrics_answer(telemetry.exposition)}, relayed)
    await stack.enter_async_context(server.served(sockets.relays[MANAGER].dup()))


def _url(listener: socket.socket) -> str:
    return f"http://{HOST}:{listener.getsockname()[1]}"


def _gateway_listener(
    settings: ServerSettings, folder: DataFolder, stack: AsyncExitStack, log: Callable[[str], None]
) -> socket.socket | None:
    """The socket of the gateway, which outlives the process of the proxy."""
    if not settings.proxy.enabled:
        return None
    port = settings.proxy.port if settings.api.port else 0
    return stack.enter_context(
        contextlib.closing(gateway_listener(port, folder.root / PROXY_FOLDER, host=HOST, log=log))
    )


def _gateway_options(settings: ServerSettings, folder: DataFolder, at: ServerAddresses) -> GatewayOptions:
    keys = key_folder(settings, folder).root
    return GatewayOptions(
        manager=at.url,
        token_file=keys / PROXY_KEY_FILE,
        root=folder.root / PROXY_FOLDER,
        workers=settings.proxy.workers,
        authority=keys / TLS_FOLDER / "authority.pem" if settings.orchestrator.listen else None,
    )


async def _has_routes(store: SqlStore) -> bool:
    """Whether a route was ever published."""
    _epoch, version = await store.read(lambda unit: unit.routes.version())
    return version > 0


async def _upgrade(database: Database) -> None:
    """Upgrade the store if it is not at the newest revision."""
    async with database.reading() as connection:
        newest = await connection.run_sync(is_newest)
    if not newest:
        from sokovan.adapters.sql import migration  # noqa: PLC0415  # slow to load, and rarely needed

        await migration.upgrade(database)


async def _prepare_store(
    store: SqlStore, folder: DataFolder, settings: ServerSettings, log: Callable[[str], None], *, upgrade: bool
) -> str:
    """Create defaults and configured scaling groups; returns the administrator's token."""
    if upgrade:
        await _upgrade(store.database)
    await bootstrap(store)
    await put_groups(store, settings.scaling_groups, log=log, joining=settings.agent.shard)
    keys = key_folder(settings, folder)
    secret_box(keys.root, create=True)
    pepper = keys.secret(PEPPER_FILE).encode()
    key = await admin_key(store, folder.read(KEY_FILE), ids=SortableIds(SystemClock()), pepper=pepper)
    if key.fresh:
        folder.write_private(KEY_FILE, key.token)
    return key.token


def shape_of(options: UpOptions) -> FleetShape | None:
    """The requested fake agents. Raises InvalidInput."""
    fake = options.fake_agents
    return None if fake is None else FleetShape(count=fake[0], gpus=fake[1])


def _manager_options(
    settings: ServerSettings,
    folder: DataFolder,
    telemetry: PrometheusTelemetry,
    log: Callable[[str], None],
    *,
    uploads: UploadStores,
) -> ManagerOptions:
    keys = key_folder(settings, folder)
    token = keys.secret(AGENT_KEY_FILE)
    # The client's keys; the folder exists before a sandbox hides it.
    client_keys = config_path().parent
    client_keys.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)

    def agent(manager: str) -> AgentOptions:
        options = agent_options_of(settings.agent, manager=manager, token=token, root=folder.root / "agent")
        labels = {**own_labels(settings.orchestrator.listen), **options.labels}
        options = replace(options, hidden=(client_keys, keys.root), labels=labels)
        return with_data_listener(options, folder=keys.root / TLS_FOLDER, own=folder.root / TLS_FOLDER)

    database = server_database(settings, folder, api=settings.cluster.role == API_ROLE)
    return ManagerOptions(
        database=database,
        # The folder is locked, so no other manager uses the store in it.
        sole=database.url == folder.store_url,
        secrets=secret_box(keys.root),
        agent_token=token,
        link_host=HOST,
        link_port=LINK_PORT if settings.api.port else 0,
        telemetry=telemetry,
        log=log,
        agent=agent if settings.agent.enabled else None,
        uploads=uploads.all,
        machines=_machine_options(settings, folder, telemetry, log, uploads=uploads),
        coordinates=settings.cluster.role != API_ROLE,
        name=f"{agent_name(platform.node())[:48]}.{os.getpid()}",
        bus=partial(open_bus, database.url, settings.valkey, log),
        timing=timing_of(settings),
        allocator=settings.scheduler.allocator,
        heartbeat_s=settings.orchestrator.heartbeat_ms / 1000,
        audit_s=settings.storage.audit_s,
        several_users=settings.api.allow_several_users_without_isolation,
    )


def _machine_options(
    settings: ServerSettings,
    folder: DataFolder,
    telemetry: PrometheusTelemetry,
    log: Callable[[str], None],
    *,
    uploads: UploadStores,
) -> MachineLinkOptions | None:
    """The listener for other machines; None if no address is set."""
    if not settings.orchestrator.listen:
        return None
    return MachineLinkOptions(
        at=read_listen(settings.orchestrator.listen),
        folder=key_folder(settings, folder).root / TLS_FOLDER,
        own=folder.root / TLS_FOLDER,
        managers=tuple(map(link_url, settings.cluster.managers)),
        telemetry=telemetry,
        log=log,
        copies=uploads.own,
    )


def _write_server_info(
    folder: DataFolder, at: ServerAddresses, ports: ManagerPorts, token: str, *, process: int
) -> None:
    """Write the address for the CLI, for a second `up`, and for agents of this machine."""
    if at.url:
        save_context(CONTEXT, at.url, token)
    own = look_up(process)
    info = {
        "url": at.url,
        "probes": at.probes,
        "gateway": at.gateway,
        "links": f"ws://{HOST}:{ports.link_port}",
        "pid": process,
        "start": own.start if own is not None else None,
        "started_at_ms": SystemClock().now_ms(),
        "version": __version__,
    }
    folder.write_private(UP_FILE, json.dumps(info))


def _processes(settings: ServerSettings) -> list[str]:
    """A line on the processes that serve the API, if several do."""
    several = serves_api(settings) and settings.api.workers > 1
    return [f"             {settings.api.workers} processes; the manager is another"] if several else []


def ready_lines(
    options: UpOptions,
    settings: ServerSettings,
    ports: ManagerPorts,
    *,
    folder: Path,
    at: ServerAddresses,
    ready_s: float,
) -> list[str]:
    """The lines printed when the server is ready."""
    port, database = settings.api.port, settings.storage.url_of_api.partition(":")[0]
    taken = f"   (port {port} was in use)" if port and not (at.url or at.probes).endswith(f":{port}") else ""
    fake = []
    if options.fake_agents:
        agents, gpus = options.fake_agents
        fake = [f"  fake       {agents} agents with {gpus} devices each; their kernels are simulated"]
    mode = f"manager ({settings.cluster.role})" if options.cluster else "embedded"
    return [
        f"sokovan {__version__}, {mode}, data in {folder}",
        "",
        f"  api        {at.url or f'none in this role; health and metrics at {at.probes}'}{taken}",
        *_processes(settings),
        *([f"             {at.remote.url} for other machines"] if at.remote else []),
        *([f"  dashboard  {at.url}/ui/; log in with sokovan dashboard"] if at.url else []),
        *([f"  gateway    {at.models}"] if at.gateway else []),
        f"  database   {'sqlite (wal)' if database == 'sqlite' else database}",
        f"  agent      {ports.agent or 'none on this machine'}",
        *fake,
        *([f"  machines   {ports.joining.url}; add one with sokovan agent token"] if ports.joining else []),
        *([f'  cli        context "{CONTEXT}" is active, you are admin'] if at.url else []),
        "",
        "Try in another terminal:",
        *first_commands(settings.agent.runtime),
        "Ctrl-C stops the server; running kernels continue, and data is kept.",
        f"ready in {ready_s:.1f} s",
    ]
