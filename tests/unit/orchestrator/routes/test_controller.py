"""Endpoint tokens: shown once, stored as a digest, revoked by their owner."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sokovan.adapters.local.ids import SortableIds
from sokovan.domain.errors import Conflict, InvalidSpec, ObjectNotFound
from sokovan.domain.ids import DeploymentId, EndpointTokenId
from sokovan.domain.serving.token import EndpointTokenSpec, TokenLimits
from sokovan.orchestrator.routes import controller as route_controller
from sokovan.orchestrator.routes.controller import RouteController
from sokovan.testing.served_cluster import ServedCluster
from tests.unit.orchestrator.deployments.test_controller import CALLER, STRANGER


def controller_of(cluster: ServedCluster) -> RouteController:
    return RouteController(
        cluster.store,
        hints=cluster.hints,
        ids=SortableIds(cluster.clock),
        secrets=lambda: cluster.stored.new("secret"),
        digest=lambda token: f"digest of {token}",
    )


def spec_of(deployment: str = "d-chat") -> EndpointTokenSpec:
    return EndpointTokenSpec(token_id=EndpointTokenId("new"), deployment_id=DeploymentId(deployment), name="laptop")


@pytest.mark.slow
async def test_a_token_is_given_once_and_stored_as_a_digest() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy()
        made = await controller_of(cluster).create_token(spec_of(), CALLER)
        assert made.token.startswith("ske_")
        assert made.record.digest == f"digest of {made.token}"
        assert made.record.spec.name == "laptop"
        table = await cluster.store.read(lambda unit: unit.routes.table())
        assert table.tokens == (made.record,)


@pytest.mark.slow
async def test_a_revoked_token_is_a_change_of_the_table() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy()
        controller = controller_of(cluster)
        made = await controller.create_token(spec_of(), CALLER)
        await controller.revoke_token(DeploymentId("d-chat"), made.record.spec.token_id, CALLER)
        table = await cluster.store.read(lambda unit: unit.routes.table(since=made.record.table_version))
        assert [one.revoked_ms is not None for one in table.tokens] == [True]
        with pytest.raises(ObjectNotFound):
            await controller.revoke_token(DeploymentId("d-chat"), made.record.spec.token_id, CALLER)


async def test_tokens_of_another_users_deployment_cannot_be_made_or_revoked() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy()
        controller = controller_of(cluster)
        made = await controller.create_token(spec_of(), CALLER)
        with pytest.raises(ObjectNotFound):
            await controller.create_token(spec_of(), STRANGER)
        with pytest.raises(ObjectNotFound):
            await controller.revoke_token(DeploymentId("d-chat"), made.record.spec.token_id, STRANGER)
        with pytest.raises(ObjectNotFound):
            await controller.create_token(spec_of("d-absent"), CALLER)


@pytest.mark.slow
async def test_a_deployment_has_a_bounded_number_of_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_controller, "TOKENS_MAX", 1)
    async with ServedCluster.serve() as cluster:
        await cluster.deploy()
        controller = controller_of(cluster)
        await controller.create_token(spec_of(), CALLER)
        with pytest.raises(Conflict, match="has 1 tokens"):
            await controller.create_token(spec_of(), CALLER)


@pytest.mark.slow
async def test_a_budget_that_would_not_be_enforced_is_refused() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy()
        spec = replace(spec_of(), limits=TokenLimits(tokens_per_month=5))
        with pytest.raises(InvalidSpec, match="not enforced yet"):
            await controller_of(cluster).create_token(spec, CALLER)
