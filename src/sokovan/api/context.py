"""The dependencies of the API and the context that every route works with."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from sokovan.api.access.auditing import Auditor
from sokovan.api.access.authentication import Authenticator
from sokovan.api.settings import ApiSettings
from sokovan.api.streaming.command_limits import CommandLimits
from sokovan.api.streaming.event_hub import EventHub
from sokovan.api.streaming.event_streams import Streams
from sokovan.api.streaming.request_lines import LinePace
from sokovan.api.uncancellable_store import UncancellableStore
from sokovan.domain.cluster.agent_grant import JoinAddress
from sokovan.orchestrator.deployments.controller import DeploymentController
from sokovan.orchestrator.routes.controller import RouteController
from sokovan.orchestrator.sessions.controller import SchedulingController
from sokovan.ports.agent_gateway import KernelGateway
from sokovan.ports.agent_states import AgentStateReader
from sokovan.ports.environment import Clock, IdSource, Telemetry
from sokovan.ports.events import EventBus
from sokovan.ports.hints import Hints
from sokovan.ports.kernel_files import AgentFiles
from sokovan.ports.leases import Leases
from sokovan.ports.storage import Store
from sokovan.ports.uploads import UploadStore
from sokovan.scheduling.registry import BUILT_IN, PluginRegistry
from sokovan.wire.api.system import ServerSettingsView

# Yields an answer part by part, for an endpoint token and a chat completion. Raises ModelFailed.
AskModel: TypeAlias = Callable[[str, Mapping[str, Any]], AsyncGenerator[str, None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiDependencies:
    """Ports and the controllers. `plugins` are those that a scaling group may name.

    `uploads` is None for a server that stores none, `files` for one without agents. With
    `leases`, a server without a leading manager is not ready.
    `settings` describes those in force. `gateway_url` is the base URL for clients of models,
    `models` asks them there; None without a gateway.
    `joining` is None for a server that other machines cannot join; `disconnect` closes the
    link of an agent.
    """

    store: Store
    controller: SchedulingController
    deployments: DeploymentController
    routes: RouteController
    hints: Hints
    events: EventBus
    agents: AgentStateReader
    gateway: KernelGateway
    clock: Clock
    ids: IdSource
    telemetry: Telemetry
    metrics: Callable[[], bytes | Awaitable[bytes]]
    plugins: PluginRegistry = BUILT_IN
    leases: Leases | None = None
    uploads: UploadStore | None = None
    files: AgentFiles | None = None
    settings: Callable[[], ServerSettingsView] = ServerSettingsView
    gateway_url: str = ""
    models: AskModel | None = None
    joining: JoinAddress | None = None
    disconnect: Callable[[str], None] = lambda _agent_id: None


@dataclass(frozen=True, slots=True)
class ApiContext:
    """The dependencies, and the objects that the API builds from them once."""

    dependencies: ApiDependencies
    settings: ApiSettings
    authenticator: Authenticator
    streams: Streams
    auditor: Auditor
    store: UncancellableStore
    command_limits: CommandLimits
    line_pace: LinePace

    @classmethod
    def of(cls, dependencies: ApiDependencies, settings: ApiSettings) -> ApiContext:
        """The context for these dependencies."""
        store = UncancellableStore(dependencies.store)
        dependencies = replace(dependencies, store=store)
        clock, limits = dependencies.clock, settings.streams
        authenticator = Authenticator(store, clock, pepper=settings.pepper, kept_s=settings.principal_kept_s)
        hub = EventHub(dependencies.events, clock=clock, ids=dependencies.ids, limits=limits)
        streams = Streams(hub, authenticator, clock=clock, limits=limits)
        commands = CommandLimits(most=limits.commands_per_agent_max)
        return cls(
            dependencies, settings, authenticator, streams, Auditor(store, clock), store, commands, LinePace(clock)
        )
