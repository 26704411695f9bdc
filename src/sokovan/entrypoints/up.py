"""Everything on one machine with one command: manager, agent, API."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fastapi import FastAPI

from sokovan import __version__
from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.ids import SortableIds
from sokovan.adapters.local.random_source import number
from sokovan.adapters.prometheus import PrometheusTelemetry
from sokovan.adapters.sql import migration
from sokovan.adapters.sql.database import Database, DatabaseSettings
from sokovan.adapters.sql.snapshots.source import SqlSnapshots
from sokovan.adapters.sql.store import SqlStore
from sokovan.agent.fake.shape import FleetShape
from sokovan.api.app import close_streams, make_app
from sokovan.api.context import ApiDependencies
from sokovan.api.settings import ApiSettings
from sokovan.domain.ids import checked_name
from sokovan.entrypoints.agent import AgentOptions
from sokovan.entrypoints.embedded.background_tasks import tend
from sokovan.entrypoints.embedded.bootstrap import admin_key, bootstrap
from sokovan.entrypoints.embedded.control_plane import ControlPlane, ManagerPorts
from sokovan.entrypoints.embedded.data_folder import OF_OTHERS, AlreadyUp, DataFolder, data_home
from sokovan.entrypoints.embedded.gc_tuning import collect_by_the_clock, seldom_collected
from sokovan.entrypoints.embedded.log_file import log_to
from sokovan.entrypoints.embedded.manager_runtime import ManagerOptions, decide_aside
from sokovan.entrypoints.embedded.notifying_store import NotifyingStore
from sokovan.entrypoints.embedded.web_server import bound_socket, served
from sokovan.entrypoints.plugins import installed_plugins
from sokovan.orchestrator.sessions.config import Timing
from sokovan.orchestrator.sessions.controller import SchedulingController
from sokovan.orchestrator.sessions.explain.plan import DryRuns
from sokovan.orchestrator.sessions.intake.names import name_of
from sokovan.sdk.config import save_context

HOST = "127.0.0.1"
PORT = 7646
LINK_PORT = 7647
CONTEXT = "local"
UP_FILE = "up.json"
KEY_FILE = "token"
AGENT_KEY_FILE = "agent-token"
PEPPER_FILE = "pepper"
# Threads take turns this often: a scheduling cycle must not make the API wait for long.
TURN_S = 0.0005
LEASE_S = 3.0


@dataclass(frozen=True, slots=True)
class UpOptions:
    """What somebody says to `sokovan up`.

    `pretended` are how many agents only act as if, and how many devices each has;
    `fake_gpus` are devices in name only, of the agent that runs kernels for real; `name`
    is what that agent is called, otherwise after its machine.
    """

    port: int = PORT
    data: Path | None = None
    pretended: tuple[int, int] | None = None
    fake_gpus: int = 0
    agent: bool = True
    name: str = ""


def run_up(options: UpOptions, *, say: Callable[[str], None]) -> int:
    """Be up until told to stop; kernels go on after that. Raises SokovanError."""
    shape_of(options)  # before anything is made
    if options.name:
        checked_name(options.name, what="agent")
    # The store's files are made by SQLite, which asks for no mode; a kernel's own umask is set by its shim.
    umask = os.umask(OF_OTHERS)
    try:
        folder = DataFolder(options.data or data_home(os.environ))
        with folder.held():
            folder.check_store()
            return asyncio.run(_up(options, folder, say))
    except AlreadyUp as already:
        say(f"{already.message}; nothing to do")
        return 0
    finally:
        os.umask(umask)


async def _up(options: UpOptions, folder: DataFolder, say: Callable[[str], None]) -> int:
    clock = SystemClock()
    began_ms = clock.monotonic_ms()
    sys.setswitchinterval(TURN_S)
    stopped = _stop_signal()
    async with AsyncExitStack() as stack:
        tell = stack.enter_context(log_to(folder.root / "logs" / "sokovan.log"))
        database = Database(DatabaseSettings(folder.store_url), clock=clock)
        stack.push_async_callback(database.close)
        await migration.upgrade(database)
        store = SqlStore(database, ids=SortableIds(clock))
        token = await _furnished(store, folder)
        listener = bound_socket(HOST, options.port)
        telemetry = PrometheusTelemetry()
        plane = ControlPlane(_wish(options, folder, telemetry, tell))
        stack.callback(plane.stop)
        ports = await asyncio.wrap_future(plane.start())
        app = _app(store, ports, folder, telemetry)
        await stack.enter_async_context(served(app, listener))
        stack.callback(close_streams, app)
        url = f"http://{HOST}:{listener.getsockname()[1]}"
        _leave_word(folder, url, ports, token)
        stack.callback((folder.root / UP_FILE).unlink, missing_ok=True)
        stack.enter_context(seldom_collected())
        tend(stack, collect_by_the_clock(clock), name="the garbage collector", tell=tell)
        for line in ready_lines(options, folder, url, ports, ready_s=(clock.monotonic_ms() - began_ms) / 1000):
            say(line)
        await stopped.wait()
        say("stopping; kernels that run go on, and the next `sokovan up` finds them again")
    return 0


def _stop_signal() -> asyncio.Event:
    stopped = asyncio.Event()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signal_number, stopped.set)
    return stopped


async def _furnished(store: SqlStore, folder: DataFolder) -> str:
    """Make the store ready for its first user; the administrator's token."""
    await bootstrap(store)
    pepper = folder.secret(PEPPER_FILE).encode()
    key = await admin_key(store, folder.read(KEY_FILE), ids=SortableIds(SystemClock()), pepper=pepper)
    if key.fresh:
        folder.write_private(KEY_FILE, key.token)
    return key.token


