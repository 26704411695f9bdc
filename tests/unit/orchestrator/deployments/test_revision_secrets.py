"""Secret variables of deployments: never stored or shown in the clear."""

from __future__ import annotations

import pytest

from sokovan.domain.errors import IdempotencyConflict, InvalidSpec
from sokovan.domain.lifecycle.deployment import DeploymentTrigger
from sokovan.domain.problems import InvalidRequest
from sokovan.orchestrator.deployments.revision_secrets import RevisionSecrets
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.testing.served_cluster import OWNER, ServedCluster, revision_of
from sokovan.testing.stored_cluster import BY_COORDINATOR
from tests.unit.orchestrator.deployments.test_controller import CALLER, controller_of, wanted

pytestmark = pytest.mark.slow
VALUE = "canary-value"
REVISION = revision_of(secrets=("HF_TOKEN",))


async def test_the_sessions_of_replicas_have_the_secrets_of_their_revision() -> None:
    async with ServedCluster.serve() as cluster:
        created = await controller_of(cluster).create(wanted(), REVISION, CALLER, secrets={"HF_TOKEN": VALUE})
        await cluster.converge()
        [session] = await cluster.store.read(lambda unit: unit.sessions.page(SessionFilter(), limit=9))
        assert session.spec.secrets == ("HF_TOKEN",)
        assert cluster.stored.secrets.open(session.sealed, owner=OWNER.user) == {"HF_TOKEN": VALUE}
        deployment_id = created.deployment.deployment_id
        [stored] = await cluster.store.read(lambda unit: unit.deployments.revisions(deployment_id))
        assert VALUE not in f"{stored}{stored.spec.sealed}{session}"


async def test_an_update_keeps_the_values_that_it_does_not_name() -> None:
    async with ServedCluster.serve() as cluster:
        controller, secrets = controller_of(cluster), RevisionSecrets(cluster.stored.secrets)
        given = {"HF_TOKEN": VALUE, "OTHER": "1"}
        created = await controller.create(wanted(), revision_of(secrets=("HF_TOKEN", "OTHER")), CALLER, secrets=given)
        deployment_id = created.deployment.deployment_id
        both = revision_of(model="next", secrets=("HF_TOKEN", "NEW"))
        await controller.update(deployment_id, both, CALLER, secrets={"HF_TOKEN": None, "NEW": "2"})
        added = await cluster.store.read(lambda unit: unit.deployments.revision(deployment_id, 2))
        assert secrets.opened(added.spec, OWNER) == {"HF_TOKEN": VALUE, "NEW": "2"}


async def test_a_secret_without_a_value_or_with_an_open_one_is_refused() -> None:
    async with ServedCluster.serve() as cluster:
        controller = controller_of(cluster)
        with pytest.raises(InvalidSpec, match="has no value"):
            await controller.create(wanted(), REVISION, CALLER, secrets={"HF_TOKEN": None})
        with pytest.raises(InvalidSpec, match="open variables"):
            revision_of(secrets=("HF_TOKEN",), environment={"HF_TOKEN": "x"})
        with pytest.raises(InvalidRequest, match="bytes"):
            await controller.create(wanted(), REVISION, CALLER, secrets={"HF_TOKEN": "x" * 70_000})


async def test_the_same_key_with_another_secret_is_refused() -> None:
    async with ServedCluster.serve() as cluster:
        controller = controller_of(cluster)
        for fresh in (True, False):
            made = await controller.create(wanted(), REVISION, CALLER, key="k", secrets={"HF_TOKEN": VALUE})
            assert made.fresh is fresh
        with pytest.raises(IdempotencyConflict):
            await controller.create(wanted(), REVISION, CALLER, key="k", secrets={"HF_TOKEN": "other"})


async def test_the_values_are_removed_at_the_end_of_the_deployment() -> None:
    async with ServedCluster.serve() as cluster:
        controller = controller_of(cluster)
        made = (await controller.create(wanted(), REVISION, CALLER, secrets={"HF_TOKEN": VALUE})).deployment
        ending = await controller.delete(made.deployment_id, CALLER)
        await cluster.store.run(
            lambda unit: unit.deployments.move(ending, DeploymentTrigger.REPLICAS_GONE, BY_COORDINATOR)
        )
        [stored] = await cluster.store.read(lambda unit: unit.deployments.revisions(made.deployment_id))
        assert (stored.spec.secrets, stored.spec.sealed) == (("HF_TOKEN",), "")
