"""Deployments, for the async client."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sokovan.sdk.aio.connection import AsyncConnection
from sokovan.sdk.aio.deployments import AsyncDeployments, AsyncEndpointTokens, AsyncModels, AsyncRollouts
from sokovan.sdk.errors import StillWaiting, Unreachable
from sokovan.sdk.sync.deployments import Deployments, EndpointTokens, Models, Rollouts
from sokovan.wire.api.deployments import ChatPart, DeploymentBody, EndpointTokenBody, ScaleBody
from tests.unit.sdk.deployment_views import DEPLOYMENT, REVISION
from tests.unit.sdk.fake_server import ENDPOINT, CannedResponse, FakeClock, FakeServer, ok, stream
from tests.unit.sdk.signatures import signatures

NEW = {"id": "t", "deployment": "d", "token": "x"}


def opened(*responses: CannedResponse) -> tuple[AsyncDeployments, FakeServer]:
    """Deployments of a server that gives these responses."""
    server = FakeServer(*responses)
    connection = AsyncConnection(ENDPOINT, transport=server.async_transport(), environment=FakeClock())
    return AsyncDeployments(connection), server


def test_the_names_are_those_of_the_sync_client() -> None:
    assert signatures(AsyncDeployments) == signatures(Deployments)
    assert signatures(AsyncRollouts) == signatures(Rollouts)
    assert signatures(AsyncModels) == signatures(Models)
    assert signatures(AsyncEndpointTokens) == signatures(EndpointTokens)


async def test_a_watch_yields_each_change_once() -> None:
    ready = replace(DEPLOYMENT, replicas_active=2)
    deployments, server = opened(ok(DEPLOYMENT), ok(DEPLOYMENT), ok(ready))
    seen = []
    async for view in deployments.watch("qwen"):
        seen.append(view.replicas_active)
        if view.replicas_active == 2:
            break
    assert seen == [1, 2]
    assert server.lines == ["GET /api/v1/deployments/qwen"] * 3


async def test_a_watch_ends_with_its_deadline() -> None:
    deployments, _ = opened(*[ok(DEPLOYMENT)] * 20)
    with pytest.raises(StillWaiting, match="1 of 2 replicas"):
        async for _ in deployments.watch("qwen", timeout=3):
            pass


async def test_every_other_question_is_one_request() -> None:
    deployments, server = opened(*[ok(DEPLOYMENT)] * 7, ok(NEW))
    await deployments.create(DeploymentBody(name="qwen", revision=REVISION))
    await deployments.get("qwen")
    await deployments.scale("qwen", ScaleBody(replicas_min=3))
    await deployments.update("qwen", REVISION)
    await deployments.rollouts.promote("qwen")
    await deployments.rollouts.rollback("qwen", revision=1)
    await deployments.delete("qwen")
    await deployments.tokens.create("qwen", EndpointTokenBody(name="ci"))
    assert server.lines == [
        "POST /api/v1/deployments",
        "GET /api/v1/deployments/qwen",
        "POST /api/v1/deployments/qwen/scale",
        "POST /api/v1/deployments/qwen/update",
        "POST /api/v1/deployments/qwen/promote",
        "POST /api/v1/deployments/qwen/rollback",
        "DELETE /api/v1/deployments/qwen",
        "POST /api/v1/deployments/qwen/tokens",
    ]


async def test_an_answer_comes_in_parts() -> None:
    parts = [("part", ChatPart(text="to ")), ("part", ChatPart(text="you")), ("part", ChatPart(end=True))]
    deployments, server = opened(stream(*parts))
    assert [text async for text in deployments.models.chat("qwen", "hi")] == ["to ", "you"]
    assert server.lines == ["POST /api/v1/deployments/qwen/chat"]
    assert server.requests[0].content == b'{"messages":[{"role":"user","content":"hi"}]}'


async def test_an_answer_that_broke_off_is_not_asked_for_again() -> None:
    deployments, server = opened(stream(("part", ChatPart(text="to "))))
    with pytest.raises(Unreachable):
        assert [text async for text in deployments.models.chat("qwen", "hi")] == []
    assert len(server.requests) == 1
