"""Contract of `ports.repositories.serving`: deployments, replicas, rollouts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeAlias

from sokovan.domain.errors import (
    Conflict,
    ForbiddenCause,
    IdempotencyConflict,
    IllegalTransition,
    InvalidSpec,
    ObjectNotFound,
    StaleVersion,
)
from sokovan.domain.ids import (
    AccessKey,
    AgentId,
    DeploymentId,
    KernelId,
    ReplicaId,
    RouteId,
    ScalingGroupName,
    SessionId,
)
from sokovan.domain.lifecycle.deployment import DeploymentStatus, DeploymentTrigger
from sokovan.domain.lifecycle.replica import ReplicaPlace, ReplicaStatus, ReplicaTrigger
from sokovan.domain.lifecycle.rollout import RolloutStatus, RolloutTrigger
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.records import Change, HistoryEntry
from sokovan.domain.serving.deployment import DeploymentAccess, DeploymentSpec
from sokovan.domain.serving.engine import Probe, RoutingPolicy
from sokovan.domain.serving.records import DeploymentRecord, ReplicaRecord, RolloutRecord
from sokovan.domain.serving.replica import Endpoint
from sokovan.domain.serving.revision import RequestLimits, RevisionSpec
from sokovan.domain.serving.rollout import RolloutPolicy, RolloutStrategy
from sokovan.domain.serving.route import RouteSpec
from sokovan.domain.serving.scaling import ScalingMetric, ScalingPolicy
from sokovan.domain.session import Mount
from sokovan.ports.repositories.serving import DeploymentFilter
from sokovan.ports.repositories.sessions import RequestKey
from sokovan.ports.storage import StoreRetention
from sokovan.testing.contracts import expect
from sokovan.testing.stored_cluster import BY_COORDINATOR, BY_USER, StoredCluster, refusal

Check: TypeAlias = Callable[[StoredCluster], Awaitable[None]]
_D, _P, _R = DeploymentTrigger, ReplicaTrigger, RolloutTrigger


def deployment_spec(cluster: StoredCluster, **options: Any) -> DeploymentSpec:
    """A deployment with all fields."""
    name = cluster.new("d")
    values: dict[str, Any] = {
        "deployment_id": DeploymentId(name),
        "name": name,
        "model_names": ("meta/llama:70b", "llama"),
        "owner": Owner(f"u-{name}", f"g-{name}", "d", AccessKey("k")),
        "access": DeploymentAccess.PROJECT,
        "replicas_min": 2,
        "replicas_max": 5,
        "scaling": ScalingPolicy(metric=ScalingMetric.CONCURRENCY, target=7),
        "rollout": RolloutPolicy(strategy=RolloutStrategy.CANARY, steps=(10, 100)),
        "routing": RoutingPolicy.STICKY,
        "priority": 3,
    }
    return DeploymentSpec(**{**values, **options})


def revision_spec(**options: Any) -> RevisionSpec:
    """A revision with all fields."""
    values: dict[str, Any] = {
        "variant": "vllm",
        "model": "meta/llama",
        "arguments": ("--max-model-len", "1 2"),
        "resources": {"cpu": "2", "mem": "4Gi"},
        "kernels": 2,
        "mounts": (Mount("/data", "/models"),),
        "environment": {"NAME": "' \" \\ %s :x"},
        "probe": Probe(path="/v1/health"),
        "concurrency_max": 9,
        "limits": RequestLimits(queued_max=5),
    }
    return RevisionSpec(**{**values, **options})


async def created(
    cluster: StoredCluster, spec: DeploymentSpec | None = None, *, request: RequestKey | None = None
) -> DeploymentRecord:
    """A new deployment."""
    wanted = spec or deployment_spec(cluster)
    return await cluster.store.run(
        lambda unit: unit.deployments.create(wanted, revision_spec(), BY_USER, request=request)
    )


async def deployment_now(cluster: StoredCluster, name: str) -> DeploymentRecord:
    """The current record of a deployment."""
    return await cluster.store.read(lambda unit: unit.deployments.get(DeploymentId(name)))


async def scaled(cluster: StoredCluster, record: DeploymentRecord, replicas: int) -> DeploymentRecord:
    """Set another number of replicas."""
    return await cluster.store.run(lambda unit: unit.deployments.scale(record, replicas, BY_COORDINATOR))


async def moved(
    cluster: StoredCluster, record: DeploymentRecord, trigger: DeploymentTrigger, change: Change = BY_COORDINATOR
) -> DeploymentRecord:
    """Move a deployment from the given record."""
    return await cluster.store.run(lambda unit: unit.deployments.move(record, trigger, change))


async def _count(cluster: StoredCluster, user: str) -> int:
    return await cluster.store.read(lambda unit: unit.deployments.count(user))


async def replicated(
    cluster: StoredCluster, deployment_id: DeploymentId, ordinal: int = 0, attempt: int = 1
) -> ReplicaRecord:
    """A new replica of revision 1."""
    place = ReplicaPlace(deployment_id, 1, ordinal, attempt)
    replica_id = ReplicaId(cluster.new("replica"))
    return await cluster.store.run(lambda unit: unit.replicas.create(replica_id, place, "secret", BY_COORDINATOR))


async def replica_moved(
    cluster: StoredCluster, record: ReplicaRecord, trigger: ReplicaTrigger, **options: Any
) -> ReplicaRecord:
    """Move a replica from the given record."""
    change = options.pop("change", BY_COORDINATOR)
    return await cluster.store.run(lambda unit: unit.replicas.move(record, trigger, change, **options))


async def rolled(cluster: StoredCluster, deployment_id: DeploymentId) -> RolloutRecord:
    """A new rollout."""
    rollout = RolloutRecord(
        rollout_id=cluster.new("rollout"),
        deployment_id=deployment_id,
        revision_from=1,
        revision_to=2,
        strategy=RolloutStrategy.ROLLING,
        status=RolloutStatus.PLANNING,
        version=1,
        surge=1,
        unavailable=0,
    )
    return await cluster.store.run(lambda unit: unit.rollouts.create(rollout, BY_USER))


async def rollout_moved(
    cluster: StoredCluster, record: RolloutRecord, trigger: RolloutTrigger, change: Change = BY_COORDINATOR
) -> RolloutRecord:
    """Move a rollout from the given record."""
    return await cluster.store.run(lambda unit: unit.rollouts.move(record, trigger, change))


def is_whole(entries: Sequence[HistoryEntry]) -> bool:
    """Whether a history is gapless and chained."""
    chained = all(one.after == two.before for one, two in pairwise(entries))
    return chained and [entry.sequence for entry in entries] == list(range(1, len(entries) + 1))


async def a_new_deployment_is_pending_with_its_spec(cluster: StoredCluster) -> None:
    """All fields are stored, and its first revision."""
    spec = deployment_spec(cluster)
    record = await created(cluster, spec)
    expect((record.spec, record.status) == (spec, DeploymentStatus.PENDING), "it is not the requested deployment")
    expect((record.replicas_desired, record.revision) == (2, 1), "it does not desire its least number of replicas")
    expect(await deployment_now(cluster, spec.deployment_id) == record, "create gave another record than get")
    found = await cluster.store.read(lambda unit: unit.deployments.revision(spec.deployment_id, 1))
    expect(found.spec == revision_spec(), "the first revision is not the requested one")


async def a_name_is_unique_in_a_project_until_the_end(cluster: StoredCluster) -> None:
    """Conflict; nothing is changed; afterwards the name is free."""
    record = await created(cluster)
    again = replace(record.spec, deployment_id=DeploymentId(cluster.new("d")))
    await refusal(created(cluster, again), Conflict)
    owner = replace(again.owner, group=cluster.new("g"))
    elsewhere = replace(again, deployment_id=DeploymentId(cluster.new("d")), owner=owner)
    await created(cluster, elsewhere)
    destroying = await moved(cluster, record, _D.DELETE_REQUESTED, BY_USER)
    await refusal(created(cluster, again), Conflict)
    await moved(cluster, destroying, _D.REPLICAS_GONE)
    await created(cluster, again)


async def a_deployment_needs_a_scaling_group_that_exists(cluster: StoredCluster) -> None:
    """ObjectNotFound; nothing is stored."""
    astray = deployment_spec(cluster, scaling_group=ScalingGroupName(cluster.new("group")))
    await refusal(created(cluster, astray), ObjectNotFound)
    await refusal(deployment_now(cluster, astray.deployment_id), ObjectNotFound)


async def the_same_request_creates_one_deployment(cluster: StoredCluster) -> None:
    """Another request with its key is refused."""
    key = RequestKey("k", cluster.new("key"), "digest")
    record = await created(cluster, request=key)
    expect(await created(cluster, request=key) == record, "the same request created another deployment")
    await refusal(created(cluster, request=replace(key, digest="other")), IdempotencyConflict)


async def configuring_keeps_the_desired_number(cluster: StoredCluster) -> None:
    """Bounds are the user's, the number between them the coordinator's."""
    record = await created(cluster)
    wider = replace(record.spec, replicas_min=0, replicas_max=9)
    after = await cluster.store.run(lambda unit: unit.deployments.configure(record, wider, BY_USER))
    expect((after.spec, after.replicas_desired) == (wider, 2), f"it is {after}")
    expect(after.version == record.version + 1, "the version is the same")
    await refusal(cluster.store.run(lambda unit: unit.deployments.configure(record, wider, BY_USER)), StaleVersion)


async def scaling_is_for_coordinators(cluster: StoredCluster) -> None:
    """They write the desired number; a controller is refused."""
    record = await created(cluster)
    for replicas in (5, 0, 3):
        record = await scaled(cluster, record, replicas)
        expect(record.replicas_desired == replicas, f"{record.replicas_desired} are desired")
    await refusal(cluster.store.run(lambda unit: unit.deployments.scale(record, 1, BY_USER)), ForbiddenCause)


async def of_concurrent_writers_one_succeeds(cluster: StoredCluster) -> None:
    """The others have a stale version."""
    record = await created(cluster)
    attempts = [scaled(cluster, record, replicas) for replicas in range(3, 7)]
    results = await asyncio.gather(*attempts, return_exceptions=True)
    lost = [result for result in results if isinstance(result, StaleVersion)]
    expect(len(lost) == 3, f"of four writers on one version {4 - len(lost)} won")
    [winner] = [result for result in results if isinstance(result, DeploymentRecord)]
    expect(await deployment_now(cluster, record.deployment_id) == winner, "a writer that lost wrote")


async def a_deployment_takes_only_legal_moves(cluster: StoredCluster) -> None:
    """By permitted causes, on the current version."""
    first = await created(cluster)
    await refusal(moved(cluster, first, _D.REPLICAS_HEALTHY), IllegalTransition)
    await refusal(moved(cluster, first, _D.DELETE_REQUESTED), ForbiddenCause)
    second = await moved(cluster, first, _D.REPLICAS_REQUESTED)
    await refusal(moved(cluster, first, _D.REPLICAS_REQUESTED), StaleVersion)
    running = await moved(cluster, second, _D.REPLICAS_HEALTHY)
    expect(running.status is DeploymentStatus.RUNNING, f"it is {running.status}")
    reason = Change("coordinator", BY_COORDINATOR.by, code="waits")
    for _ in range(2):
        await cluster.store.run(lambda unit: unit.deployments.note(first.deployment_id, reason))
    entries = await cluster.store.read(lambda unit: unit.deployments.history(first.deployment_id))
    triggers = [entry.trigger for entry in entries]
    expect(triggers == ["created", "replicas_requested", "replicas_healthy", "noted"], f"the history is {triggers}")
    expect(entries[-1].times == 2, "a repeated reason was not counted")
    expect(is_whole(entries), "the history has a gap or is not chained")
    events = await cluster.store.read(lambda unit: unit.deployments.events(first.deployment_id, limit=2))
    expect([entry for _, entry in events] == list(entries[-2:]), "the last events are others")


async def deployments_beyond_their_retention_are_removed(cluster: StoredCluster) -> None:
    """With all that belongs to them; one that has not ended stays."""
    old, lives = await created(cluster), await created(cluster)
    replica = await replicated(cluster, old.deployment_id)
    await replica_moved(cluster, replica, ReplicaTrigger.REFUSED)
    route = RouteSpec(RouteId(cluster.new("r")), old.deployment_id)
    await cluster.store.run(lambda unit: unit.routes.create(route, BY_COORDINATOR))
    destroying = await moved(cluster, old, _D.DELETE_REQUESTED, BY_USER)
    await moved(cluster, destroying, _D.REPLICAS_GONE)
    await cluster.elapse(1.5)
    while await cluster.store.expire(StoreRetention(sessions_s=0, audit_s=0, deployments_s=1)):
        pass
    await refusal(deployment_now(cluster, old.deployment_id), ObjectNotFound)
    await refusal(cluster.store.read(lambda unit: unit.replicas.get(replica.replica_id)), ObjectNotFound)
    await refusal(cluster.store.read(lambda unit: unit.routes.get(route.route_id)), ObjectNotFound)
    expect(await cluster.store.read(lambda unit: unit.deployments.revisions(old.deployment_id)) == [], "revisions stay")
    expect((await deployment_now(cluster, lives.deployment_id)).spec == lives.spec, "a living one was removed")


async def an_ended_deployment_is_not_live(cluster: StoredCluster) -> None:
    """Live ones are listed by id; a final status is never left."""
    gone, stays = await created(cluster), await created(cluster)
    destroying = await moved(cluster, gone, _D.DELETE_REQUESTED, BY_USER)
    await refusal(scaled(cluster, destroying, 1), IllegalTransition)
    ended = await moved(cluster, destroying, _D.REPLICAS_GONE)
    expect(ended.ended_ms is not None, "its end has no time")
    for trigger in _D:
        await refusal(moved(cluster, ended, trigger, BY_USER), IllegalTransition)
    names = [one.deployment_id for one in await cluster.store.read(lambda unit: unit.deployments.live())]
    expect(stays.deployment_id in names and gone.deployment_id not in names, "the list is wrong")
    expect(names == sorted(names), "deployments are not listed by id")
    users = [one.spec.owner.user for one in (gone, stays)]
    counts = [await _count(cluster, user) for user in users]
    expect(counts == [0, 1], f"live deployments are counted as {counts}")


async def deployments_are_listed_newest_first(cluster: StoredCluster) -> None:
    """Page by page, within the filter."""
    owner = Owner(cluster.new("u"), cluster.new("g"))
    records = [await created(cluster, deployment_spec(cluster, owner=owner)) for _ in range(3)]
    await created(cluster)
    wanted = DeploymentFilter(user=owner.user)
    first = await cluster.store.read(lambda unit: unit.deployments.page(wanted, limit=2))
    rest = await cluster.store.read(lambda unit: unit.deployments.page(wanted, limit=2, after=first[-1].place))
    expect([*first, *rest] == records[::-1], "the pages are wrong")


async def a_text_names_a_deployment(cluster: StoredCluster) -> None:
    """By id, or by name: a live one before one that has ended; others are not seen."""
    record = await created(
        cluster, deployment_spec(cluster, name="chat", owner=Owner(cluster.new("u"), cluster.new("g")))
    )
    mine = DeploymentFilter(user=record.spec.owner.user)

    async def named(text: str, wanted: DeploymentFilter = mine) -> Sequence[DeploymentRecord]:
        return await cluster.store.read(lambda unit: unit.deployments.named(text, wanted))

    for text in (record.deployment_id, "chat"):
        expect(list(await named(text)) == [record], f"{text} does not name it")
    for text, wanted in (("chat", DeploymentFilter(user="nobody")), ("no such", mine), ("\0", mine)):
        expect(list(await named(text, wanted)) == [], f"{text!r} names something")
    ended = await moved(cluster, await moved(cluster, record, _D.DELETE_REQUESTED, BY_USER), _D.REPLICAS_GONE)
    expect(list(await named("chat")) == [ended], "the ended one is not found by name")


async def revisions_are_numbered_and_activated(cluster: StoredCluster) -> None:
    """A new one is not current before it is activated."""
    record = await created(cluster)
    other = revision_spec(model="other")
    second = await cluster.store.run(lambda unit: unit.deployments.add_revision(record, other, BY_USER))
    expect((second.number, second.spec) == (2, other), f"the revision is {second}")
    await refusal(cluster.store.run(lambda unit: unit.deployments.add_revision(record, other, BY_USER)), StaleVersion)
    now = await deployment_now(cluster, record.deployment_id)
    expect(now.revision == 1, "a revision that was only added is current")
    provisioning = await moved(cluster, now, _D.REPLICAS_REQUESTED)
    after = await cluster.store.run(lambda unit: unit.deployments.activate(provisioning, 2, BY_COORDINATOR))
    expect(after.revision == 2, "the revision was not activated")
    found = await cluster.store.read(lambda unit: unit.deployments.revisions(record.deployment_id))
    expect([one.number for one in found] == [1, 2], "the revisions are not listed by number")
    await refusal(cluster.store.read(lambda unit: unit.deployments.revision(record.deployment_id, 3)), ObjectNotFound)


async def a_missing_object_is_not_found(cluster: StoredCluster) -> None:
    """ObjectNotFound."""
    record = await created(cluster)
    stranger = replace(record, spec=deployment_spec(cluster))
    await refusal(deployment_now(cluster, stranger.deployment_id), ObjectNotFound)
    await refusal(moved(cluster, stranger, _D.REPLICAS_REQUESTED), ObjectNotFound)
    absent = ReplicaId(cluster.new("replica"))
    await refusal(cluster.store.read(lambda unit: unit.replicas.get(absent)), ObjectNotFound)


async def a_place_has_each_attempt_once(cluster: StoredCluster) -> None:
    """Conflict; the last attempt at each place is known."""
    deployment = (await created(cluster)).deployment_id
    first = await replicated(cluster, deployment)
    expect((first.status, first.place.attempt) == (ReplicaStatus.PENDING, 1), "it is not new")
    await refusal(replicated(cluster, deployment), Conflict)
    await replicated(cluster, deployment, attempt=2)
    await replicated(cluster, deployment, ordinal=1)
    attempts = await cluster.store.read(lambda unit: unit.replicas.attempts(deployment))
    expect(attempts == {(1, 0): 2, (1, 1): 1}, f"the attempts are {attempts}")


async def a_replica_keeps_what_its_moves_bring(cluster: StoredCluster) -> None:
    """Session, endpoint and reason; a stale writer fails."""
    first = await replicated(cluster, (await created(cluster)).deployment_id)
    await refusal(replica_moved(cluster, first, _P.CHECKS_PASSED), IllegalTransition)
    second = await replica_moved(cluster, first, _P.ENQUEUED, session_id=SessionId("s1"))
    await refusal(replica_moved(cluster, first, _P.ENQUEUED), StaleVersion)
    endpoint = Endpoint(KernelId("k1"), 1, AgentId("a1"), 8000)
    third = await replica_moved(cluster, second, _P.KERNEL_RUNNING, endpoint=endpoint)
    failed = await replica_moved(cluster, third, _P.EXITED, change=Change("c", BY_COORDINATOR.by, "exit", "code 1"))
    expect((failed.session_id, failed.endpoint) == ("s1", endpoint), "session or endpoint is lost")
    expect((failed.status, failed.reason_code, failed.reason) == (ReplicaStatus.FAILED, "exit", "code 1"), "no reason")
    entries = await cluster.store.read(lambda unit: unit.replicas.history(first.replica_id))
    expect(is_whole(entries) and len(entries) == 4, "the history has a gap or is not chained")


async def ended_replicas_are_not_live(cluster: StoredCluster) -> None:
    """Failures are found by deployment and revision, the newest replicas by time."""
    deployment = (await created(cluster)).deployment_id
    failed, lives = await replicated(cluster, deployment), await replicated(cluster, deployment, ordinal=1)
    failed = await replica_moved(cluster, failed, _P.REFUSED)
    found = await cluster.store.read(lambda unit: unit.replicas.live(deployment))
    expect(list(found) == [lives], "the live replicas are wrong")
    everywhere = await cluster.store.read(lambda unit: unit.replicas.live())
    expect(lives in everywhere and failed not in everywhere, "the live replicas of all deployments are wrong")
    failures = await cluster.store.read(lambda unit: unit.replicas.failures(since_ms=failed.since_ms))
    expect(list(failures[deployment, 1]) == [failed], "the failure is not found")
    later = await cluster.store.read(lambda unit: unit.replicas.failures(since_ms=failed.since_ms + 1))
    expect((deployment, 1) not in later, "an old failure is found")
    newest = await cluster.store.read(lambda unit: unit.replicas.newest(deployment, limit=5))
    expect({one.replica_id for one in newest} == {failed.replica_id, lives.replica_id}, "some replicas are missing")


async def old_replicas_expire_but_not_the_last_attempt(cluster: StoredCluster) -> None:
    """An attempt is never numbered again."""
    deployment = (await created(cluster)).deployment_id
    records = [await replicated(cluster, deployment, attempt=attempt) for attempt in (1, 2)]
    for record in records:
        await replica_moved(cluster, record, _P.REFUSED)
    later_ms = records[0].since_ms + 3_600_000
    await cluster.store.run(lambda unit: unit.replicas.expire(before_ms=later_ms, limit=1000))
    left = await cluster.store.read(lambda unit: unit.replicas.newest(deployment, limit=5))
    expect([one.place.attempt for one in left] == [2], f"left are {left}")


async def a_deployment_has_one_rollout_at_a_time(cluster: StoredCluster) -> None:
    """Conflict until the first has ended; its progress is stored."""
    deployment = (await created(cluster)).deployment_id
    first = await rolled(cluster, deployment)
    expect(first.status is RolloutStatus.PLANNING and first.surge == 1, "it is not the requested rollout")
    await refusal(rolled(cluster, deployment), Conflict)
    second = await rollout_moved(cluster, replace(first, unavailable=1), _R.PLANNED)
    await refusal(rollout_moved(cluster, first, _R.PLANNED), StaleVersion)
    weighed = await cluster.store.run(lambda unit: unit.rollouts.progress(replace(second, weight_new=40)))
    expect((weighed.unavailable, weighed.weight_new) == (1, 40), f"the progress is {weighed}")
    live = await cluster.store.read(lambda unit: unit.rollouts.live(deployment))
    expect(list(live) == [weighed], "the live rollout is not found")
    back = await rollout_moved(cluster, weighed, _R.ABORTED, Change("u", BY_USER.by, "aborted", "by hand"))
    ended = await rollout_moved(cluster, back, _R.RESTORED)
    expect((ended.status, ended.reason) == (RolloutStatus.ROLLED_BACK, "by hand"), f"it is {ended}")
    again = await rolled(cluster, deployment)
    newest = await cluster.store.read(lambda unit: unit.rollouts.newest(deployment, limit=5))
    expect({one.rollout_id for one in newest} == {again.rollout_id, ended.rollout_id}, "a rollout is missing")
    entries = await cluster.store.read(lambda unit: unit.rollouts.history(first.rollout_id))
    expect(is_whole(entries) and len(entries) == 4, "the history has a gap or is not chained")


async def bounds_are_checked(cluster: StoredCluster) -> None:
    """Replicas within bounds that are in order."""
    for bounds in ({"replicas_min": -1}, {"replicas_min": 3, "replicas_max": 2}, {"replicas_max": 10**9}):
        try:
            deployment_spec(cluster, **bounds)
        except InvalidSpec:
            continue
        expect(False, f"{bounds} were accepted")  # noqa: FBT003  # an expectation that fails


CHECKS: tuple[Check, ...] = (
    a_new_deployment_is_pending_with_its_spec,
    a_name_is_unique_in_a_project_until_the_end,
    a_deployment_needs_a_scaling_group_that_exists,
    the_same_request_creates_one_deployment,
    configuring_keeps_the_desired_number,
    scaling_is_for_coordinators,
    of_concurrent_writers_one_succeeds,
    a_deployment_takes_only_legal_moves,
    an_ended_deployment_is_not_live,
    deployments_beyond_their_retention_are_removed,
    deployments_are_listed_newest_first,
    a_text_names_a_deployment,
    revisions_are_numbered_and_activated,
    a_missing_object_is_not_found,
    a_place_has_each_attempt_once,
    a_replica_keeps_what_its_moves_bring,
    ended_replicas_are_not_live,
    old_replicas_expire_but_not_the_last_attempt,
    a_deployment_has_one_rollout_at_a_time,
    bounds_are_checked,
)
