"""The state of serving that the handlers of both coordinators work on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sokovan.domain.cluster.agent import DATA_LABEL
from sokovan.domain.ids import AgentId, DeploymentId, SessionId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.records import SessionRecord
from sokovan.domain.serving.records import (
    DeploymentRecord,
    EndpointObservation,
    ProxyRecord,
    ReplicaRecord,
    RevisionRecord,
    RolloutRecord,
    RouteRecord,
)
from sokovan.domain.serving.replica import CRASH_WINDOW_MS, is_own_failure
from sokovan.ports.repositories.sessions import PAGE, SessionFilter
from sokovan.ports.storage import Store, UnitOfWork

# A proxy that was silent for longer does not count: neither its health verdicts nor its acknowledgements.
PROXY_TTL_MS = 10_000
# An agent with replicas is read again after this: the address of its data listener, and whether it drains.
AGENT_AGE_MS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingState:
    """All deployments that have not ended, with everything that belongs to them.

    `failures` are replicas that failed by themselves lately. `proxies` are those that reported
    lately; `epoch` and `version` are those of their table.
    `verdicts` say why sessions of replicas wait, by session. `data_addresses` are those of the
    data listeners of agents with replicas, where they have one; some of these agents drain.
    """

    now_ms: int
    deployments: Mapping[DeploymentId, DeploymentRecord] = field(default_factory=dict)
    revisions: Mapping[tuple[DeploymentId, int], RevisionRecord] = field(default_factory=dict)
    replicas: Mapping[DeploymentId, Sequence[ReplicaRecord]] = field(default_factory=dict)
    failures: Mapping[tuple[DeploymentId, int], Sequence[ReplicaRecord]] = field(default_factory=dict)
    rollouts: Mapping[DeploymentId, RolloutRecord] = field(default_factory=dict)
    routes: Mapping[DeploymentId, RouteRecord] = field(default_factory=dict)
    sessions: Mapping[SessionId, SessionRecord] = field(default_factory=dict)
    verdicts: Mapping[SessionId, str] = field(default_factory=dict)
    proxies: Sequence[ProxyRecord] = ()
    data_addresses: Mapping[AgentId, str] = field(default_factory=dict)
    draining_agents: frozenset[AgentId] = frozenset()
    epoch: str = ""
    version: int = 0

    def replicas_of(self, deployment_id: DeploymentId, revision: int | None = None) -> list[ReplicaRecord]:
        """The replicas of a deployment that have not ended, of one revision or all."""
        found = self.replicas.get(deployment_id, ())
        return [one for one in found if revision is None or one.place.revision == revision]

    def revision_of(self, replica: ReplicaRecord) -> RevisionRecord:
        """The revision that a replica runs."""
        return self.revisions[replica.place.deployment_id, replica.place.revision]

    def session_of(self, replica: ReplicaRecord) -> SessionRecord | None:
        """The session of a replica; None if it has none, or none any more."""
        return None if replica.session_id is None else self.sessions.get(replica.session_id)

    def reports_on(self, replica: ReplicaRecord) -> list[EndpointObservation]:
        """The reports of all live proxies on the endpoint of a replica."""
        if replica.endpoint is None:
            return []
        name = replica.endpoint.endpoint_id
        return [proxy.endpoints[name] for proxy in self.proxies if name in proxy.endpoints]

    def is_acknowledged(self, version: int) -> bool:
        """Whether every live proxy uses a table of at least this version."""
        return all(proxy.epoch == self.epoch and proxy.version >= version for proxy in self.proxies)


class _KnownAgent(NamedTuple):
    read_ms: int
    data_address: str
    drains: bool


class ServingStateReader:
    """Reads the state; revisions, which never change, are read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._revisions: dict[tuple[DeploymentId, int], RevisionRecord] = {}
        self._agents: dict[AgentId, _KnownAgent] = {}

    async def read(self) -> ServingState:
        """The state now. Raises StoreUnavailable."""
        return await self._store.read(self._read)

    def clear(self) -> None:
        """Forget what was read."""
        self._revisions.clear()
        self._agents.clear()

    async def _read(self, unit: UnitOfWork) -> ServingState:
        deployments = {one.deployment_id: one for one in await unit.deployments.live()}
        if not deployments and not await unit.routes.live():
            return ServingState(now_ms=unit.now_ms)
        replicas: defaultdict[DeploymentId, list[ReplicaRecord]] = defaultdict(list)
        for replica in await unit.replicas.live():
            replicas[replica.place.deployment_id].append(replica)
        rollouts = {one.deployment_id: one for one in await unit.rollouts.live()}
        epoch, version = await unit.routes.version()
        sessions = await _sessions(unit, [one for some in replicas.values() for one in some])
        waiting = [one.session_id for one in sessions.values() if one.status is SessionStatus.PENDING]
        verdicts = await unit.verdicts.of(waiting) if waiting else {}
        agents = await self._agents_of(unit, [one for some in replicas.values() for one in some])
        return ServingState(
            now_ms=unit.now_ms,
            deployments=deployments,
            revisions=await self._used(unit, deployments, replicas, rollouts),
            replicas=replicas,
            failures=await _failures(unit),
            rollouts=rollouts,
            routes={one.spec.deployment_id: one for one in await unit.routes.live()},
            sessions=sessions,
            verdicts={key: one.summary for key, one in verdicts.items()},
            proxies=await unit.proxies.live(since_ms=unit.now_ms - PROXY_TTL_MS),
            data_addresses={key: one.data_address for key, one in agents.items() if one.data_address},
            draining_agents=frozenset(key for key, one in agents.items() if one.drains),
            epoch=epoch,
            version=version,
        )

    async def _agents_of(self, unit: UnitOfWork, replicas: Sequence[ReplicaRecord]) -> dict[AgentId, _KnownAgent]:
        """The agents with replicas; each is read again every few seconds, and one that drains each time.

        It may take replicas again as soon as its drain is revoked.
        """
        wanted = {one.endpoint.agent_id for one in replicas if one.endpoint is not None}
        known = {
            agent: kept
            for agent, kept in self._agents.items()
            if agent in wanted and not kept.drains and unit.now_ms - kept.read_ms < AGENT_AGE_MS
        }
        for agent in sorted(wanted - known.keys()):
            info = (await unit.fleet.get(agent)).info
            drains = info.status is AgentStatus.DRAINING
            known[agent] = _KnownAgent(unit.now_ms, info.labels.get(DATA_LABEL, ""), drains)
        self._agents = known
        return known

    async def _used(
        self,
        unit: UnitOfWork,
        deployments: Mapping[DeploymentId, DeploymentRecord],
        replicas: Mapping[DeploymentId, Sequence[ReplicaRecord]],
        rollouts: Mapping[DeploymentId, RolloutRecord],
    ) -> dict[tuple[DeploymentId, int], RevisionRecord]:
        wanted = {(one.deployment_id, one.revision) for one in deployments.values()}
        wanted |= {
            (one.deployment_id, number) for one in rollouts.values() for number in (one.revision_from, one.revision_to)
        }
        wanted |= {(one.place.deployment_id, one.place.revision) for some in replicas.values() for one in some}
        kept = {key: one for key, one in self._revisions.items() if key in wanted}
        for deployment_id, number in sorted(wanted - set(kept)):
            kept[deployment_id, number] = await unit.deployments.revision(deployment_id, number)
        self._revisions = kept
        return dict(kept)


async def _failures(unit: UnitOfWork) -> dict[tuple[DeploymentId, int], list[ReplicaRecord]]:
    """The replicas that failed lately, without those that others ended."""
    ended = await unit.replicas.failures(since_ms=unit.now_ms - CRASH_WINDOW_MS)
    failed = {key: [one for one in some if is_own_failure(one.reason_code)] for key, some in ended.items()}
    return {key: some for key, some in failed.items() if some}


async def _sessions(unit: UnitOfWork, replicas: Sequence[ReplicaRecord]) -> dict[SessionId, SessionRecord]:
    wanted = [one.session_id for one in replicas if one.session_id is not None]
    found: dict[SessionId, SessionRecord] = {}
    for start in range(0, len(wanted), PAGE):
        part = wanted[start : start + PAGE]
        for session in await unit.sessions.page(SessionFilter(ids=part), limit=len(part)):
            found[session.session_id] = session
    return found
