"""`sokovan route`: the endpoints of deployments as proxies see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from sokovan.cli import formatting
from sokovan.cli.arguments.parameters import Parameter
from sokovan.cli.commands.options import (
    DEFAULT_ACTION,
    TABLE_OUTPUT,
    ActionOptions,
    OutputOptions,
    name_values,
)
from sokovan.cli.exit_codes import OK
from sokovan.cli.output import print_data, print_status, table
from sokovan.cli.rendering import Column, show_all, show_one
from sokovan.sdk.errors import InvalidSetting
from sokovan.wire.api.deployments import DeploymentAccess, RoutingPolicy
from sokovan.wire.api.routes import RouteBody, RouteEndpointView, RouteView

ENDPOINT_HEADINGS = (
    "REPLICA", "REVISION", "STATE", "HEALTHY", "WEIGHT", "WHERE", "RUNNING", "WAITING", "SERVED", "NOTE",
)  # fmt: skip


def ls(*, output: OutputOptions = TABLE_OUTPUT) -> int:
    """List the routes of deployments.

    For example:
      sokovan route ls
      sokovan route ls -o wide
    """
    fmt = output.format()
    columns: list[Column[RouteView]] = [
        Column("name", lambda view: view.name),
        Column("state", lambda view: view.status.upper()),
        Column("endpoints", _endpoints_text),
        Column("routing", lambda view: view.routing or formatting.NONE),
        Column("access", lambda view: view.access),
        Column("models", lambda view: ", ".join(view.models)),
        Column("version", lambda view: str(view.table_version), wide=True),
        Column("proxies", proxies_text, wide=True),
    ]
    with output.client() as client:
        show_all(client.deployments.routes.list(), columns, fmt, name=lambda view: view.name)
    return OK


def show(name: str, /, *, output: OutputOptions = TABLE_OUTPUT) -> int:
    """Show the route of a deployment and its endpoints.

    For example:
      sokovan route show qwen

    Parameters
    ----------
    name
        Deployment name or ID, or a unique prefix of one.
    """
    fmt = output.format()
    with output.client() as client:
        view = client.deployments.routes.get(name)
    by_hand = {number: f" (set to {percent} %)" for number, percent in view.shares.items()}
    shares = ", ".join(
        f"{one.revision}: {one.weight / 10:g} %{by_hand.get(str(one.revision), '')}" for one in view.revisions
    )
    facts = [
        ("name", view.name),
        ("state", view.status.upper()),
        ("models", ", ".join(view.models)),
        ("url", view.url or formatting.NONE),
        ("access", view.access),
        ("routing", f"sticky, by {view.sticky_by}" if view.routing == "sticky" else view.routing or formatting.NONE),
        ("revisions", shares or formatting.NONE),
        ("requests", "wait for a replica" if view.holding else "are sent to replicas"),
        *([("refused", view.refusal)] if view.refusal else []),
        ("table", f"version {view.table_version}, {proxies_text(view)}"),
    ]
    show_one(view, facts, fmt, name=view.name)
    if fmt.is_table and view.endpoints:
        print_data("")
        print_data(table(ENDPOINT_HEADINGS, [_row(one) for one in view.endpoints]))
    return OK


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class SplitFlags:
    """How requests are divided: weights of replicas, shares of canaries, the policy."""

    weights: Annotated[
        tuple[str, ...],
        Parameter(name="--weight", negative=(), help="Weight of a replica, 0 to 100: REPLICA=WEIGHT. Repeatable."),
    ] = ()
    shares: Annotated[
        tuple[str, ...],
        Parameter(name="--share", negative=(), help="Percentage for a canary: REVISION=PERCENT. Repeatable."),
    ] = ()
    routing: Annotated[RoutingPolicy | None, Parameter(help="Policy.")] = None
    sticky_by: Annotated[str | None, Parameter(help="What sticky knows a session by: header:NAME or cookie:NAME.")] = (
        None
    )

    def numbers(self) -> tuple[dict[str, int], dict[str, int | None]]:
        """Weights by replica, and percentages by revision; None for `auto`."""
        weights = name_values(self.weights, option="--weight", example="0=2")
        shares = name_values(self.shares, option="--share", example="2=30")
        return (
            {number: _weight(text) for number, text in weights.items()},
            {number: _share(text) for number, text in shares.items()},
        )


NO_SPLIT = SplitFlags()


def set_route(
    name: str,
    /,
    *,
    split: SplitFlags = NO_SPLIT,
    model_names: Annotated[tuple[str, ...], Parameter(name="--model-name", negative=())] = (),
    access: DeploymentAccess | None = None,
    server: ActionOptions = DEFAULT_ACTION,
) -> int:
    """Set weights, shares, names, routing or access of a route.

    A replica of weight 2 gets twice the requests of one of weight 1, and one of
    weight 0 none, as long as another replica of its revision serves. The share of
    a new revision holds its canary at that part of the requests, until it is
    promoted or set to auto. What is not given stays as it is.

    For example:
      sokovan route set qwen --weight 0=0
      sokovan route set qwen --weight 0=1 --weight 1=3
      sokovan route set qwen --share 2=30
      sokovan route set qwen --share 2=auto
      sokovan route set qwen --model-name qwen --model-name qwen-latest
      sokovan route set qwen --routing sticky --sticky-by cookie:sid

    Parameters
    ----------
    name
        Deployment name or ID, or a unique prefix of one.
    model_names
        Model name that it answers to. Repeatable.
    access
        Whose keys may use it.
    """
    given, parts = split.numbers()
    if not given and not parts and not model_names and split.routing is split.sticky_by is access is None:
        raise InvalidSetting("nothing to set", hint="give --weight, --share, --model-name, --routing or --access")
    with server.client() as client:
        before = client.deployments.routes.get(name) if given or parts else None
        body = RouteBody(
            weights={**before.weights, **given} if before is not None and given else None,
            shares=_with_shares(before.shares, parts) if before is not None and parts else None,
            model_names=list(model_names) or None,
            routing=split.routing,
            sticky_by=split.sticky_by,
            access=access,
        )
        view = client.deployments.routes.set(name, body)
    server.report(view, f"the route of {view.name} is set")
    absent = sorted(given.keys() - {str(one.replica) for one in view.endpoints}, key=int)
    if absent:
        print_status(f"no replica {', '.join(absent)} serves now; its weight counts once it does")
    return OK


def proxies_text(view: RouteView) -> str:
    """How many proxies use the current table."""
    return f"used by {view.acknowledged} of {view.proxies} proxies"


def _endpoints_text(view: RouteView) -> str:
    failing = sum(one.failing for one in view.endpoints)
    return f"{len(view.endpoints)} ({failing} failing)" if failing else str(len(view.endpoints))


def _note(one: RouteEndpointView) -> str:
    """The last error, and how many answers failed if that is not the only one."""
    parts = [one.error] if one.error else []
    if one.failures:
        parts.append(f"{one.failures} of the last {one.answers} answers failed")
    if one.ejected:
        parts.append("gets no requests for a while")
    return "; ".join(parts)


def _row(one: RouteEndpointView) -> tuple[str, ...]:
    healthy = {True: "yes", False: "no", None: "unknown"}[one.healthy]
    return (
        str(one.replica),
        str(one.revision),
        one.status.upper(),
        healthy,
        str(one.weight),
        f"{one.agent}:{one.port}",
        str(max(0, one.outstanding - one.waiting)),
        str(one.waiting),
        str(one.served),
        _note(one),
    )


def _with_shares(before: Mapping[str, int], parts: Mapping[str, int | None]) -> dict[str, int]:
    """The shares with those that were given, without those that are to be automatic."""
    return {number: part for number, part in {**before, **parts}.items() if part is not None}


def _share(text: str) -> int | None:
    """A percentage; None for `auto`."""
    hint = "write --share 2=30, with a percentage from 0 to 100, or --share 2=auto"
    return None if text == "auto" else _number(text, "a percentage", hint)


def _weight(text: str) -> int:
    return _number(text, "a weight", "write --weight 0=2, with a number from 0 to 100")


def _number(text: str, what: str, hint: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 4:
        raise InvalidSetting(f"{text[:20]!r} is not {what}", hint=hint)
    return int(text)
