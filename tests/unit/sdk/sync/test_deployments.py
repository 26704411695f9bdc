"""Deployments, for the sync client."""

from __future__ import annotations

from sokovan.sdk.sync.connection import Connection
from sokovan.sdk.sync.deployments import Deployments
from sokovan.wire.api.deployments import DeploymentBody
from tests.unit.sdk.deployment_views import DEPLOYMENT, REVISION
from tests.unit.sdk.fake_server import ENDPOINT, FakeClock, FakeServer, ok


def test_a_deployment_is_created_watched_listed_and_deleted() -> None:
    page = ok({"items": [DEPLOYMENT], "next": None})
    server = FakeServer(ok(DEPLOYMENT), ok(DEPLOYMENT), page, ok(DEPLOYMENT))
    deployments = Deployments(Connection(ENDPOINT, transport=server.transport(), environment=FakeClock()))
    assert deployments.create(DeploymentBody(name="qwen", revision=REVISION)) == DEPLOYMENT
    assert next(iter(deployments.watch("qwen"))) == next(iter(deployments.list())) == DEPLOYMENT
    assert deployments.delete("qwen") == DEPLOYMENT
