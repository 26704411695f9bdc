"""Opens hints, events and agent states of a manager, alone or one of several."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack

from sokovan.adapters.broadcast.events import BroadcastEvents
from sokovan.adapters.broadcast.hints import BroadcastHints
from sokovan.adapters.broadcast.link import BroadcastLink
from sokovan.adapters.inprocess.agents import InProcessAgentStates
from sokovan.adapters.inprocess.events import InProcessEventBus
from sokovan.adapters.inprocess.hints import InProcessHints
from sokovan.adapters.local.clock import SystemClock
from sokovan.entrypoints.embedded.background_tasks import keep_running
from sokovan.entrypoints.embedded.event_publisher import EVENTS_HINT
from sokovan.entrypoints.settings.setting_sections import ValkeySettings
from sokovan.ports.agent_states import AgentStateCache
from sokovan.ports.environment import Clock
from sokovan.ports.events import EventBus
from sokovan.ports.hints import Hints


def open_bus(
    database: str, valkey: ValkeySettings, log: Callable[[str], None], stack: AsyncExitStack
) -> tuple[Hints, EventBus, AgentStateCache]:
    """The bus of a manager on this database; closing `stack` closes it.

    On PostgreSQL others may use the database, and hints and events go to all of them: by the
    database, or by Valkey if its address is set. Every agent has a link to every manager, so
    that each has the states of all agents.
    """
    clock = SystemClock()
    hints, events, agents = InProcessHints(clock), InProcessEventBus(clock), InProcessAgentStates(clock)
    if not database.startswith("postgresql:"):
        return hints, events, agents
    link, name = _link(database, valkey, clock, log)
    # Each manager publishes what the outbox has, so that the hint of its publisher is its own.
    shared = BroadcastHints(hints, link, own=(EVENTS_HINT,))
    stack.push_async_callback(shared.close)
    bus = BroadcastEvents(events, link)
    keep_running(stack, link.run, name=name, log=log, clock=clock)
    return shared, bus, agents


def _link(database: str, valkey: ValkeySettings, clock: Clock, log: Callable[[str], None]) -> tuple[BroadcastLink, str]:
    """The connection to the other managers, and its name for the log."""
    if valkey.is_used:
        from sokovan.adapters.broadcast.valkey_link import ValkeyLink  # noqa: PLC0415  # an optional dependency

        return ValkeyLink(valkey.url, clock, prefix=valkey.prefix, log=log), "messages of Valkey"
    from sokovan.adapters.broadcast.postgres_link import NotificationLink  # noqa: PLC0415  # an optional dependency

    return NotificationLink(database, clock, log=log), "notifications of the database"
