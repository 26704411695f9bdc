# Generated from sdk/aio/deployments.py by `make docs`; do not edit.
"""Deployments and their tokens, for the sync client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Unpack

from sokovan.sdk.core import deployment_calls
from sokovan.sdk.core.deployment_calls import DeploymentListOptions
from sokovan.sdk.core.paging import Paging
from sokovan.sdk.core.retries import ONCE
from sokovan.sdk.core.streams.chats import ChatFollower
from sokovan.sdk.errors import StillWaiting
from sokovan.sdk.sync.connection import Connection
from sokovan.sdk.sync.routes import Routes
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


class Deployments:
    """Operations on deployments; a `ref` is an id, a name, or a unique prefix of one.

    `rollouts` are changes of their revision, `tokens` the keys of their clients, `routes`
    their endpoints as proxies see them, `models` ask what they serve.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.rollouts, self.tokens = Rollouts(connection), EndpointTokens(connection)
        self.routes, self.models = Routes(connection), Models(connection)

    def create(self, body: DeploymentBody, *, key: str | None = None) -> DeploymentView:
        """Create a deployment; a repeated idempotency key returns the same one."""
        key = key or self._connection.environment.new_key()
        return self._connection.send(deployment_calls.create(body, key=key))

    def apply(self, body: DeploymentBody) -> AppliedDeploymentView:
        """Create the deployment of this name, or make it what is given; idempotent."""
        return self._connection.send(deployment_calls.apply(body))

    def plan(self, body: DeploymentBody) -> EngineView:
        """The command that a deployment would run; creates nothing."""
        return self._connection.send(deployment_calls.plan(body))

    def get(self, ref: str) -> DeploymentView:
        """One deployment, with its replicas."""
        return self._connection.send(deployment_calls.get(ref))

    def list(self, *, limit: int | None = None, **filters: Unpack[DeploymentListOptions]) -> Iterator[DeploymentView]:
        """List deployments, newest first; pages are fetched as they are consumed."""
        listing = partial(deployment_calls.listing, filters)
        return self._connection.pages(Paging(listing, limit=limit))

    def watch(self, ref: str, *, timeout: float | None = None) -> Iterator[DeploymentView]:
        """Yield the deployment now and after each change, until the caller stops.

        Raises StillWaiting after `timeout` seconds.
        """
        environment, last = self._connection.environment, None
        ends_s = None if timeout is None else environment.now_s() + timeout
        while True:
            view = self.get(ref)
            if view != last:
                yield view
            last = view
            if ends_s is not None and environment.now_s() >= ends_s:
                raise StillWaiting(
                    f"{view.name} has {view.replicas_active} of {view.replicas_desired} replicas after {timeout:g} s",
                    hint=f"see sokovan deployment why {view.name}",
                )
            environment.sleep(POLL_S)

    def delete(self, ref: str) -> DeploymentView:
        """Mark a deployment for deletion; does not wait for its end."""
        return self._connection.send(deployment_calls.delete(ref))

    def scale(self, ref: str, body: ScaleBody) -> DeploymentView:
        """Set the bounds of the number of replicas."""
        return self._connection.send(deployment_calls.scale(ref, body))

    def update(self, ref: str, revision: RevisionBody, *, rollout: RolloutBody | None = None) -> DeploymentView:
        """Add a revision and begin to change to it."""
        body = UpdateBody(revision=revision, rollout=rollout)
        return self._connection.send(deployment_calls.update(ref, body))

    def revisions(self, ref: str) -> Iterator[RevisionView]:
        """List the revisions of a deployment, newest first."""
        return self._connection.pages(Paging(partial(deployment_calls.revisions, ref)))

    def why(self, ref: str) -> DeploymentWhyView:
        """Explain why a deployment is not as desired, replica by replica."""
        return self._connection.send(deployment_calls.why(ref))

    def events(self, ref: str, *, limit: int = 200) -> DeploymentEventsView:
        """The last events of a deployment, its replicas, rollouts and route, by time."""
        return self._connection.send(deployment_calls.events(ref, limit=limit))


class Rollouts:
    """Changes of deployments from one revision to another."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def promote(self, ref: str) -> DeploymentView:
        """Promote the canary to the whole deployment."""
        return self._connection.send(deployment_calls.promote(ref))

    def rollback(self, ref: str, *, revision: int | None = None) -> DeploymentView:
        """End the rollout under way; without one, return to an earlier revision."""
        return self._connection.send(deployment_calls.rollback(ref, revision))


class Models:
    """Asks the models of deployments through the API.

    For programs the gateway is better, which is compatible with clients of OpenAI.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def chat(self, ref: str, messages: str | Sequence[ChatMessage], *, model: str | None = None) -> Iterator[str]:
        """Yield the answer to a question, or to the messages of a chat, part by part."""
        asked = [ChatMessage(role="user", content=messages)] if isinstance(messages, str) else list(messages)
        follower = ChatFollower(ref, ChatBody(messages=asked, model=model))
        # A repeated request would begin another answer.
        return self._connection.follow(follower, rule=ONCE)


class EndpointTokens:
    """Tokens for clients of deployments."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(self, ref: str, body: EndpointTokenBody | None = None) -> NewEndpointTokenView:
        """Create a token of a deployment; its secret is only ever in this response."""
        return self._connection.send(deployment_calls.new_token(ref, body or EndpointTokenBody()))

    def list(self, ref: str) -> Iterator[EndpointTokenView]:
        """List the tokens of a deployment, without their secrets."""
        return self._connection.pages(Paging(partial(deployment_calls.tokens, ref)))

    def revoke(self, ref: str, token: str) -> None:
        """Revoke a token of a deployment."""
        self._connection.send(deployment_calls.revoke_token(ref, token))
