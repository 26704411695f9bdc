"""Requests for deployments, their revisions and their tokens."""

from __future__ import annotations

from typing import TypedDict

from sokovan.sdk.core.calls import PAGE_MAX, Call, Nothing, api_path, filters_query, query, sparse
from sokovan.sdk.core.session_calls import KEY_HEADER
from sokovan.wire.api.deployments import (
    AppliedDeploymentView,
    ChatBody,
    ChatPart,
    DeploymentBody,
    DeploymentEventsView,
    DeploymentPage,
    DeploymentView,
    DeploymentWhyView,
    EndpointTokenBody,
    EndpointTokenPage,
    EngineView,
    NewEndpointTokenView,
    RevisionPage,
    RollbackBody,
    ScaleBody,
    UpdateBody,
)

DEPLOYMENTS = "deployments"


class DeploymentListOptions(TypedDict, total=False):
    """Filters of a list; without `all`, deployments that have not ended."""

    user: str | None
    group: str | None
    mine: bool
    all: bool


def create(body: DeploymentBody, *, key: str) -> Call[DeploymentView]:
    """Create a deployment; the idempotency key makes the request repeatable."""
    return Call(
        method="POST", path=api_path(DEPLOYMENTS), answer=DeploymentView, body=sparse(body), headers={KEY_HEADER: key}
    )


def apply(body: DeploymentBody) -> Call[AppliedDeploymentView]:
    """Create the deployment of this name, or make it what is given; idempotent."""
    path = api_path(DEPLOYMENTS, "apply")
    return Call(method="POST", path=path, answer=AppliedDeploymentView, body=sparse(body))


def plan(body: DeploymentBody) -> Call[EngineView]:
    """The command that a deployment would run, without creating it."""
    return Call(method="POST", path=api_path(DEPLOYMENTS, "plan"), answer=EngineView, body=sparse(body))


def listing(
    options: DeploymentListOptions, *, limit: int = PAGE_MAX, cursor: str | None = None
) -> Call[DeploymentPage]:
    """Get one page of deployments, newest first. Raises InvalidSetting."""
    parameters = filters_query(DEPLOYMENTS, options, DeploymentListOptions, limit=limit, cursor=cursor)
    return Call(method="GET", path=api_path(DEPLOYMENTS), answer=DeploymentPage, query=parameters)


def get(ref: str) -> Call[DeploymentView]:
    """Get one deployment by id, name, or a unique prefix of one."""
    return Call(method="GET", path=api_path(DEPLOYMENTS, ref), answer=DeploymentView)


def delete(ref: str) -> Call[DeploymentView]:
    """Mark a deployment for deletion; idempotent."""
    return Call(method="DELETE", path=api_path(DEPLOYMENTS, ref), answer=DeploymentView)


def scale(ref: str, body: ScaleBody) -> Call[DeploymentView]:
    """Set the bounds of the number of replicas; idempotent."""
    return Call(method="POST", path=api_path(DEPLOYMENTS, ref, "scale"), answer=DeploymentView, body=sparse(body))


def update(ref: str, body: UpdateBody) -> Call[DeploymentView]:
    """Add a revision and change to it; not repeatable, as each request adds one."""
    path = api_path(DEPLOYMENTS, ref, "update")
    return Call(method="POST", path=path, answer=DeploymentView, body=sparse(body), repeatable=False)


def promote(ref: str) -> Call[DeploymentView]:
    """Let the rollout of a deployment go on."""
    return Call(method="POST", path=api_path(DEPLOYMENTS, ref, "promote"), answer=DeploymentView, repeatable=False)


def rollback(ref: str, revision: int | None) -> Call[DeploymentView]:
    """Return to an earlier revision."""
    return Call(
        method="POST",
        path=api_path(DEPLOYMENTS, ref, "rollback"),
        answer=DeploymentView,
        body=sparse(RollbackBody(revision=revision)),
        repeatable=False,
    )


def revisions(ref: str, *, limit: int = PAGE_MAX, cursor: str | None = None) -> Call[RevisionPage]:
    """Get one page of the revisions of a deployment, newest first."""
    parameters = query({"limit": limit, "cursor": cursor})
    return Call(method="GET", path=api_path(DEPLOYMENTS, ref, "revisions"), answer=RevisionPage, query=parameters)


def why(ref: str) -> Call[DeploymentWhyView]:
    """Explain why a deployment is not as desired."""
    return Call(method="GET", path=api_path(DEPLOYMENTS, ref, "why"), answer=DeploymentWhyView)


def events(ref: str, *, limit: int) -> Call[DeploymentEventsView]:
    """Get the last events of a deployment and of what belongs to it."""
    return Call(
        method="GET",
        path=api_path(DEPLOYMENTS, ref, "events"),
        answer=DeploymentEventsView,
        query=query({"limit": limit}),
    )


def chat(ref: str, body: ChatBody) -> Call[ChatPart]:
    """Ask a model of a deployment; not repeatable, as another answer would follow."""
    path = api_path(DEPLOYMENTS, ref, "chat")
    return Call(method="POST", path=path, answer=ChatPart, body=sparse(body), repeatable=False)


def new_token(ref: str, body: EndpointTokenBody) -> Call[NewEndpointTokenView]:
    """Create a token; not repeatable, as a second request would create a second one."""
    path = api_path(DEPLOYMENTS, ref, "tokens")
    return Call(method="POST", path=path, answer=NewEndpointTokenView, body=sparse(body), repeatable=False)


def tokens(ref: str, *, limit: int = PAGE_MAX, cursor: str | None = None) -> Call[EndpointTokenPage]:
    """Get one page of the tokens of a deployment, without their secrets."""
    parameters = query({"limit": limit, "cursor": cursor})
    return Call(method="GET", path=api_path(DEPLOYMENTS, ref, "tokens"), answer=EndpointTokenPage, query=parameters)


def revoke_token(ref: str, token: str) -> Call[Nothing]:
    """Revoke a token of a deployment."""
    return Call(method="DELETE", path=api_path(DEPLOYMENTS, ref, "tokens", token), answer=Nothing)