def shape_of(options: UpOptions) -> FleetShape | None:
    """The pretended agents that were asked for. Raises InvalidInput."""
    if options.pretended is None:
        return None
    count, gpus = options.pretended
    return FleetShape(count=count, gpus=gpus)


def _wish(
    options: UpOptions, folder: DataFolder, telemetry: PrometheusTelemetry, tell: Callable[[str], None]
) -> ManagerOptions:
    token = folder.secret(AGENT_KEY_FILE)

    def agent(manager: str) -> AgentOptions:
        return AgentOptions(manager, token, root=folder.root / "agent", fake_gpus=options.fake_gpus, name=options.name)

    return ManagerOptions(
        database=DatabaseSettings(folder.store_url),
        agent_token=token,
        link_host=HOST,
        link_port=LINK_PORT if options.port else 0,
        telemetry=telemetry,
        tell=tell,
        agent=agent if options.agent else None,
        pretended=shape_of(options),
        # A server that was killed leaves its lease behind; the next one waits for no longer than this.
        pace=Timing(lease_ttl_s=LEASE_S),
    )


def _app(store: SqlStore, ports: ManagerPorts, folder: DataFolder, telemetry: PrometheusTelemetry) -> FastAPI:
    clock = SystemClock()
    ids = SortableIds(clock)
    plugins = installed_plugins()
    telling = NotifyingStore(store, ports.nudge)
    controller = SchedulingController(
        telling,
        hints=ports.hints,
        ids=ids,
        clock=clock,
        names=lambda: name_of(number()),
        dry_runs=DryRuns(SqlSnapshots(store), partial(decide_aside, plugins)),
    )
    parts = ApiDependencies(
        store=telling,
        controller=controller,
        hints=ports.hints,
        events=ports.events,
        agents=ports.agents,
        gateway=ports.gateway,
        clock=clock,
        ids=ids,
        telemetry=telemetry,
        metrics=telemetry.exposition,
        plugins=plugins,
    )
    return make_app(parts, ApiSettings(pepper=folder.secret(PEPPER_FILE).encode()))


def _leave_word(folder: DataFolder, url: str, ports: ManagerPorts, token: str) -> None:
    """For the command line, for a second `up`, and for agents of this machine."""
    save_context(CONTEXT, url, token)
    about = {"url": url, "links": f"ws://{HOST}:{ports.link_port}", "pid": os.getpid(), "version": __version__}
    folder.write_private(UP_FILE, json.dumps(about))


def ready_lines(options: UpOptions, folder: DataFolder, url: str, ports: ManagerPorts, *, ready_s: float) -> list[str]:
    """What a person sees when everything is up."""
    taken = f"   (port {options.port} was taken)" if options.port and not url.endswith(f":{options.port}") else ""
    pretended = []
    if options.pretended:
        agents, gpus = options.pretended
        pretended = [f"  pretended  {agents} agents of {gpus} devices; kernels there are only simulated"]
    return [
        f"sokovan {__version__}, embedded, data in {folder.root}",
        "",
        f"  api        {url}{taken}",
        "  database   sqlite (wal)",
        f"  agent      {ports.agent or 'none on this machine'}",
        *pretended,
        f'  cli        context "{CONTEXT}" is active, you are admin',
        "",
        "Try in another terminal:",
        "  sokovan run -- python -c \"print('hello')\"     run something",
        "  sokovan shell                                 an interactive session",
        "  sokovan ps                                    what there is",
        "Ctrl-C stops it; kernels that run go on, and data stays.",
        f"ready in {ready_s:.1f} s",
    ]
