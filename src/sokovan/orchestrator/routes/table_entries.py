"""The entry of a deployment in the table of proxies, as a pure function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from sokovan.domain.lifecycle.replica import ROUTED, ReplicaStatus
from sokovan.domain.serving.deployment import DeploymentAccess, DeploymentSpec
from sokovan.domain.serving.engine import LOOPBACK, EngineDefinition
from sokovan.domain.serving.records import DeploymentRecord, ReplicaRecord, RevisionRecord
from sokovan.domain.serving.replica import CRASH_LOOP, Endpoint, is_crash_loop
from sokovan.domain.serving.rollout import WHOLE, RolloutStrategy
from sokovan.orchestrator.deployments.replica_targets import counted
from sokovan.orchestrator.deployments.serving_state import ServingState
from sokovan.wire.serving.route_table import (
    WEIGHT_MAX,
    EndpointEntry,
    EndpointStatus,
    ProbeTerms,
    RevisionEntry,
    RouteAccess,
    RouteEntry,
    RouteLimits,
    RouteRefusal,
)

# The definition of the engine of a revision.
Definitions: TypeAlias = Callable[[DeploymentRecord, RevisionRecord], EngineDefinition]
# The ticket with which a proxy reaches an endpoint on another machine.
Tickets: TypeAlias = Callable[[Endpoint], str]
NO_REPLICAS, NO_ROOM = "no-replicas", "no-room"


def route_entry(state: ServingState, deployment: DeploymentRecord, define: Definitions, tickets: Tickets) -> RouteEntry:
    """The entry of a deployment. Raises UnknownEngine, InvalidSpec."""
    spec, key = deployment.spec, deployment.deployment_id
    routed = [one for one in state.replicas_of(key) if one.status in ROUTED and one.endpoint is not None]
    numbers = sorted({deployment.revision, *(one.place.revision for one in routed)})
    revisions = {number: state.revisions[key, number] for number in numbers}
    definitions = {number: define(deployment, revision) for number, revision in revisions.items()}
    weights = _weights(state, deployment, routed)
    shares = endpoint_weights(spec, routed)
    current = revisions[deployment.revision].spec
    kind, _, sticky = spec.sticky_by.partition(":")
    return RouteEntry(
        deployment_id=key,
        name=spec.name,
        project=spec.owner.group,
        owner=spec.owner.user,
        models=spec.served_names,
        access=_ACCESS[spec.access],
        policy=(spec.routing or definitions[deployment.revision].policy).value,
        holding=_holds(deployment, routed),
        refusal=_refusal(state, deployment),
        revisions=tuple(
            RevisionEntry(number, weights.get(number, 0), definitions[number].concurrency_max) for number in numbers
        ),
        endpoints=tuple(
            _reached(_endpoint(one, definitions[one.place.revision], share), one.endpoint, state, tickets)
            for one, share in zip(routed, shares, strict=True)
        ),
        limits=RouteLimits(
            queued_max=current.limits.queued_max,
            queue_wait_ms=current.limits.queue_wait_s * 1000,
            cold_wait_ms=current.limits.cold_wait_s * 1000,
        ),
        sticky_header=sticky if kind == "header" else "",
        sticky_cookie=sticky if kind == "cookie" else "",
    )


def entry_text(entry: RouteEntry) -> str:
    """The entry as it is stored and compared."""
    return msgspec.json.encode(entry).decode()


def entry_of(text: str) -> RouteEntry:
    """The entry of a stored text."""
    return msgspec.json.decode(text, type=RouteEntry)


def endpoint_weights(spec: DeploymentSpec, replicas: Sequence[ReplicaRecord]) -> list[int]:
    """The weight of each replica.

    Zeros are ignored where no ACTIVE replica of the revision has another weight: something
    must serve.
    """
    given = [spec.weights.get(str(one.place.ordinal), 1) for one in replicas]
    usable = {
        one.place.revision
        for one, weight in zip(replicas, given, strict=True)
        if weight and one.status is ReplicaStatus.ACTIVE
    }
    return [
        weight if weight or one.place.revision in usable else 1 for one, weight in zip(replicas, given, strict=True)
    ]


def _reached(entry: EndpointEntry, endpoint: Endpoint | None, state: ServingState, tickets: Tickets) -> EndpointEntry:
    """The entry with the address of the agent's data listener, if it has one."""
    address = "" if endpoint is None else state.data_addresses.get(endpoint.agent_id, "")
    host, _, port = address.rpartition(":")
    if endpoint is None or not host or not port.isdecimal():
        return entry
    return msgspec.structs.replace(
        entry,
        host=host.strip("[]"),
        port=int(port),
        agent=endpoint.agent_id,
        kernel_port=endpoint.port,
        ticket=tickets(endpoint),
    )


