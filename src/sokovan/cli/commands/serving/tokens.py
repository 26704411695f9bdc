"""`sokovan token`: keys for clients of deployments."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

from sokovan.cli import formatting
from sokovan.cli.arguments.parameters import Parameter
from sokovan.cli.commands.options import DEFAULT_SERVER, TABLE_OUTPUT, OutputOptions, ServerOptions, Yes
from sokovan.cli.exit_codes import OK
from sokovan.cli.formatting import or_none
from sokovan.cli.output import print_status
from sokovan.cli.prompts import confirm
from sokovan.cli.rendering import Column, show_all, show_one
from sokovan.sdk.environment import SystemEnvironment
from sokovan.wire.api.deployments import EndpointTokenBody, EndpointTokenView


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFlags:
    """Flags that limit a token, named as the fields of its request."""

    name: Annotated[str, Parameter(help="A name to recognise it by.")] = ""
    models: Annotated[
        tuple[str, ...], Parameter(name="--model", negative=(), help="Allow only this model. Repeatable.")
    ] = ()
    expires_at: Annotated[str | None, Parameter(help="When it stops working: 2030-01-31T18:00:00Z.")] = None
    requests_per_minute: Annotated[int | None, Parameter(help="Most requests in a minute.")] = None
    tokens_per_minute: Annotated[int | None, Parameter(help="Most tokens of models in a minute.")] = None
    concurrency: Annotated[int | None, Parameter(help="Most requests at once.")] = None
    tokens_per_month: Annotated[int | None, Parameter(help="Most tokens of models in a calendar month (UTC).")] = None


NO_LIMITS = TokenFlags()


def create(deployment: str, /, *, flags: TokenFlags = NO_LIMITS, output: OutputOptions = TABLE_OUTPUT) -> int:
    """Create a token for clients of a deployment.

    The token is printed once and cannot be shown again.

    For example:
      sokovan token create qwen
      sokovan token create qwen --name ci --requests-per-minute 60
      sokovan token create qwen --name class --tokens-per-month 1000000

    Parameters
    ----------
    deployment
        Deployment name or ID, or a unique prefix of one.
    """
    fmt = output.format()
    given = {each.name: getattr(flags, each.name) for each in fields(flags)}
    body = EndpointTokenBody(**{**given, "models": list(flags.models)})
    with output.client() as client:
        created = client.deployments.tokens.create(deployment, body)
    show_one(created, [("id", created.id), ("token", created.token)], fmt, name=created.id)
    print_status("the token is not shown again; store it now")
    return OK


def ls(deployment: str, /, *, output: OutputOptions = TABLE_OUTPUT) -> int:
    """List the tokens of a deployment.

    Secrets are not shown.

    For example:
      sokovan token ls qwen

    Parameters
    ----------
    deployment
        Deployment name or ID, or a unique prefix of one.
    """
    fmt = output.format()
    with output.client() as client:
        show_all(client.deployments.tokens.list(deployment), _columns(output), fmt, name=lambda token: token.id)
    return OK


def _columns(output: OutputOptions) -> list[Column[EndpointTokenView]]:
    now = SystemEnvironment().wall_s()
    return [
        Column("id", lambda token: token.id),
        Column("name", lambda token: token.name or formatting.NONE),
        Column("state", lambda token: _state(token, now)),
        Column("models", lambda token: ", ".join(token.models) or "all"),
        Column("limits", _limits),
        Column("used", lambda token: f"{token.tokens_used} this month"),
        Column("expires", lambda token: or_none(token.expires_at)),
        Column("age", lambda token: formatting.age(token.created_at, now_s=now, utc=output.utc)),
    ]


def _state(token: EndpointTokenView, now_s: float) -> str:
    if token.revoked_at:
        return "revoked"
    return "expired" if formatting.is_past(token.expires_at, now_s=now_s) else "active"


def _limits(token: EndpointTokenView) -> str:
    given = {
        "requests/min": token.requests_per_minute,
        "tokens/min": token.tokens_per_minute,
        "at once": token.concurrency,
        "tokens/month": token.tokens_per_month,
    }
    return ", ".join(f"{value} {name}" for name, value in given.items() if value is not None) or formatting.NONE


def revoke(deployment: str, token: str, /, *, yes: Yes = False, server: ServerOptions = DEFAULT_SERVER) -> int:
    """Revoke a token of a deployment.

    For example:
      sokovan token revoke qwen t-01JCN8 --yes

    Parameters
    ----------
    deployment
        Deployment name or ID, or a unique prefix of one.
    token
        Token ID as listed by sokovan token ls.
    """
    confirm(f"revoke token {token} of {deployment}", yes=yes)
    with server.client() as client:
        client.deployments.tokens.revoke(deployment, token)
    print_status(f"token {token} revoked")
    return OK
