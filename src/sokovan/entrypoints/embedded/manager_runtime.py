"""Everything that works in the manager's event loop, put together."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

from sokovan.adapters.agentlink.linked_agents import LinkedAgents
from sokovan.adapters.agentlink.listener import LinkListener, serve_links
from sokovan.adapters.inprocess.agents import InProcessAgentStates
from sokovan.adapters.inprocess.events import InProcessEventBus
from sokovan.adapters.inprocess.hints import InProcessHints
from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.ids import SortableIds
from sokovan.adapters.sql.database import Database, DatabaseSettings
from sokovan.adapters.sql.leases import SqlLeases
from sokovan.adapters.sql.snapshots.source import SqlSnapshots
from sokovan.adapters.sql.store import SqlStore
from sokovan.agent.fake.gateway_switch import GatewaySwitch
from sokovan.agent.fake.shape import FleetShape
from sokovan.entrypoints.agent import AgentOptions
from sokovan.entrypoints.allocators import allocator_named
from sokovan.entrypoints.embedded.agent_links import admission, known_token
from sokovan.entrypoints.embedded.background_tasks import tend, tend_agent
from sokovan.entrypoints.embedded.event_publisher import EVENTS_HINT, Publisher
from sokovan.entrypoints.embedded.fake_agents import FakeEnrolment, lose_leftovers
from sokovan.entrypoints.embedded.notifying_store import NotifyingStore
from sokovan.entrypoints.embedded.store_audit import StoreAuditor
from sokovan.entrypoints.plugins import installed_plugins
from sokovan.orchestrator.agent_registry import AgentRegistry
from sokovan.orchestrator.coordinator import Coordinator
from sokovan.orchestrator.orchestrator import SokovanOrchestrator
from sokovan.orchestrator.periodic_tasks import TaskFailure
from sokovan.orchestrator.sessions.config import Dependencies, Timing
from sokovan.orchestrator.sessions.coordinator import ScheduleCoordinator
from sokovan.ports.agent_gateway import AgentGateway
from sokovan.ports.environment import Telemetry
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.registry import PluginRegistry
from sokovan.scheduling.snapshot import SystemSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerOptions:
    """What the manager is to be made of.

    `agent` is the agent of this machine, without an address yet; `pretended` are agents
    that only act as if.
    """

    database: DatabaseSettings
    agent_token: str
    link_host: str
    link_port: int
    link_tries: int = 50
    telemetry: Telemetry
    tell: Callable[[str], None]
    agent: Callable[[str], AgentOptions] | None = None
    pretended: FleetShape | None = None
    pace: Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerRuntime:
    """The manager at work."""

    hints: InProcessHints
    events: InProcessEventBus
    agents: InProcessAgentStates
    gateway: AgentGateway
    link_port: int
    agent: str
    written: Callable[[], None]


async def plant_at_work(wish: ManagerOptions, stack: AsyncExitStack) -> ManagerRuntime:
    """Put the manager together and start it; `stack` takes it down again."""
    clock = SystemClock()
    ids = SortableIds(clock)
    database = Database(wish.database, clock=clock)
    stack.push_async_callback(database.close)
    store = SqlStore(database, ids=ids)
    hints, events, states = InProcessHints(clock), InProcessEventBus(clock), InProcessAgentStates(clock)
    written = _teller(hints)
    telling = NotifyingStore(store, written)
    await lose_leftovers(telling, wish.pretended)
    registry = AgentRegistry(telling, states, hints=hints, clock=clock)
    linked = LinkedAgents(clock, admit=admission(registry, wish.agent_token), heard=registry.heard, tell=wish.tell)
    enrolment = FakeEnrolment(registry, telling, wish.pretended) if wish.pretended else None
    gateway = _with_pretended(wish, stack, linked, enrolment)
    listener = await _listen(wish, stack, linked)
    parts = Dependencies(
        store=telling,
        leases=SqlLeases(store),
        hints=hints,
        snapshots=SqlSnapshots(store),
        allocator=allocator_named("repository", store),
        agents=states,
        gateway=gateway,
        clock=clock,
        ids=ids,
        telemetry=wish.telemetry,
        images=registry.images,
        decide=partial(decide_aside, installed_plugins()),
        failed=lambda name, error: wish.tell(f"handler {name}: {error!r}"),
    )
    coordinator = ScheduleCoordinator(parts, holder=ids.new("manager"), pace=wish.pace)
    coordinators = (coordinator, Publisher(store.outbox, events), StoreAuditor(store, wish.telemetry, wish.tell))
    await _start_orchestrator(wish, stack, coordinators, clock=clock, hints=hints)
    agent = await _start_agent(wish, stack, linked, listener.port)
    return ManagerRuntime(
        hints=hints,
        events=events,
        agents=states,
        gateway=gateway,
        link_port=listener.port,
        agent=agent,
        written=written,
    )


async def decide_aside(
    registry: PluginRegistry, snapshot: SystemSnapshot, profile: SchedulingProfile
) -> SchedulingPlan:
    """Decide with every plugin that is installed, in a thread beside the event loop."""
    return await asyncio.to_thread(schedule, snapshot, profile, registry)


async def _listen(wish: ManagerOptions, stack: AsyncExitStack, linked: LinkedAgents) -> LinkListener:
    """Open the door for agents at the wished port, or at the next one. Raises OSError."""
    door = partial(serve_links, linked, host=wish.link_host, known=known_token(wish.agent_token))
    for port in range(wish.link_port, wish.link_port + wish.link_tries - 1 if wish.link_port else 0):
        with contextlib.suppress(OSError):
            return await stack.enter_async_context(door(port=port))
    last = wish.link_port + wish.link_tries - 1 if wish.link_port else 0
    return await stack.enter_async_context(door(port=last))


def _teller(hints: InProcessHints) -> Callable[[], None]:
    """A word after every commit, for whoever publishes events."""
    under_way: set[asyncio.Task[None]] = set()

    def written() -> None:
        task = asyncio.ensure_future(hints.set(EVENTS_HINT))
        under_way.add(task)
        task.add_done_callback(under_way.discard)

    return written


async def _start_orchestrator(
    wish: ManagerOptions,
    stack: AsyncExitStack,
    coordinators: tuple[Coordinator, ...],
    *,
    clock: SystemClock,
    hints: InProcessHints,
) -> None:
    def failed(failure: TaskFailure) -> None:
        wish.telemetry.count("task_failures_total", task=failure.task)
        wish.tell(f"task {failure.task}, {failure.in_a_row} in a row: {failure.error!r}")

    orchestrator = SokovanOrchestrator(coordinators, clock=clock, hints=hints, failed=failed)
    await orchestrator.start()
    stack.push_async_callback(orchestrator.stop)


def _with_pretended(
    wish: ManagerOptions, stack: AsyncExitStack, linked: LinkedAgents, enrolment: FakeEnrolment | None
) -> AgentGateway:
    """The way to agents, with the pretended ones beside the real ones."""
    if enrolment is None:
        return linked
    fleet = enrolment.fleet(SystemClock())
    tend(stack, fleet.run(), name="the pretended fleet", tell=wish.tell)
    return GatewaySwitch(linked, fleet)


async def _start_agent(wish: ManagerOptions, stack: AsyncExitStack, linked: LinkedAgents, port: int) -> str:
    """Run the agent of this machine, if there is to be one; what there is to say about it."""
    if wish.agent is None:
        return ""
    options = wish.agent(f"ws://{wish.link_host}:{port}")
    return await tend_agent(options, stack, connected=linked.connected, tell=wish.tell)
