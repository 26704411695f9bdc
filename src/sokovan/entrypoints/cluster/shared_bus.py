"""Opens hints, events and agent states of a manager, alone or one of several."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack

from sokovan.adapters.inprocess.agents import InProcessAgentStates
from sokovan.adapters.inprocess.events import InProcessEventBus
from sokovan.adapters.inprocess.hints import InProcessHints
from sokovan.adapters.local.clock import SystemClock
from sokovan.entrypoints.embedded.background_tasks import keep_running
from sokovan.entrypoints.embedded.event_publisher import EVENTS_HINT
from sokovan.ports.agent_states import AgentStateCache
from sokovan.ports.events import EventBus
from sokovan.ports.hints import Hints


def open_bus(
    database: str, log: Callable[[str], None], stack: AsyncExitStack
) -> tuple[Hints, EventBus, AgentStateCache]:
    """The bus of a manager on this database; closing `stack` closes it.

    On PostgreSQL others may use the database, and hints and events go to all of them. Every
    agent has a link to every manager, so that each has the states of all agents.
    """
    clock = SystemClock()
    hints, events, agents = InProcessHints(clock), InProcessEventBus(clock), InProcessAgentStates(clock)
    if not database.startswith("postgresql:"):
        return hints, events, agents
    from sokovan.adapters.postgres.connection import NotificationLink  # noqa: PLC0415  # an optional dependency
    from sokovan.adapters.postgres.events import PostgresEvents  # noqa: PLC0415  # an optional dependency
    from sokovan.adapters.postgres.hints import PostgresHints  # noqa: PLC0415  # an optional dependency

    link = NotificationLink(database, clock, log=log)
    # Each manager publishes what the outbox has, so that the hint of its publisher is its own.
    shared = PostgresHints(hints, link, own=(EVENTS_HINT,))
    stack.push_async_callback(shared.close)
    bus = PostgresEvents(events, link)
    keep_running(stack, link.run, name="notifications of the database", log=log, clock=clock)
    return shared, bus, agents
