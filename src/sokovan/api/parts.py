"""What the API is put together from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sokovan.orchestrator.sessions.controller import SchedulingController
from sokovan.ports.agent_gateway import AgentGateway
from sokovan.ports.agent_states import AgentStateCache
from sokovan.ports.environment import Clock, IdSource, Telemetry
from sokovan.ports.events import EventBus
from sokovan.ports.hints import Hints
from sokovan.ports.storage import Store
from sokovan.scheduling.registry import BUILT_IN, PluginRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiDependencies:
    """Ports and the controller. `plugins` are those that a scaling group may name."""

    store: Store
    controller: SchedulingController
    hints: Hints
    events: EventBus
    agents: AgentStateCache
    gateway: AgentGateway
    clock: Clock
    ids: IdSource
    telemetry: Telemetry
    metrics: Callable[[], bytes]
    plugins: PluginRegistry = BUILT_IN
