"""Builds the coordinators and controllers of deployments and routes."""

from __future__ import annotations

import hashlib
import hmac
import secrets  # noqa: TID251  # keys must be unpredictable
from dataclasses import replace

from sokovan.adapters.local.random_source import number
from sokovan.api.context import ApiDependencies
from sokovan.domain.serving.replica import Endpoint
from sokovan.domain.serving.ticket import data_key, ticket
from sokovan.entrypoints.generators import installed_generators
from sokovan.entrypoints.model_client import ModelClient
from sokovan.orchestrator.coordinator import LEASE_TTL_S
from sokovan.orchestrator.deployments.controller import DeploymentController
from sokovan.orchestrator.deployments.coordinator import DeploymentCoordinator
from sokovan.orchestrator.deployments.handlers.replica import ReplicaDependencies
from sokovan.orchestrator.deployments.replica_requests import ReplicaRequests
from sokovan.orchestrator.deployments.serving_coordinator import ServingDependencies
from sokovan.orchestrator.routes.controller import RouteController
from sokovan.orchestrator.routes.coordinator import RouteCoordinator
from sokovan.orchestrator.routes.port_ownership import PortOwnership
from sokovan.orchestrator.sessions.config import Dependencies
from sokovan.orchestrator.sessions.controller import SchedulingController
from sokovan.orchestrator.sessions.explain.plan import DryRuns
from sokovan.orchestrator.sessions.intake.names import name_of
from sokovan.orchestrator.sessions.intake.submissions import Submissions
from sokovan.ports.environment import IdSource
from sokovan.ports.hints import Hints
from sokovan.ports.secrets import SecretBox
from sokovan.ports.snapshots import SnapshotSource
from sokovan.ports.storage import Store

SECRET_BYTES = 32
_PURPOSE = b"endpoint tokens"


def new_secret() -> str:
    """256 random bits, as text."""
    return secrets.token_urlsafe(SECRET_BYTES)


def digest_key(pepper: bytes) -> str:
    """The key of the digests of endpoint tokens; proxies know it, not the pepper."""
    return hmac.new(pepper, _PURPOSE, hashlib.sha256).hexdigest()


def token_digest(token: str, key: str) -> str:
    """The digest of an endpoint token that is stored and given to proxies."""
    return hmac.new(key.encode(), token.encode(), hashlib.sha256).hexdigest()


def serving_coordinators(
    parts: Dependencies,
    snapshots: SnapshotSource,
    *,
    holder: str,
    agent_secret: str = "",
    shared: bool = False,
    lease_ttl_s: float = LEASE_TTL_S,
) -> tuple[DeploymentCoordinator, RouteCoordinator]:
    """The coordinators of deployments and routes, on ports of that of sessions.

    `snapshots` are their own: a source serves one task at a time. `agent_secret` is what
    managers derive the keys of agents' tickets from.
    """

    def tickets(endpoint: Endpoint) -> str:
        return ticket(data_key(agent_secret, endpoint.agent_id), endpoint.endpoint_id, endpoint.port)

    controller = SchedulingController(
        parts.store,
        Submissions(
            parts.store, ids=parts.ids, clock=parts.clock, names=lambda: name_of(number()), secrets=parts.secrets
        ),
        hints=parts.hints,
        dry_runs=DryRuns(snapshots, parts.decide),
    )
    if shared:
        controller.allow_sharing()
    serving = ServingDependencies(
        store=parts.store,
        leases=parts.leases,
        hints=parts.hints,
        clock=parts.clock,
        telemetry=parts.telemetry,
        on_failure=parts.on_failure,
        lease_ttl_s=lease_ttl_s,
    )
    requests = replica_requests()
    replicas = ReplicaDependencies(
        controller=controller, requests=requests, ids=parts.ids, secrets=new_secret, box=parts.secrets
    )
    return (
        DeploymentCoordinator(serving, replicas, holder=holder),
        RouteCoordinator(serving, requests, holder=holder, owners=PortOwnership(parts.gateway), tickets=tickets),
    )


def replica_requests() -> ReplicaRequests:
    """Requests with all installed definition generators."""
    return ReplicaRequests(installed_generators().define)


def serving_controllers(
    store: Store, sessions: SchedulingController, *, hints: Hints, ids: IdSource, pepper: bytes, box: SecretBox
) -> tuple[DeploymentController, RouteController]:
    """The controllers that the API calls."""
    key = digest_key(pepper)
    return (
        DeploymentController(store, sessions, replica_requests(), hints=hints, ids=ids, secrets=box),
        RouteController(store, hints=hints, ids=ids, secrets=new_secret, digest=lambda token: token_digest(token, key)),
    )


def with_gateway(dependencies: ApiDependencies, url: str) -> ApiDependencies:
    """The dependencies of an API with a gateway; without one the URL is empty."""
    return replace(dependencies, gateway_url=url, models=ModelClient(url).answer if url else None)
