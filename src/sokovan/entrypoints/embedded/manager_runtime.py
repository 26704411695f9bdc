"""Builds and starts all components of the manager's event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from sokovan.adapters.agentlink.linked_agents import LinkedAgents
from sokovan.adapters.agentlink.listener import LinkAccess, LinkListener, serve_links
from sokovan.adapters.inprocess.agents import InProcessAgentStates
from sokovan.adapters.inprocess.events import InProcessEventBus
from sokovan.adapters.inprocess.hints import InProcessHints
from sokovan.adapters.local.clock import SteadyClock, SystemClock
from sokovan.adapters.local.ids import SortableIds
from sokovan.adapters.sql.allocation.allocator import RepositoryAllocator
from sokovan.adapters.sql.database import Database, DatabaseSettings
from sokovan.adapters.sql.leases import SqlLeases
from sokovan.adapters.sql.snapshots.source import SqlSnapshots
from sokovan.adapters.sql.store import SqlStore
from sokovan.agent.fake.gateway_switch import GatewaySwitch
from sokovan.agent.fake.shape import FleetShape
from sokovan.domain.cluster.agent_grant import JoinAddress
from sokovan.domain.ids import AgentId
from sokovan.entrypoints.agent import AgentOptions
from sokovan.entrypoints.allocators import allocator_named
from sokovan.entrypoints.embedded.agent_links import admission, known_token
from sokovan.entrypoints.embedded.background_tasks import (
    ComponentEnded,
    Fatal,
    keep_running,
    start_agent,
    start_task,
)
from sokovan.entrypoints.embedded.event_publisher import EVENTS_HINT, Publisher
from sokovan.entrypoints.embedded.fake_agents import FakeEnrolment, declare_previous_fakes_lost
from sokovan.entrypoints.embedded.notifying_store import NotifyingStore
from sokovan.entrypoints.embedded.store_tasks import SilentTransactions, StoreAuditor
from sokovan.entrypoints.joining.machine_options import MachineLinkOptions
from sokovan.entrypoints.plugins import installed_plugins
from sokovan.entrypoints.serving import serving_coordinators
from sokovan.entrypoints.web.connection_limits import ConnectionLimits, Connections
from sokovan.orchestrator.agent_registry import AgentRegistry
from sokovan.orchestrator.coordinator import LEASE_TTL_S, Coordinator
from sokovan.orchestrator.orchestrator import SokovanOrchestrator, TaskEnded
from sokovan.orchestrator.periodic_tasks import TaskFailure
from sokovan.orchestrator.sessions.config import Dependencies, Timing, TimingInForce
from sokovan.orchestrator.sessions.coordinator import ScheduleCoordinator
from sokovan.ports.agent_gateway import AgentGateway
from sokovan.ports.agent_states import AgentStateCache
from sokovan.ports.environment import Clock, IdSource, Telemetry
from sokovan.ports.events import EventBus
from sokovan.ports.hints import Hints
from sokovan.ports.kernel_files import AgentFiles
from sokovan.ports.secrets import SecretBox
from sokovan.ports.uploads import UploadStore
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.registry import PluginRegistry
from sokovan.scheduling.snapshot import SystemSnapshot

if TYPE_CHECKING:
    from sokovan.entrypoints.joining.machine_links import MachineLinks

HOLDER_NAME_MAX = 64
# Opens hints, events and agent states; closing the stack closes them.
OpenBus: TypeAlias = Callable[[AsyncExitStack], tuple[Hints, EventBus, AgentStateCache]]


def in_process_bus(_stack: AsyncExitStack) -> tuple[InProcessHints, InProcessEventBus, InProcessAgentStates]:
    """The bus of a manager that is alone."""
    clock = SystemClock()
    return InProcessHints(clock), InProcessEventBus(clock), InProcessAgentStates(clock)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerOptions:
    """Options of the manager.

    `agent` gives the options of the local agent for an address to connect to;
    `fake_agents` is the shape of the simulated fleet. `sole`: no other manager can use
    the store. With `machines`, agents of other machines may join. `several_users` may use
    agents that do not isolate their kernels. A manager that does not `coordinate` only
    serves the API and the links. `name` is that of the manager in leases. `bus` is called in
    the manager's event loop.
    """

    database: DatabaseSettings
    sole: bool = False
    store_clock: Clock = field(default_factory=SteadyClock)
    agent_token: str
    link_host: str
    link_port: int
    link_tries: int = 50
    link_limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    secrets: SecretBox
    telemetry: Telemetry
    log: Callable[[str], None]
    agent: Callable[[str], AgentOptions] | None = None
    fake_agents: FleetShape | None = None
    machines: MachineLinkOptions | None = None
    uploads: UploadStore | None = None
    timing: Timing
    allocator: str = RepositoryAllocator.name
    heartbeat_s: float = 2.0
    audit_s: float = 300.0
    several_users: bool = False
    coordinates: bool = True
    name: str = "manager"
    bus: OpenBus = in_process_bus


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerRuntime:
    """The running manager."""

    hints: Hints
    events: EventBus
    agents: AgentStateCache
    gateway: AgentGateway
    files: AgentFiles
    link_port: int
    agent: str
    joining: JoinAddress | None
    disconnect: Callable[[str], None]
    written: Callable[[], None]
    retime: Callable[[Timing], None]


async def start_manager(
    options: ManagerOptions, stack: AsyncExitStack, fatal: Fatal = lambda _error: None
) -> ManagerRuntime:
    """Build and start the manager; closing `stack` stops it.

    `fatal` is called if a part of it has ended that it cannot do without.
    """
    clock = SystemClock()
    ids = SortableIds(clock)
    database = Database(options.database, clock=options.store_clock)
    stack.push_async_callback(database.close)
    store = SqlStore(database, ids=ids)
    hints, events, states = options.bus(stack)
    written = _event_hint(hints)
    notifying = NotifyingStore(store, written)
    await declare_previous_fakes_lost(notifying, options.fake_agents)
    registry, timing = AgentRegistry(notifying, states, hints=hints, clock=clock), TimingInForce(options.timing)
    machines = _machines(options, notifying)
    linked = _linked_agents(options, registry, timing, machines)
    fakes = FakeEnrolment(registry, notifying, options.fake_agents) if options.fake_agents else None
    gateway = _gateway(options, stack, linked, fakes, fatal=fatal)
    listener = await _listen(options, stack, linked)
    parts = Dependencies(
        store=notifying,
        leases=SqlLeases(store, sole=options.sole),
        hints=hints,
        snapshots=SqlSnapshots(store),
        allocator=allocator_named(options.allocator, store),
        agents=states,
        gateway=gateway,
        clock=clock,
        ids=ids,
        telemetry=options.telemetry,
        secrets=options.secrets,
        images=registry.images,
        decide=partial(decide_in_thread, installed_plugins()),
        on_failure=lambda name, error: options.log(f"handler {name}: {error!r}"),
    )
    coordinator = ScheduleCoordinator(parts, holder=_holder(options, ids), timing=options.timing)
    coordinators = _coordinators(options, parts, store, sessions=coordinator, publisher=Publisher(store.outbox, events))
    await _start_orchestrator(options, stack, coordinators, hints=hints, fatal=fatal)
    agent = await _start_agent(options, stack, linked, listener.port, fatal=fatal)
    keep = partial(keep_running, stack, name="renewal of the certificate", log=options.log, clock=clock)
    joining = await machines.start(linked, stack, keep) if machines else None
    return ManagerRuntime(
        hints=hints,
        events=events,
        agents=states,
        gateway=gateway,
        files=linked.files,
        link_port=listener.port,
        agent=agent,
        joining=joining,
        disconnect=lambda agent_id: linked.disconnect(AgentId(agent_id), "the agent was removed"),
        written=written,
        retime=partial(_retime, timing, coordinator),
    )


def _coordinators(
    options: ManagerOptions,
    parts: Dependencies,
    store: SqlStore,
    *,
    sessions: ScheduleCoordinator,
    publisher: Publisher,
) -> tuple[Coordinator, ...]:
    """The coordinators of this manager; at least the publisher of events."""
    always: tuple[Coordinator, ...] = (publisher,)
    if store.database.is_postgresql:
        looking = Database(replace(options.database, pool_size=1), clock=options.store_clock)
        always = (publisher, SilentTransactions(looking, options.telemetry, options.log))
    if not options.coordinates:
        return always
    serving = serving_coordinators(
        parts,
        SqlSnapshots(store),
        holder=_holder(options, parts.ids),
        agent_secret=options.agent_token,
        shared=options.several_users,
        # Without another manager a short lease would only be renewed more often.
        lease_ttl_s=LEASE_TTL_S if options.sole else options.timing.lease_ttl_s,
    )
    auditor = StoreAuditor(store, options.telemetry, options.log, every_s=options.audit_s)
    return (sessions, *serving, *always, auditor)


def _holder(options: ManagerOptions, ids: IdSource) -> str:
    """The name of a lease's holder: that of the manager, and unique to this run."""
    return ids.new(options.name[:HOLDER_NAME_MAX])