def _endpoint(replica: ReplicaRecord, definition: EngineDefinition, weight: int) -> EndpointEntry:
    endpoint = replica.endpoint
    if endpoint is None:
        raise ValueError(f"replica {replica.replica_id} has no endpoint")
    probe = definition.probe
    return EndpointEntry(
        endpoint_id=endpoint.endpoint_id,
        revision=replica.place.revision,
        host=LOOPBACK,  # kernels of agents without a data listener are on the machine of the proxy
        port=endpoint.port,
        state=_STATES[replica.status],
        secret=replica.secret if definition.checks_secret else "",
        upstream_model=definition.upstream_model,
        weight=weight,
        probe=ProbeTerms(
            path=probe.path,
            warming_ms=probe.warming_interval_ms,
            interval_ms=probe.interval_ms,
            timeout_ms=probe.timeout_ms,
            smoke_path=definition.smoke_path if probe.smoke else "",
            metrics_path=definition.metrics_path,
        ),
        event_usage=definition.event_usage,
    )


_STATES: Mapping[ReplicaStatus, EndpointStatus] = {
    ReplicaStatus.WARMING: "WARMING",
    ReplicaStatus.ACTIVE: "ACTIVE",
    ReplicaStatus.UNHEALTHY: "UNHEALTHY",
    ReplicaStatus.DRAINING: "DRAINING",
}


_ACCESS: Mapping[DeploymentAccess, RouteAccess] = {
    DeploymentAccess.PRIVATE: "private",
    DeploymentAccess.PROJECT: "project",
    DeploymentAccess.PUBLIC: "public",
}


def _weights(state: ServingState, deployment: DeploymentRecord, routed: list[ReplicaRecord]) -> dict[int, int]:
    """The weight of each revision; a side without an ACTIVE replica gets none."""
    serving = Counter(one.place.revision for one in routed if one.status is ReplicaStatus.ACTIVE)
    rollout = state.rollouts.get(deployment.deployment_id)
    shares: dict[int, int] = dict(serving)
    if rollout is not None and rollout.strategy is not RolloutStrategy.ROLLING:
        shares = {rollout.revision_from: WHOLE - rollout.weight_new, rollout.revision_to: rollout.weight_new}
        shares = {number: share for number, share in shares.items() if serving[number]}
    total = sum(shares.values())
    if not total:
        return {deployment.revision: WEIGHT_MAX}
    return {number: WEIGHT_MAX * share // total for number, share in shares.items()}


def _holds(deployment: DeploymentRecord, routed: list[ReplicaRecord]) -> bool:
    """Whether requests are held: at zero, and until the first replica from zero serves."""
    serves = any(one.status is ReplicaStatus.ACTIVE for one in routed)
    return deployment.holding or (not serves and deployment.spec.replicas_min == 0)


def _refusal(state: ServingState, deployment: DeploymentRecord) -> RouteRefusal | None:
    """Why no replica starts: none may, the attempts have been stopped, or there is no room."""
    if not deployment.spec.replicas_max:
        return RouteRefusal(NO_REPLICAS, "the deployment is set to have no replicas")
    replicas = counted(state.replicas_of(deployment.deployment_id))
    verdicts = [state.verdicts.get(one.session_id) for one in replicas if one.session_id is not None]
    if verdicts and len(verdicts) == len(replicas) and all(verdicts):
        return RouteRefusal(NO_ROOM, f"no replica can start now: {verdicts[0]}"[:1900])
    failed = state.failures.get((deployment.deployment_id, deployment.revision), ())
    if not is_crash_loop([one.since_ms for one in failed], state.now_ms):
        return None
    return RouteRefusal(CRASH_LOOP, f"replicas failed repeatedly; the last: {failed[-1].reason}"[:1900])
