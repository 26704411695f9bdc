"""Every row of the lifecycles of replicas and rollouts occurs in a served cluster, in virtual time.

Each scenario says which rows it shows, and the histories that it leaves must have them. The
last test compares all of them with the tables: a new row needs a scenario, or a reason.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest

from sokovan.adapters.local.ids import SortableIds
from sokovan.domain.lifecycle.replica import REPLICA
from sokovan.domain.lifecycle.rollout import ROLLOUT, RolloutStatus
from sokovan.domain.serving.engine import EngineDefinition, EngineRequest
from sokovan.domain.serving.records import ReplicaRecord, RevisionTraffic, RolloutRecord, RouteDemand
from sokovan.domain.serving.rollout import RolloutPolicy, RolloutStrategy, WhenFull
from sokovan.domain.session_request import Caller
from sokovan.orchestrator.deployments.controller import DeploymentController
from sokovan.orchestrator.deployments.replica_requests import ReplicaRequests
from sokovan.testing.served_cluster import OWNER, ServedCluster, define_plainly, revision_of

pytestmark = pytest.mark.slow

CALLER = Caller(OWNER, groups=(OWNER.group,))
LARGE = {"cpu": "4", "mem": "1Gi"}  # of 8 cpus: two fit, a third waits
GOOD = RevisionTraffic(served=1000, first_byte_counts=(0, 0, 900))
BAD = RevisionTraffic(served=60, failed=30)


class Row(NamedTuple):
    """One row of a table, by what it begins with."""

    table: str
    before: str
    trigger: str


ROWS = frozenset(
    Row(table.name, move.before.value, move.trigger.value) for table in (REPLICA, ROLLOUT) for move in table.moves
)
# These are in the tables for what stores may hold and managers of other versions may have written.
CANNOT_OCCUR = {
    Row("replica", "starting", "startup_expired"): "the time to start counts from the start of the kernel: WARMING",
    Row("rollout", "awaiting_promotion", "failed"): "a revision that waits for its promotion has no deadline",
}
Scenario = Callable[[ServedCluster], Awaitable[None]]
SCENARIOS: list[tuple[Scenario, frozenset[Row]]] = []


def shows(**claims: str) -> Callable[[Scenario], Scenario]:
    """Say which rows a scenario shows: `replica="pending:enqueued starting:exited"`."""
    rows = frozenset(Row(table, *claim.split(":")) for table, text in claims.items() for claim in text.split())
    assert rows <= ROWS, f"no such rows: {sorted(rows - ROWS)}"

    def add(scenario: Scenario) -> Scenario:
        SCENARIOS.append((scenario, rows))
        return scenario

    return add


async def rows_seen(cluster: ServedCluster) -> set[Row]:
    """The rows in the histories of all replicas and rollouts."""
    key = (await cluster.deployment()).deployment_id
    found = set()
    for replica in await cluster.store.read(lambda unit: unit.replicas.newest(key, limit=100)):
        for line in await cluster.store.read(lambda unit: unit.replicas.history(replica.replica_id)):  # noqa: B023  # awaited here
            found.add(Row("replica", line.before or "", line.trigger))
    for rollout in await cluster.store.read(lambda unit: unit.rollouts.newest(key, limit=100)):
        for line in await cluster.store.read(lambda unit: unit.rollouts.history(rollout.rollout_id)):  # noqa: B023  # awaited here
            found.add(Row("rollout", line.before or "", line.trigger))
    return found & ROWS


def controller_of(cluster: ServedCluster) -> DeploymentController:
    ids = SortableIds(cluster.clock)
    requests = ReplicaRequests(define_plainly)
    return DeploymentController(
        cluster.store, cluster.controller, requests, hints=cluster.hints, ids=ids, secrets=cluster.stored.secrets
    )


async def serving(cluster: ServedCluster, replicas: int = 1, **options: Any) -> list[ReplicaRecord]:
    """A deployment whose replicas serve; these."""
    await cluster.deploy(replicas=replicas, **options)
    await cluster.converge()
    assert await cluster.statuses() == ["active"] * replicas
    return await cluster.replicas()


async def updated(cluster: ServedCluster, **revision: Any) -> None:
    """Begin an update as a user does."""
    record = await cluster.deployment()
    given = revision_of(**{"environment": {"V": "2"}, **revision})
    await controller_of(cluster).update(record.deployment_id, given, CALLER)


async def promoted(cluster: ServedCluster) -> None:
    await controller_of(cluster).promote((await cluster.deployment()).deployment_id, CALLER)


async def aborted_in(cluster: ServedCluster, status: RolloutStatus) -> None:
    """End the rollout as a user does, in a status, and wait for the old revision."""
    assert (await newest(cluster)).status is status
    await controller_of(cluster).roll_back((await cluster.deployment()).deployment_id, CALLER)
    await ends_as(cluster, RolloutStatus.ROLLED_BACK)


async def newest(cluster: ServedCluster) -> RolloutRecord:
    key = (await cluster.deployment()).deployment_id
    return (await cluster.store.read(lambda unit: unit.rollouts.newest(key, limit=1)))[0]


async def ends_as(cluster: ServedCluster, status: RolloutStatus) -> None:
    for _ in range(100):
        if (await newest(cluster)).status is status:
            return
        await cluster.serve_for(4, step_s=2)
    raise AssertionError(f"the rollout is {await newest(cluster)}")


def endpoint_of(replica: ReplicaRecord) -> str:
    assert replica.endpoint is not None
    return replica.endpoint.endpoint_id


async def kernel_ends(cluster: ServedCluster) -> None:
    """The kernel of the only replica ends by itself."""
    [agent] = cluster.agents.all.values()
    [kernel] = agent.running()
    await agent.ends(kernel, code=1)
    await cluster.converge()


def exits_as_second(cluster: ServedCluster) -> None:
    """Kernels of the second revision end at once."""

    def define(request: EngineRequest) -> EngineDefinition:
        plain = define_plainly(request)
        environment = {**request.environment, **plain.environment}
        return EngineDefinition(
            command=plain.command, environment=environment, probe=plain.probe, upstream_model=plain.upstream_model,
            concurrency_max=plain.concurrency_max, image=plain.image,
        )  # fmt: skip

    [agent] = cluster.agents.all.values()
    agent.script.exits = lambda launch: 1 if launch.environment.get("V") == "2" else None
    cluster.define = define


@shows(
    replica="""pending:enqueued starting:kernel_running warming:checks_passed active:drain_requested draining:drained
        stopping:session_ended"""
)
async def a_replica_starts_serves_and_drains(cluster: ServedCluster) -> None:
    await serving(cluster, 2)
    await cluster.rescale(1)
    await cluster.converge()


@shows(replica="pending:refused")
async def no_session_can_have_the_request(cluster: ServedCluster) -> None:
    await cluster.deploy(revision=revision_of(image="absent"))
    await cluster.converge()


@shows(replica="pending:stop_requested")
async def a_replica_is_not_wanted_before_it_has_a_session(cluster: ServedCluster) -> None:
    await cluster.deploy(replicas=1)
    for _ in range(20):
        await cluster.turn(cluster.deployments)
        if await cluster.statuses() == ["pending"]:
            break
    await cluster.rescale(0)
    await cluster.converge()


@shows(replica="starting:stop_requested")
async def a_replica_is_not_wanted_while_it_waits_for_room(cluster: ServedCluster) -> None:
    await cluster.deploy(replicas=3, revision=revision_of(resources=LARGE))
    await cluster.converge()
    assert await cluster.statuses() == ["active", "active", "starting"]
    await cluster.rescale(2)
    await cluster.converge()


@shows(replica="starting:exited")
async def the_session_of_a_replica_is_stopped_while_it_waits_for_room(cluster: ServedCluster) -> None:
    await cluster.deploy(replicas=3, revision=revision_of(resources=LARGE))
    await cluster.converge()
    [waiting] = [one for one in await cluster.replicas() if one.status == "starting"]
    await cluster.stop(str(waiting.session_id))
    await cluster.converge()


@shows(replica="warming:stop_requested")
async def a_replica_is_not_wanted_before_it_is_ready(cluster: ServedCluster) -> None:
    cluster.proxy.health = lambda _endpoint: None
    await cluster.deploy()
    await cluster.converge()
    await cluster.rescale(0)
    await cluster.converge()


@shows(replica="warming:exited")
async def an_engine_ends_before_it_is_ready(cluster: ServedCluster) -> None:
    cluster.proxy.health = lambda _endpoint: None
    await cluster.deploy()
    await cluster.converge()
    assert await cluster.statuses() == ["warming"]
    await kernel_ends(cluster)


@shows(replica="warming:startup_expired")
async def an_engine_is_not_ready_in_time(cluster: ServedCluster) -> None:
    cluster.proxy.health = lambda _endpoint: False
    await cluster.deploy(revision=revision_of(startup_timeout_s=60))
    await cluster.serve_for(65, step_s=5)


@shows(replica="active:exited")
async def an_engine_ends_while_it_serves(cluster: ServedCluster) -> None:
    await serving(cluster)
    await kernel_ends(cluster)


@shows(replica="active:checks_failed unhealthy:checks_passed")
async def a_replica_recovers_in_time(cluster: ServedCluster) -> None:
    await serving(cluster)
    cluster.proxy.health = lambda _endpoint: False
    await cluster.serve_for(20, step_s=5)
    cluster.proxy.health = lambda _endpoint: True
    await cluster.serve_for(20, step_s=5)
    assert await cluster.statuses() == ["active"]


@shows(replica="unhealthy:replaced")
async def a_replica_stays_unhealthy(cluster: ServedCluster) -> None:
    sick = endpoint_of((await serving(cluster, 2))[0])
    cluster.proxy.health = lambda endpoint: endpoint != sick
    await cluster.serve_for(35, step_s=5)


@shows(replica="unhealthy:exited")
async def an_engine_ends_after_its_checks_failed(cluster: ServedCluster) -> None:
    await serving(cluster)
    cluster.proxy.health = lambda _endpoint: False
    await cluster.converge()
    assert await cluster.statuses() == ["unhealthy"]
    await kernel_ends(cluster)


@shows(replica="unhealthy:drain_requested draining:replaced")
async def a_replica_fails_its_answers_and_not_its_checks(cluster: ServedCluster) -> None:
    sick = endpoint_of((await serving(cluster, 2))[0])
    cluster.proxy.failing = lambda endpoint: endpoint == sick
    await cluster.serve_for(60, step_s=5)


async def draining(cluster: ServedCluster) -> ReplicaRecord:
    """A replica that drains, and waits for the request that it has."""
    [replica] = await serving(cluster)
    cluster.proxy.outstanding[endpoint_of(replica)] = 1
    await cluster.rescale(0)
    await cluster.converge()
    assert await cluster.statuses() == ["draining"]
    return replica


@shows(replica="draining:drain_expired")
async def a_request_takes_longer_than_a_drain(cluster: ServedCluster) -> None:
    await draining(cluster)
    await cluster.serve_for(310, step_s=10)


@shows(replica="draining:session_ended")
async def an_engine_ends_while_it_drains(cluster: ServedCluster) -> None:
    await draining(cluster)
    await kernel_ends(cluster)


@shows(rollout="planning:planned progressing:finished")
async def a_rolling_update_completes(cluster: ServedCluster) -> None:
    await serving(cluster, 2)
    await updated(cluster)
    await ends_as(cluster, RolloutStatus.COMPLETED)


CANARY = RolloutPolicy(strategy=RolloutStrategy.CANARY, steps=(25, 100), hold_s=20)
BLUE_GREEN = RolloutPolicy(strategy=RolloutStrategy.BLUE_GREEN, keep_s=30)


@shows(rollout="progressing:stepped")
async def a_canary_takes_its_steps(cluster: ServedCluster) -> None:
    await serving(cluster, 2, rollout=CANARY)
    await updated(cluster)
    await ends_as(cluster, RolloutStatus.COMPLETED)


@shows(rollout="progressing:promoted promoting:finished")
async def a_canary_is_promoted_before_its_last_step(cluster: ServedCluster) -> None:
    await serving(cluster, 2, rollout=CANARY)
    await updated(cluster)
    await cluster.serve_for(12)
    await promoted(cluster)
    await ends_as(cluster, RolloutStatus.COMPLETED)


@shows(rollout="progressing:promotion_due awaiting_promotion:promoted")
async def a_green_revision_is_promoted(cluster: ServedCluster) -> None:
    await serving(cluster, 2, rollout=BLUE_GREEN)
    await updated(cluster)
    await cluster.serve_for(15)
    await promoted(cluster)
    await ends_as(cluster, RolloutStatus.COMPLETED)


@shows(rollout="planning:aborted rolling_back:restored")
async def an_update_that_waits_for_room_is_aborted(cluster: ServedCluster) -> None:
    policy = RolloutPolicy(when_full=WhenFull.WAIT)
    await serving(cluster, 2, revision=revision_of(resources=LARGE), rollout=policy)
    await updated(cluster, resources=LARGE)
    await cluster.serve_for(3)
    await aborted_in(cluster, RolloutStatus.PLANNING)


@shows(rollout="progressing:aborted")
async def an_update_is_aborted(cluster: ServedCluster) -> None:
    await serving(cluster, 2)
    await updated(cluster)
    await cluster.serve_for(3)
    await aborted_in(cluster, RolloutStatus.PROGRESSING)


@shows(rollout="awaiting_promotion:aborted")
async def a_green_revision_is_aborted(cluster: ServedCluster) -> None:
    await serving(cluster, 2, rollout=BLUE_GREEN)
    await updated(cluster)
    await cluster.serve_for(15)
    await aborted_in(cluster, RolloutStatus.AWAITING_PROMOTION)


@shows(rollout="promoting:aborted")
async def a_green_revision_is_aborted_after_its_promotion(cluster: ServedCluster) -> None:
    await serving(cluster, 2, rollout=BLUE_GREEN)
    await updated(cluster)
    await cluster.serve_for(15)
    await promoted(cluster)
    await cluster.serve_for(3)
    await aborted_in(cluster, RolloutStatus.PROMOTING)


@shows(rollout="planning:failed")
async def an_update_has_no_room(cluster: ServedCluster) -> None:
    policy = RolloutPolicy(when_full=WhenFull.FAIL)
    await serving(cluster, 2, revision=revision_of(resources=LARGE), rollout=policy)
    await updated(cluster, resources=LARGE)
    await ends_as(cluster, RolloutStatus.ROLLED_BACK)


@shows(rollout="progressing:failed")
async def a_new_revision_crashes(cluster: ServedCluster) -> None:
    await serving(cluster, 2)
    exits_as_second(cluster)
    await updated(cluster)
    await ends_as(cluster, RolloutStatus.ROLLED_BACK)


@shows(rollout="promoting:failed")
async def a_green_revision_serves_worse_after_its_promotion(cluster: ServedCluster) -> None:
    await serving(cluster, 2, rollout=BLUE_GREEN)
    await updated(cluster)
    await cluster.serve_for(15)
    await promoted(cluster)
    await cluster.serve_for(3)
    cluster.proxy.demand = {"d-chat": RouteDemand(revisions={"1": GOOD, "2": BAD})}
    await ends_as(cluster, RolloutStatus.ROLLED_BACK)


@pytest.mark.parametrize(("scenario", "rows"), SCENARIOS, ids=[scenario.__name__ for scenario, _ in SCENARIOS])
async def test_a_scenario_shows_the_rows_that_it_claims(scenario: Scenario, rows: frozenset[Row]) -> None:
    async with ServedCluster.serve() as cluster:
        await scenario(cluster)
        seen = await rows_seen(cluster)
    assert rows <= seen, f"not shown: {sorted(rows - seen)}; shown: {sorted(seen)}"
    assert sorted(seen & CANNOT_OCCUR.keys()) == []


def test_every_row_is_shown_by_a_scenario_or_cannot_occur() -> None:
    claimed = frozenset[Row]().union(*(rows for _, rows in SCENARIOS))
    assert sorted(ROWS - claimed - CANNOT_OCCUR.keys()) == []
    assert sorted(claimed & CANNOT_OCCUR.keys()) == []
    assert CANNOT_OCCUR.keys() <= ROWS