def _machines(options: ManagerOptions, store: NotifyingStore) -> MachineLinks | None:
    """The listener for other machines, if one is configured."""
    if options.machines is None:
        return None
    from sokovan.entrypoints.joining.machine_links import MachineLinks  # noqa: PLC0415  # loads cryptography

    return MachineLinks(options.machines, store)


def _linked_agents(
    options: ManagerOptions, registry: AgentRegistry, timing: TimingInForce, machines: MachineLinks | None
) -> LinkedAgents:
    """The links of agents, of this machine and of others."""
    admit = admission(
        registry, options.agent_token, heartbeat_s=options.heartbeat_s, retention=lambda: timing.current.retention
    )
    return LinkedAgents(
        SystemClock(),
        admit=machines.admission(admit, options.agent_token) if machines else admit,
        on_heartbeat=registry.heartbeat,
        log=options.log,
        uploads=options.uploads,
    )


def _retime(timing: TimingInForce, coordinator: ScheduleCoordinator, new: Timing) -> None:
    timing.current = new
    coordinator.retime(new)


async def decide_in_thread(
    registry: PluginRegistry, snapshot: SystemSnapshot, profile: SchedulingProfile
) -> SchedulingPlan:
    """Run the scheduling core in a thread, with the plugins of `registry`."""
    return await asyncio.to_thread(schedule, snapshot, profile, registry)


