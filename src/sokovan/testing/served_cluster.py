"""A cluster that serves deployments, with a scripted proxy, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from typing import Any

from sokovan.adapters.local.ids import SortableIds
from sokovan.adapters.sql.snapshots.source import SqlSnapshots
from sokovan.domain.cluster.image import Image
from sokovan.domain.ids import DeploymentId
from sokovan.domain.owners.tenancy import Domain, Group, Keypair, Owner, Role, User
from sokovan.domain.serving.deployment import DeploymentSpec
from sokovan.domain.serving.engine import EngineDefinition, EngineRequest, Probe
from sokovan.domain.serving.records import (
    DeploymentRecord,
    EndpointObservation,
    ProxyRecord,
    ReplicaRecord,
    RouteDemand,
    RouteRecord,
)
from sokovan.domain.serving.replica import Endpoint
from sokovan.domain.serving.revision import RevisionSpec
from sokovan.orchestrator.deployments.coordinator import DeploymentCoordinator
from sokovan.orchestrator.deployments.handlers.replica import ReplicaDependencies
from sokovan.orchestrator.deployments.replica_requests import ReplicaRequests
from sokovan.orchestrator.deployments.serving_coordinator import ServingCoordinator, ServingDependencies
from sokovan.orchestrator.routes.coordinator import RouteCoordinator
from sokovan.orchestrator.routes.table_entries import entry_of
from sokovan.orchestrator.sessions.controller import SchedulingController
from sokovan.orchestrator.sessions.explain.plan import DryRuns
from sokovan.orchestrator.sessions.intake.submissions import Submissions
from sokovan.testing.clock import VirtualClock
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.stored_cluster import BY_USER, StoredCluster
from sokovan.wire.serving.route_table import RouteEntry

OWNER = Owner()
IMAGE = "python"


def define_plainly(request: EngineRequest) -> EngineDefinition:
    """A definition of any engine: one command that names the port."""
    return EngineDefinition(
        command=("serve", "--port", request.port),
        environment={"KEY": request.secret},
        probe=Probe(path="/health"),
        upstream_model=request.served_name,
        concurrency_max=request.concurrency_max or 8,
        image=IMAGE,
    )


class ScriptedProxy:
    """A proxy that reads the table and reports; a test decides what it observes.

    `health` gives the verdict on an endpoint; `outstanding` the requests under way at it;
    `smokes` the smoke requests that failed at it in a row; `waiting` the requests in its queue;
    `failing` whether its answers fail; `began` the histogram of its answers' first parts.
    """

    def __init__(self, store: Any, name: str = "proxy") -> None:
        self._store, self.name = store, name
        self.alive = self.acknowledges = True
        self.version, self.epoch = 0, ""
        self.entries: dict[str, RouteEntry] = {}
        self.health: Callable[[str], bool | None] = lambda _endpoint: True
        self.smokes: Callable[[str], int] = lambda _endpoint: 0
        self.outstanding: dict[str, int] = {}
        self.waiting: Callable[[str], int] = lambda _endpoint: 0
        self.failing: Callable[[str], bool] = lambda _endpoint: False
        self.began: dict[str, tuple[int, ...]] = {}
        self.demand: dict[str, RouteDemand] = {}

    async def report(self) -> None:
        """Read the table, and report with it; one that is not alive does nothing."""
        if not self.alive:
            return
        if self.acknowledges:
            table = await self._store.read(lambda unit: unit.routes.table())
            self.version, self.epoch = table.version, table.epoch
            self.entries = {str(one.spec.deployment_id): entry_of(one.entry) for one in table.routes}
        observed = {
            endpoint.endpoint_id: EndpointObservation(
                healthy=self.health(endpoint.endpoint_id),
                outstanding=self.outstanding.get(endpoint.endpoint_id, 0),
                error="a request for one token got status 500" if self.smokes(endpoint.endpoint_id) else "",
                smoke_failures=self.smokes(endpoint.endpoint_id),
                waiting=self.waiting(endpoint.endpoint_id),
                answers=20,
                failures=20 if self.failing(endpoint.endpoint_id) else 0,
                failing=self.failing(endpoint.endpoint_id),
                began_recently=self.began.get(endpoint.endpoint_id, ()),
            )
            for entry in self.entries.values()
            for endpoint in entry.endpoints
        }
        report = ProxyRecord(
            proxy_id=self.name,
            incarnation=1,
            epoch=self.epoch,
            version=self.version,
            reported_ms=0,
            endpoints=observed,
            routes=self.demand,
        )
        await self._store.run(lambda unit: unit.proxies.report(report))


class ServedCluster(OrchestratedCluster):
    """An orchestrated cluster with the coordinators of deployments and routes."""

    def __init__(self, stored: StoredCluster, clock: VirtualClock) -> None:
        super().__init__(stored, clock)
        self.proxy = ScriptedProxy(self.store)
        self.define: Callable[[EngineRequest], EngineDefinition] = define_plainly
        # Why a port is not that of its kernel; None: its agent does not answer.
        self.port_problem: Callable[[Endpoint], str | None] = lambda _endpoint: ""
        self._secrets = count(1)
        self.controller = SchedulingController(
            self.store,
            Submissions(
                self.store,
                ids=SortableIds(clock),
                clock=clock,
                names=lambda: f"name-{next(self._secrets)}",
                secrets=stored.secrets,
            ),
            hints=self.hints,
            dry_runs=DryRuns(SqlSnapshots(self.store)),
        )
        self.deployments, self.routes = self.new_serving()

    @classmethod
    @asynccontextmanager
    async def serve(cls, url: str = "sqlite://", *, agents: int = 1) -> AsyncIterator[ServedCluster]:
        """A cluster with agents and an owner; invariants are checked when it is closed."""
        clock = VirtualClock()
        async with StoredCluster.open(url, clock=clock) as stored:
            cluster = cls(stored, clock)
            await stored.put(
                Domain(OWNER.domain),
                Group(OWNER.group, OWNER.domain),
                User(OWNER.user, OWNER.domain, groups=(OWNER.group,), role=Role.USER),
                Keypair(OWNER.access_key, OWNER.user),
                Image(IMAGE),
            )
            for number in range(agents):
                await cluster.agent(f"a{number}")
            cluster.controller.allow_sharing()
            yield cluster
            for coordinator in (cluster.coordinator, cluster.deployments, cluster.routes):
                await coordinator.close()
            await cluster.check_invariants()

    def new_serving(self, store: Any = None) -> tuple[DeploymentCoordinator, RouteCoordinator]:
        """Coordinators like those of another process, on another store if given."""
        parts = ServingDependencies(
            store=store or self.store,
            leases=self.stored.leases,
            hints=self.hints,
            clock=self.clock,
            telemetry=self.telemetry,
            on_failure=lambda name, error: self.failures.append((name, error)),
        )
        requests = ReplicaRequests(self._define)
        replicas = ReplicaDependencies(
            controller=self.controller,
            requests=requests,
            ids=SortableIds(self.clock),
            secrets=lambda: f"secret-{next(self._secrets)}",
            box=self.stored.secrets,
        )
        holder = f"serving-{next(self._secrets)}"
        return (
            DeploymentCoordinator(parts, replicas, holder=holder),
            RouteCoordinator(
                parts,
                requests,
                holder=holder,
                owners=self._owners,
                tickets=lambda endpoint: f"for-{endpoint.endpoint_id}",
            ),
        )

    async def _owners(self, endpoints: Sequence[Endpoint]) -> dict[str, str]:
        answers = {one.endpoint_id: self.port_problem(one) for one in endpoints}
        return {name: problem for name, problem in answers.items() if problem is not None}

    def _define(self, request: EngineRequest) -> EngineDefinition:
        return self.define(request)

    async def deploy(self, name: str = "chat", **options: Any) -> DeploymentRecord:
        """Store a deployment; options are DeploymentSpec's, and `revision` its revision."""
        revision = options.pop("revision", revision_of())
        replicas = options.pop("replicas", 1)
        bounds = {"replicas_min": replicas, "replicas_max": replicas}
        spec = DeploymentSpec(deployment_id=DeploymentId(f"d-{name}"), name=name, owner=OWNER, **{**bounds, **options})
        return await self.store.run(lambda unit: unit.deployments.create(spec, revision, BY_USER))

    async def deployment(self, name: str = "chat") -> DeploymentRecord:
        """The current record of a deployment."""
        return await self.store.read(lambda unit: unit.deployments.get(DeploymentId(f"d-{name}")))

    async def replicas(self, name: str = "chat") -> list[ReplicaRecord]:
        """The replicas of a deployment that have not ended, by place."""
        return list(await self.store.read(lambda unit: unit.replicas.live(DeploymentId(f"d-{name}"))))

    async def statuses(self, name: str = "chat") -> list[str]:
        """The statuses of the replicas that have not ended, sorted."""
        return sorted(one.status.value for one in await self.replicas(name))

    async def route(self, name: str = "chat") -> RouteRecord | None:
        """The route of a deployment."""
        return await self.store.read(lambda unit: unit.routes.of_deployment(DeploymentId(f"d-{name}")))

    async def rescale(self, replicas: int, name: str = "chat") -> DeploymentRecord:
        """Set both bounds of a deployment."""
        record = await self.deployment(name)
        spec = replace(record.spec, replicas_min=replicas, replicas_max=replicas)
        return await self.store.run(lambda unit: unit.deployments.configure(record, spec, BY_USER))

    async def round(self) -> bool:
        """One report of the proxy, and one cycle of each coordinator."""
        await self.settle()
        await self.proxy.report()
        moved = await self.turn(self.deployments)
        moved |= await self.turn(self.routes)
        await self.settle()
        return moved

    async def turn(self, coordinator: ServingCoordinator) -> bool:
        """One cycle of a coordinator; virtual time advances only while it waits."""
        return await self._driven(coordinator.tick())

    async def converge(self, *, rounds_max: int = 60) -> None:
        """Rounds until nothing changes."""
        for _ in range(rounds_max):
            await self.agents.beat()
            if not await self.round():
                return
        raise AssertionError(f"serving has not settled after {rounds_max} rounds: {self.failures}")

    async def serve_for(self, seconds: float, *, step_s: float = 1.0) -> None:
        """Let time pass, with heartbeats, reports and rounds."""
        for _ in range(round(seconds / step_s)):
            await self.clock.advance(step_s)
            await self.converge()

    async def _driven(self, work: Awaitable[bool]) -> bool:
        task = asyncio.ensure_future(work)
        for _ in range(2_000):
            await asyncio.wait({task}, timeout=0.1)
            if task.done():
                return task.result()
            await self.clock.advance(0.05)
        task.cancel()
        raise AssertionError("a cycle did not end")


def revision_of(**options: Any) -> RevisionSpec:
    """A small revision of an engine that tests define."""
    values: dict[str, Any] = {"variant": "custom", "resources": {"cpu": "1", "mem": "1Gi"}}
    return RevisionSpec(**{**values, **options})
