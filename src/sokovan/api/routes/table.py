"""All operations of the API, in the order of path matching."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sokovan.api.context import ApiContext
from sokovan.api.middleware import OPEN_PATH
from sokovan.api.operations import ApiOperation
from sokovan.api.routes.audit_log import AuditLogRoutes
from sokovan.api.routes.batches.session_batches import SessionBatchRoutes
from sokovan.api.routes.batches.session_endings import SessionEndingRoutes
from sokovan.api.routes.batches.session_lists import SessionListRoutes
from sokovan.api.routes.cluster.agent_labels import AgentLabelRoutes
from sokovan.api.routes.cluster.agents import AgentRoutes
from sokovan.api.routes.cluster.bookings import booking_operations
from sokovan.api.routes.cluster.cluster_changes import WhatIfRoutes
from sokovan.api.routes.cluster.fleet import fleet_operations
from sokovan.api.routes.cluster.fleet_columns import FleetRoutes
from sokovan.api.routes.cluster.joining import JoiningRoutes
from sokovan.api.routes.cluster.limits import LimitRoutes
from sokovan.api.routes.cluster.queue_shares import QueueShareRoutes
from sokovan.api.routes.cluster.timeline import TimelineRoutes
from sokovan.api.routes.cluster.topology import TopologyRoutes
from sokovan.api.routes.cluster.usage_history import UsageHistoryRoutes
from sokovan.api.routes.explanations import ExplanationRoutes
from sokovan.api.routes.join_tokens import JoinTokenRoutes
from sokovan.api.routes.keys import KeyRoutes
from sokovan.api.routes.logins import LoginRoutes
from sokovan.api.routes.serving.chats import ChatRoutes
from sokovan.api.routes.serving.deployment_events import DeploymentEventRoutes
from sokovan.api.routes.serving.deployment_explanations import DeploymentExplanationRoutes
from sokovan.api.routes.serving.deployments import DeploymentRoutes
from sokovan.api.routes.serving.endpoint_tokens import EndpointTokenRoutes
from sokovan.api.routes.serving.rollouts import RolloutRoutes
from sokovan.api.routes.serving.served_routes import ServedRouteRoutes
from sokovan.api.routes.sessions import ArrayRoutes, SessionRoutes
from sokovan.api.routes.streams.kernel_files import KernelFileRoutes
from sokovan.api.routes.streams.kernel_use import KernelUseRoutes
from sokovan.api.routes.streams.logs import LogRoutes
from sokovan.api.routes.streams.watching import WatchRoutes
from sokovan.api.routes.system import SystemRoutes
from sokovan.api.routes.tenancy import tenancy_operations
from sokovan.api.routes.uploads import UploadRoutes
from sokovan.api.routes.usage import UsageRoutes

# Operations of a manager that serves no API: its health and its metrics.
PROBE_PATHS = frozenset({OPEN_PATH, "/readyz", "/metrics"})


def probe_operations(context: ApiContext, document: Callable[[], dict[str, Any]]) -> list[ApiOperation]:
    """The operations of a manager that serves no API."""
    return [one for one in SystemRoutes(context, document).operations() if one.path in PROBE_PATHS]


def every_operation(context: ApiContext, document: Callable[[], dict[str, Any]]) -> list[ApiOperation]:
    """All operations; exact paths come before patterns."""
    return [
        *SystemRoutes(context, document).operations(),
        *ExplanationRoutes(context).operations(),
        *SessionListRoutes(context).operations(),
        *SessionRoutes(context).operations(),
        *SessionBatchRoutes(context).operations(),
        *SessionEndingRoutes(context).operations(),
        *ArrayRoutes(context).operations(),
        *DeploymentExplanationRoutes(context).operations(),
        *DeploymentEventRoutes(context).operations(),
        *DeploymentRoutes(context).operations(),
        *ChatRoutes(context).operations(),
        *RolloutRoutes(context).operations(),
        *EndpointTokenRoutes(context).operations(),
        *ServedRouteRoutes(context).operations(),
        *WatchRoutes(context).operations(),
        *LogRoutes(context).operations(),
        *KernelFileRoutes(context).operations(),
        *KernelUseRoutes(context).operations(),
        *AgentLabelRoutes(context).operations(),
        *JoiningRoutes(context).operations(),
        *JoinTokenRoutes(context).operations(),
        *AgentRoutes(context).operations(),
        *TopologyRoutes(context).operations(),
        *FleetRoutes(context).operations(),
        *TimelineRoutes(context).operations(),
        *QueueShareRoutes(context).operations(),
        *WhatIfRoutes(context).operations(),
        *fleet_operations(context),
        *booking_operations(context),
        *tenancy_operations(context),
        *KeyRoutes(context).operations(),
        *LoginRoutes(context).operations(),
        *LimitRoutes(context).operations(),
        *UsageRoutes(context).operations(),
        *UsageHistoryRoutes(context).operations(),
        *AuditLogRoutes(context).operations(),
        *UploadRoutes(context).operations(),
    ]