async def _listen(options: ManagerOptions, stack: AsyncExitStack, linked: LinkedAgents) -> LinkListener:
    """Listen for agents on the configured port, or on the next free one. Raises OSError."""
    bounds = Connections(options.link_limits, SystemClock(), telemetry=options.telemetry, log=options.log)
    access = LinkAccess(known=known_token(options.agent_token), bounds=bounds)
    serve = partial(serve_links, linked, host=options.link_host, access=access)
    for port in range(options.link_port, options.link_port + options.link_tries - 1 if options.link_port else 0):
        with contextlib.suppress(OSError):
            return await stack.enter_async_context(serve(port=port))
    last = options.link_port + options.link_tries - 1 if options.link_port else 0
    return await stack.enter_async_context(serve(port=last))


def _event_hint(hints: Hints) -> Callable[[], None]:
    """A function to call after each commit, which sets the hint for the publisher."""
    tasks: set[asyncio.Task[None]] = set()

    def written() -> None:
        task = asyncio.ensure_future(hints.set(EVENTS_HINT))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    return written


async def _start_orchestrator(
    options: ManagerOptions,
    stack: AsyncExitStack,
    coordinators: tuple[Coordinator, ...],
    *,
    hints: Hints,
    fatal: Fatal,
) -> None:
    def failed(failure: TaskFailure) -> None:
        options.telemetry.count("task_failures_total", task=failure.task)
        options.log(f"task {failure.task}, {failure.in_a_row} in a row: {failure.error!r}")
        if isinstance(failure.error, TaskEnded):
            fatal(ComponentEnded(failure.error.message))

    orchestrator = SokovanOrchestrator(coordinators, clock=SystemClock(), hints=hints, failed=failed)
    await orchestrator.start()
    stack.push_async_callback(orchestrator.stop)


def _gateway(
    options: ManagerOptions,
    stack: AsyncExitStack,
    linked: LinkedAgents,
    enrolment: FakeEnrolment | None,
    *,
    fatal: Fatal,
) -> AgentGateway:
    """The gateway to agents, including the fake ones."""
    if enrolment is None:
        return linked
    fleet = enrolment.fleet(SystemClock())
    start_task(stack, fleet.run(), name="the fake agents", log=options.log, fatal=fatal)
    return GatewaySwitch(linked, fleet)


async def _start_agent(
    options: ManagerOptions, stack: AsyncExitStack, linked: LinkedAgents, port: int, *, fatal: Fatal
) -> str:
    """Start the local agent if configured; returns a summary of it."""
    if options.agent is None:
        return ""
    agent = options.agent(f"ws://{options.link_host}:{port}")
    return await start_agent(agent, stack, connected=linked.connected, log=options.log, fatal=fatal)
