"""Deployments and their tokens, for the async client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Unpack

from sokovan.sdk.aio.connection import AsyncConnection
from sokovan.sdk.aio.routes import AsyncRoutes
from sokovan.sdk.core import deployment_calls
from sokovan.sdk.core.deployment_calls import DeploymentListOptions
from sokovan.sdk.core.paging import Paging
from sokovan.sdk.core.retries import ONCE
from sokovan.sdk.core.streams.chats import ChatFollower
from sokovan.sdk.errors import StillWaiting
from sokovan.wire.api.deployments import (
    AppliedDeploymentView,
    ChatBody,
    ChatMessage,
    DeploymentBody,
    DeploymentEventsView,
    DeploymentView,
    DeploymentWhyView,
    EndpointTokenBody,
    EndpointTokenView,
    EngineView,
    NewEndpointTokenView,
    RevisionBody,
    RevisionView,
    RolloutBody,
    ScaleBody,
    UpdateBody,
)

POLL_S = 0.5


class AsyncDeployments:
    """Operations on deployments; a `ref` is an id, a name, or a unique prefix of one.

    `rollouts` are changes of their revision, `tokens` the keys of their clients, `routes`
    their endpoints as proxies see them, `models` ask what they serve.
    """

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self.rollouts, self.tokens = AsyncRollouts(connection), AsyncEndpointTokens(connection)
        self.routes, self.models = AsyncRoutes(connection), AsyncModels(connection)

    async def create(self, body: DeploymentBody, *, key: str | None = None) -> DeploymentView:
        """Create a deployment; a repeated idempotency key returns the same one."""
        key = key or self._connection.environment.new_key()
        return await self._connection.send(deployment_calls.create(body, key=key))

    async def apply(self, body: DeploymentBody) -> AppliedDeploymentView:
        """Create the deployment of this name, or make it what is given; idempotent."""
        return await self._connection.send(deployment_calls.apply(body))

    async def plan(self, body: DeploymentBody) -> EngineView:
        """The command that a deployment would run; creates nothing."""
        return await self._connection.send(deployment_calls.plan(body))

    async def get(self, ref: str) -> DeploymentView:
        """One deployment, with its replicas."""
        return await self._connection.send(deployment_calls.get(ref))

    def list(
        self, *, limit: int | None = None, **filters: Unpack[DeploymentListOptions]
    ) -> AsyncIterator[DeploymentView]:
        """List deployments, newest first; pages are fetched as they are consumed."""
        listing = partial(deployment_calls.listing, filters)
        return self._connection.pages(Paging(listing, limit=limit))

    async def watch(self, ref: str, *, timeout: float | None = None) -> AsyncIterator[DeploymentView]:
        """Yield the deployment now and after each change, until the caller stops.

        Raises StillWaiting after `timeout` seconds.
        """
        environment, last = self._connection.environment, None
        ends_s = None if timeout is None else environment.now_s() + timeout
        while True:
            view = await self.get(ref)
            if view != last:
                yield view
            last = view
            if ends_s is not None and environment.now_s() >= ends_s:
                raise StillWaiting(
                    f"{view.name} has {view.replicas_active} of {view.replicas_desired} replicas after {timeout:g} s",
                    hint=f"see sokovan deployment why {view.name}",
                )
            await environment.async_sleep(POLL_S)

    async def delete(self, ref: str) -> DeploymentView:
        """Mark a deployment for deletion; does not wait for its end."""
        return await self._connection.send(deployment_calls.delete(ref))

    async def scale(self, ref: str, body: ScaleBody) -> DeploymentView:
        """Set the bounds of the number of replicas."""
        return await self._connection.send(deployment_calls.scale(ref, body))

    async def update(self, ref: str, revision: RevisionBody, *, rollout: RolloutBody | None = None) -> DeploymentView:
        """Add a revision and begin to change to it."""
        body = UpdateBody(revision=revision, rollout=rollout)
        return await self._connection.send(deployment_calls.update(ref, body))

    def revisions(self, ref: str) -> AsyncIterator[RevisionView]:
        """List the revisions of a deployment, newest first."""
        return self._connection.pages(Paging(partial(deployment_calls.revisions, ref)))

    async def why(self, ref: str) -> DeploymentWhyView:
        """Explain why a deployment is not as desired, replica by replica."""
        return await self._connection.send(deployment_calls.why(ref))

    async def events(self, ref: str, *, limit: int = 200) -> DeploymentEventsView:
        """The last events of a deployment, its replicas, rollouts and route, by time."""
        return await self._connection.send(deployment_calls.events(ref, limit=limit))


class AsyncRollouts:
    """Changes of deployments from one revision to another."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def promote(self, ref: str) -> DeploymentView:
        """Promote the canary to the whole deployment."""
        return await self._connection.send(deployment_calls.promote(ref))

    async def rollback(self, ref: str, *, revision: int | None = None) -> DeploymentView:
        """End the rollout under way; without one, return to an earlier revision."""
        return await self._connection.send(deployment_calls.rollback(ref, revision))


class AsyncModels:
    """Asks the models of deployments through the API.

    For programs the gateway is better, which is compatible with clients of OpenAI.
    """

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    def chat(self, ref: str, messages: str | Sequence[ChatMessage], *, model: str | None = None) -> AsyncIterator[str]:
        """Yield the answer to a question, or to the messages of a chat, part by part."""
        asked = [ChatMessage(role="user", content=messages)] if isinstance(messages, str) else list(messages)
        follower = ChatFollower(ref, ChatBody(messages=asked, model=model))
        # A repeated request would begin another answer.
        return self._connection.follow(follower, rule=ONCE)


class AsyncEndpointTokens:
    """Tokens for clients of deployments."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def create(self, ref: str, body: EndpointTokenBody | None = None) -> NewEndpointTokenView:
        """Create a token of a deployment; its secret is only ever in this response."""
        return await self._connection.send(deployment_calls.new_token(ref, body or EndpointTokenBody()))

    def list(self, ref: str) -> AsyncIterator[EndpointTokenView]:
        """List the tokens of a deployment, without their secrets."""
        return self._connection.pages(Paging(partial(deployment_calls.tokens, ref)))

    async def revoke(self, ref: str, token: str) -> None:
        """Revoke a token of a deployment."""
        await self._connection.send(deployment_calls.revoke_token(ref, token))
