"""Intent of users about deployments: validated, owned, audited, idempotent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sokovan.adapters.local.ids import SortableIds
from sokovan.domain.errors import Conflict, IdempotencyConflict, InvalidSpec, ObjectNotFound
from sokovan.domain.ids import AccessKey, DeploymentId
from sokovan.domain.lifecycle.rollout import RolloutStatus, RolloutTrigger
from sokovan.domain.owners.tenancy import Owner, Role
from sokovan.domain.problems import InvalidRequest
from sokovan.domain.serving.deployment import DeploymentSpec
from sokovan.domain.serving.engine import EngineDefinition, EngineRequest, UnknownEngine
from sokovan.domain.serving.records import RolloutRecord
from sokovan.domain.serving.rollout import RolloutPolicy, RolloutStrategy
from sokovan.domain.session_request import Caller
from sokovan.orchestrator.deployments import controller as deployment_controller
from sokovan.orchestrator.deployments.controller import DeploymentController
from sokovan.orchestrator.deployments.replica_requests import ReplicaRequests
from sokovan.ports.storage import UnitOfWork
from sokovan.testing.served_cluster import OWNER, ServedCluster, define_plainly, revision_of
from sokovan.testing.stored_cluster import BY_COORDINATOR, BY_USER

pytestmark = pytest.mark.slow

CALLER = Caller(OWNER, groups=(OWNER.group,))
STRANGER = Caller(Owner("stranger", OWNER.group, OWNER.domain, AccessKey("other")))


def controller_of(cluster: ServedCluster) -> DeploymentController:
    requests = ReplicaRequests(define_plainly)
    ids = SortableIds(cluster.clock)
    return DeploymentController(
        cluster.store, cluster.controller, requests, hints=cluster.hints, ids=ids, secrets=cluster.stored.secrets
    )


def wanted(**options: Any) -> DeploymentSpec:
    return DeploymentSpec(**{"deployment_id": DeploymentId("new"), "name": "chat", "owner": OWNER, **options})


async def actions(cluster: ServedCluster) -> list[str]:
    entries = await cluster.store.read(lambda unit: unit.audit.page(limit=50))
    return [entry.action for _, _, entry in entries if entry.action.startswith("deployment")]


async def test_a_deployment_is_created_once_per_key() -> None:
    async with ServedCluster.serve() as cluster:
        controller = controller_of(cluster)
        first = await controller.create(wanted(), revision_of(), CALLER, key="k")
        again = await controller.create(wanted(), revision_of(), CALLER, key="k")
        assert (first.fresh, again.fresh) == (True, False)
        assert again.deployment == first.deployment
        with pytest.raises(IdempotencyConflict):
            await controller.create(wanted(replicas_max=2), revision_of(), CALLER, key="k")
        with pytest.raises(Conflict, match="has a deployment 'chat' already"):
            await controller.create(wanted(), revision_of(), CALLER)
        assert await actions(cluster) == ["deployment.create"]
        assert await cluster.hints.take("deployments")


async def test_applying_creates_changes_and_then_leaves_alone() -> None:
    async with ServedCluster.serve() as cluster:
        controller = controller_of(cluster)
        created = await controller.apply(wanted(), revision_of(), CALLER)
        same = await controller.apply(wanted(), revision_of(), CALLER)
        bounds = await controller.apply(wanted(replicas_max=3), revision_of(), CALLER)
        changed = await controller.apply(wanted(replicas_max=3), revision_of(model="b/c"), CALLER)
        again = await controller.apply(wanted(replicas_max=3), revision_of(model="b/c"), CALLER)
        outcomes = [one.outcome for one in (created, same, bounds, changed, again)]
        assert outcomes == ["created", "unchanged", "updated", "updated", "unchanged"]
        key = created.deployment.deployment_id
        assert {one.deployment.deployment_id for one in (same, bounds, changed, again)} == {key}
        assert again.deployment.spec.replicas_max == 3
        revisions = await cluster.store.read(lambda unit: unit.deployments.revisions(key))
        assert [one.spec.model for one in revisions] == [revision_of().model, "b/c"]
        with pytest.raises(Conflict, match="rollout"):
            await controller.apply(wanted(replicas_max=3), revision_of(model="c/d"), CALLER)
        assert await actions(cluster) == ["deployment.create", "deployment.configure", "deployment.update"]


async def test_applying_the_same_secrets_changes_nothing_and_others_do() -> None:
    async with ServedCluster.serve() as cluster:
        controller = controller_of(cluster)
        revision = revision_of(secrets=("TOKEN",))
        outcomes = [
            (await controller.apply(wanted(), revision, CALLER, secrets={"TOKEN": value})).outcome
            for value in ("one", "one", None, "two")
        ]
        assert outcomes == ["created", "unchanged", "unchanged", "updated"]


async def test_a_deployment_of_another_user_or_in_deletion_is_not_applied_over() -> None:
    async with ServedCluster.serve() as cluster:
        controller = controller_of(cluster)
        key = (await controller.apply(wanted(), revision_of(), CALLER)).deployment.deployment_id
        with pytest.raises(Conflict, match="has a deployment 'chat' already"):
            await controller.apply(wanted(owner=STRANGER.owner), revision_of(), STRANGER)
        await controller.delete(key, CALLER)
        with pytest.raises(Conflict, match="is being deleted"):
            await controller.apply(wanted(), revision_of(), CALLER)


async def test_what_no_replica_could_be_made_of_is_refused_at_once() -> None:
    async with ServedCluster.serve() as cluster:
        controller = controller_of(cluster)
        with pytest.raises(InvalidRequest, match="there is no image 'absent'"):
            await controller.create(wanted(), revision_of(image="absent"), CALLER)
        with pytest.raises(InvalidRequest, match="nonsense"):
            await controller.create(wanted(), revision_of(resources={"nonsense": "1"}), CALLER)

        def refuse(request: EngineRequest) -> EngineDefinition:
            raise UnknownEngine(request.variant, ("vllm",))

        other = DeploymentController(
            cluster.store,
            cluster.controller,
            ReplicaRequests(refuse),
            hints=cluster.hints,
            ids=SortableIds(cluster.clock),
            secrets=cluster.stored.secrets,
        )
        with pytest.raises(UnknownEngine, match="did you mean vllm"):
            await other.create(wanted(), revision_of(variant="vlm"), CALLER)
        assert await cluster.store.read(lambda unit: unit.deployments.live()) == []


async def test_a_user_has_a_bounded_number_of_deployments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment_controller, "DEPLOYMENTS_PER_USER_MAX", 1)
    async with ServedCluster.serve() as cluster:
        controller = controller_of(cluster)
        await controller.create(wanted(), revision_of(), CALLER)
        with pytest.raises(Conflict, match="has 1 deployments"):
            await controller.create(wanted(name="other"), revision_of(), CALLER)


async def test_a_deployment_of_another_user_is_not_found() -> None:
    async with ServedCluster.serve() as cluster:
        controller = controller_of(cluster)
        key = (await controller.create(wanted(), revision_of(), CALLER)).deployment.deployment_id
        for attempt in (
            controller.delete(key, STRANGER),
            controller.configure(key, {"replicas_max": 3}, STRANGER),
            controller.update(key, revision_of(), STRANGER),
            controller.roll_back(key, STRANGER),
            controller.promote(key, STRANGER),
        ):
            with pytest.raises(ObjectNotFound):
                await attempt
        await controller.delete(key, replace(STRANGER, role=Role.ADMIN))


async def test_an_update_adds_a_revision_and_one_rollout_at_a_time() -> None:
    async with ServedCluster.serve() as cluster:
        controller = controller_of(cluster)
        key = (await controller.create(wanted(), revision_of(), CALLER)).deployment.deployment_id
        rollout = await controller.update(key, revision_of(environment={"V": "2"}), CALLER)
        assert (rollout.revision_from, rollout.revision_to, rollout.status) == (1, 2, RolloutStatus.PLANNING)
        with pytest.raises(Conflict, match="under way"):
            await controller.update(key, revision_of(), CALLER)
        revisions = await cluster.store.read(lambda unit: unit.deployments.revisions(key))
        assert [one.number for one in revisions] == [1, 2]
        aborted = await controller.roll_back(key, CALLER)
        assert aborted.status is RolloutStatus.ROLLING_BACK
        assert (await controller.roll_back(key, CALLER)).status is RolloutStatus.ROLLING_BACK


async def test_rolling_back_returns_to_an_earlier_revision_that_exists() -> None:
    async with ServedCluster.serve() as cluster:
        controller = controller_of(cluster)
        key = (await controller.create(wanted(), revision_of(), CALLER)).deployment.deployment_id
        for to in (None, 1):
            with pytest.raises(Conflict, match="no revision to return to"):
                await controller.roll_back(key, CALLER, to=to)
        with pytest.raises(ObjectNotFound):
            await controller.roll_back(key, CALLER, to=9)


async def test_only_a_rollout_under_way_can_be_promoted() -> None:
    async with ServedCluster.serve() as cluster:
        controller = controller_of(cluster)
        policy = RolloutPolicy(strategy=RolloutStrategy.BLUE_GREEN)
        created = await controller.create(wanted(rollout=policy), revision_of(), CALLER)
        key = created.deployment.deployment_id
        with pytest.raises(Conflict, match="no rollout to promote"):
            await controller.promote(key, CALLER)
        await controller.update(key, revision_of(), CALLER)
        with pytest.raises(Conflict, match="is planning, and cannot be promoted now"):
            await controller.promote(key, CALLER)


async def test_the_share_of_a_canary_is_set_and_does_not_outlive_it() -> None:
    async with ServedCluster.serve() as cluster:
        controller = controller_of(cluster)
        policy = RolloutPolicy(strategy=RolloutStrategy.CANARY)
        created = await controller.create(wanted(rollout=policy), revision_of(), CALLER)
        key = created.deployment.deployment_id
        with pytest.raises(Conflict, match="no canary of chat goes to revision 2"):
            await controller.configure(key, {"shares": {"2": 30}}, CALLER)
        await controller.update(key, revision_of(), CALLER)
        with pytest.raises(Conflict, match="no canary of chat goes to revision 1"):
            await controller.configure(key, {"shares": {"1": 30}}, CALLER)
        with pytest.raises(InvalidSpec, match="shares"):
            await controller.configure(key, {"shares": {"2": 101}}, CALLER)
        held = await controller.configure(key, {"shares": {"2": 30}}, CALLER)
        assert held.spec.shares == {"2": 30}
        [live] = await cluster.store.read(lambda unit: unit.rollouts.live(key))
        await cluster.store.run(lambda unit: _rolled_back(unit, live))
        await controller.update(key, revision_of(), CALLER)
        assert (await cluster.store.read(lambda unit: unit.deployments.get(key))).spec.shares == {}


async def _rolled_back(unit: UnitOfWork, rollout: RolloutRecord) -> None:
    back = await unit.rollouts.move(rollout, RolloutTrigger.ABORTED, BY_USER)
    await unit.rollouts.move(back, RolloutTrigger.RESTORED, BY_COORDINATOR)


async def test_bounds_are_validated_and_deleting_is_idempotent() -> None:
    async with ServedCluster.serve() as cluster:
        controller = controller_of(cluster)
        key = (await controller.create(wanted(), revision_of(), CALLER)).deployment.deployment_id
        with pytest.raises(InvalidSpec):
            await controller.configure(key, {"replicas_min": 10**9}, CALLER)
        same = await controller.configure(key, {"replicas_max": 1}, CALLER)
        wider = await controller.configure(key, {"replicas_max": 4}, CALLER)
        assert (wider.version, wider.spec.replicas_max) == (same.version + 1, 4)
        for _ in range(2):
            assert (await controller.delete(key, CALLER)).status == "destroying"
        with pytest.raises(Conflict, match="being deleted"):
            await controller.configure(key, {"replicas_max": 5}, CALLER)
        assert await actions(cluster) == ["deployment.create", "deployment.configure", "deployment.delete"]
