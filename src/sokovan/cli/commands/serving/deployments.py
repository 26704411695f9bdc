"""`sokovan deployment`: list, inspect, scale, update and delete deployments."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal

from sokovan.cli.arguments.parameters import OptionGroup, Parameter
from sokovan.cli.commands.options import (
    DEFAULT_ACTION,
    TABLE_OUTPUT,
    ActionOptions,
    Flag,
    OutputOptions,
    Yes,
)
from sokovan.cli.commands.serving.deployment_tables import (
    deployment_columns,
    deployment_facts,
    progress,
    replica_name,
    replica_table,
    revision_columns,
)
from sokovan.cli.commands.serving.revision_options import NO_REVISION, RevisionFlags
from sokovan.cli.commands.serving.serve import NO_DEPLOYMENT, DeploymentFailed, DeploymentFlags, follow
from sokovan.cli.commands.sessions.why import why_lines
from sokovan.cli.exit_codes import OK
from sokovan.cli.output import print_data, print_status
from sokovan.cli.prompts import confirm
from sokovan.cli.rendering import show_all, show_one
from sokovan.sdk.errors import ApiProblem, InvalidSetting
from sokovan.wire.api.deployments import RolloutBody, RolloutStrategy, ScaleBody, ScalingMetric, WhenFull

if TYPE_CHECKING:
    from sokovan.sdk.sync.client import Client
    from sokovan.wire.api.deployments import DeploymentView, DeploymentWhyView, ReplicaWhyView

ROLLING_BACK = "rolling_back"
ROLLOUT = OptionGroup("Rollout options", sort_key=30)
Detach = Annotated[bool, Parameter(name=["--detach", "-d"], negative=(), help="Do not wait until it is done.")]


def ls(*, all: Flag = False, output: OutputOptions = TABLE_OUTPUT) -> int:  # noqa: A002  # the flag is --all
    """List deployments.

    For example:
      sokovan deployment ls
      sokovan deployment ls --all --json

    Parameters
    ----------
    all
        Include deployments that have ended.
    """
    fmt = output.format()
    with output.client() as client:
        found = client.deployments.list(all=all)
        show_all(found, deployment_columns(utc=output.utc), fmt, name=lambda view: view.name)
    return OK


def show(name: str, /, *, output: OutputOptions = TABLE_OUTPUT) -> int:
    """Show a deployment and its replicas.

    For example:
      sokovan deployment show qwen
      sokovan deployment show qwen --json

    Parameters
    ----------
    name
        Deployment name or ID, or a unique prefix of one.
    """
    fmt = output.format()
    with output.client() as client:
        view = client.deployments.get(name)
        lacks = fmt.is_table and view.health in {"degraded", "unhealthy"}
        failed = _failed(client, view.id) if lacks else []
    show_one(view, deployment_facts(view), fmt, name=view.name)
    if fmt.is_table and view.replicas:
        print_data("")
        print_data(replica_table(view, utc=output.utc))
    for one in failed:
        print_data("")
        for line in replica_lines(one):
            print_data(line)
    return OK


def _failed(client: Client, deployment: str) -> list[ReplicaWhyView]:
    """Replicas that failed, with the end of their output; none if that is not known."""
    with suppress(ApiProblem):
        return [one for one in client.deployments.why(deployment).replicas if one.log]
    return []


def scale(
    name: str,
    replicas: int,
    /,
    *,
    max_replicas: Annotated[int | None, Parameter(name="--max")] = None,
    metric: Literal["concurrency", "qps", "queue", "ttft_p95"] | None = None,
    target: int | None = None,
    server: ActionOptions = DEFAULT_ACTION,
) -> int:
    """Set the number of replicas of a deployment.

    With --max the number follows demand, between the two.

    For example:
      sokovan deployment scale qwen 3
      sokovan deployment scale qwen 0 --max 8 --target 32
      sokovan deployment scale qwen 1 --max 8 --metric ttft_p95 --target 800

    Parameters
    ----------
    name
        Deployment name or ID, or a unique prefix of one.
    replicas
        Number of replicas, or the least if --max is given.
    max_replicas
        Most replicas.
    metric
        What demand is.
    target
        Its value per replica: requests, or ms for ttft_p95.
    """
    if (target is not None or metric is not None) and max_replicas is None:
        raise InvalidSetting("--target and --metric need --max", hint="add --max N, the most replicas")
    chosen: ScalingMetric = "manual" if max_replicas is None else metric or "concurrency"
    with server.client() as client:
        before = client.deployments.get(name)
        scaling = replace(before.scaling, metric=chosen, target=target)
        body = ScaleBody(replicas_min=replicas, replicas_max=max_replicas, scaling=scaling)
        view = client.deployments.scale(name, body)
    bounds = f"{replicas}" if max_replicas in {None, replicas} else f"{replicas} to {max_replicas}"
    server.report(view, f"{view.name} scales to {bounds} replicas")
    return OK


@Parameter(name="*", group=ROLLOUT)
@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutFlags:
    """Flags that say how an update proceeds; omitted ones are those of the deployment."""

    strategy: Annotated[RolloutStrategy | None, Parameter(help="How it proceeds.")] = None
    surge: Annotated[int | None, Parameter(name="--max-surge", help="Replicas above the desired number.")] = None
    unavailable: Annotated[int | None, Parameter(name="--max-unavailable", help="Replicas below it.")] = None
    when_full: Annotated[WhenFull | None, Parameter(help="Action if there is no room.")] = None
    hold_s: Annotated[int | None, Parameter(name="--hold-seconds", help="Time of each step of a canary.")] = None
    share: Annotated[int | None, Parameter(help="Percentage at which a canary stays until promoted.")] = None
    analysis: Annotated[
        bool | None, Parameter(negative="--no-analysis", help="Roll back if requests fail more, or take longer.")
    ] = None
    detach: Detach = False

    def body(self, policy: RolloutBody) -> RolloutBody:
        """The policy of the deployment with these flags."""
        given = {name: getattr(self, name) for name in _ROLLOUT_FLAGS}
        if (self.strategy or "canary") != "canary":
            policy = replace(policy, share=None)  # the share is that of a canary
        return replace(policy, **{name: value for name, value in given.items() if value is not None})


_ROLLOUT_FLAGS = ("strategy", "surge", "unavailable", "when_full", "hold_s", "share", "analysis")
NO_ROLLOUT = RolloutFlags()


def update(
    name: str,
    /,
    *arguments: str,
    model: str | None = None,
    revision: RevisionFlags = NO_REVISION,
    rollout: RolloutFlags = NO_ROLLOUT,
    server: ActionOptions = DEFAULT_ACTION,
) -> int:
    """Change what the replicas of a deployment run.

    Adds a revision with the given options; others stay as they are. Old replicas
    serve until new ones do. Ctrl-C leaves the update running.

    For example:
      sokovan deployment update qwen --model Qwen/Qwen3-14B
      sokovan deployment update qwen --strategy canary -- --max-model-len 8192

    Parameters
    ----------
    name
        Deployment name or ID, or a unique prefix of one.
    arguments
        Further arguments of the engine, after --; for custom, the command.
    model
        A name on a hub, or the path of a model.
    """
    with server.client() as client:
        before = client.deployments.get(name)
        changed = revision.revision(client, model, arguments, before.revision.revision)
        if changed == before.revision.revision:
            raise InvalidSetting(f"nothing of {before.name} would change", hint="add an option, such as --model")
        policy = rollout.body(before.rollout_policy)
        view = client.deployments.update(before.id, changed, rollout=policy)
        if not rollout.detach:
            view = follow(client, view, changes_from=before.revision.number)
            if view.revision.number == before.revision.number:
                raise DeploymentFailed(f"the update of {view.name} was rolled back: {_why_failed(client, view)}")
    _report_end(server, view, followed=not rollout.detach)
    return OK


def _report_end(server: ActionOptions, view: DeploymentView, *, followed: bool) -> None:
    """Print how a rollout stands; one that was followed has printed its last line already."""
    if server.json or not followed:
        server.report(view, progress(view))


def _why_failed(client: Client, view: DeploymentView) -> str:
    """The reason of the last rollout that failed, or was ended by a user."""
    lines = client.deployments.events(view.id).lines
    return next((line.detail for line in reversed(lines) if line.after == ROLLING_BACK and line.detail), "by a user")


def promote(name: str, /, *, server: ActionOptions = DEFAULT_ACTION) -> int:
    """Promote a canary to the whole deployment.

    For example:
      sokovan deployment promote qwen

    Parameters
    ----------
    name
        Deployment name or ID, or a unique prefix of one.
    """
    with server.client() as client:
        view = client.deployments.rollouts.promote(name)
    server.report(view, progress(view))
    return OK


def rollback(
    name: str,
    /,
    *,
    revision: int | None = None,
    detach: Detach = False,
    server: ActionOptions = DEFAULT_ACTION,
) -> int:
    """Return a deployment to an earlier revision.

    A rollout that is under way is ended; otherwise the deployment changes back.

    For example:
      sokovan deployment rollback qwen
      sokovan deployment rollback qwen --revision 2

    Parameters
    ----------
    name
        Deployment name or ID, or a unique prefix of one.
    revision
        The revision to return to; default: the one before.
    """
    with server.client() as client:
        view = client.deployments.rollouts.rollback(name, revision=revision)
        if not detach:
            view = follow(client, view)
    _report_end(server, view, followed=not detach)
    return OK


def history(name: str, /, *, output: OutputOptions = TABLE_OUTPUT) -> int:
    """List the revisions of a deployment, newest first.

    For example:
      sokovan deployment history qwen

    Parameters
    ----------
    name
        Deployment name or ID, or a unique prefix of one.
    """
    fmt = output.format()
    with output.client() as client:
        found = client.deployments.revisions(name)
        show_all(found, revision_columns(utc=output.utc), fmt, name=lambda view: str(view.number))
    return OK


def rm(name: str, /, *, yes: Yes = False, server: ActionOptions = DEFAULT_ACTION) -> int:
    """Delete a deployment.

    Its replicas end after the requests that they have; its tokens stop working.

    For example:
      sokovan deployment rm qwen --yes

    Parameters
    ----------
    name
        Deployment name or ID, or a unique prefix of one.
    """
    confirm(f"delete deployment {name}", yes=yes)
    with server.client() as client:
        view = client.deployments.delete(name)
    server.report(view, f"{view.name} is being deleted")
    return OK


def why(name: str, /, *, output: OutputOptions = TABLE_OUTPUT) -> int:
    """Explain why a deployment is not as desired.

    Says which replica waits for what.

    For example:
      sokovan deployment why qwen

    Parameters
    ----------
    name
        Deployment name or ID, or a unique prefix of one.
    """
    fmt = output.format()
    with output.client() as client:
        view = client.deployments.why(name)
    if not fmt.is_table:
        show_one(view, [("code", view.code), ("summary", view.summary)], fmt, name=view.code)
        return OK
    for line in deployment_why_lines(view):
        print_data(line)
    return OK


def deployment_why_lines(view: DeploymentWhyView) -> list[str]:
    """The explanation as lines of text: the deployment, then each replica that waits."""
    lines = [f"{view.name}  {view.status.upper()}  {view.health}  {view.code}".rstrip(), f"  {view.summary}"]
    for one in view.replicas:
        lines += ["", *(f"  {line}" for line in replica_lines(one))]
    return lines


def replica_lines(one: ReplicaWhyView) -> list[str]:
    """Why a replica does not serve, with the end of its output if it failed."""
    revision = f"replica {replica_name(one.replica)} of revision {one.replica.revision}"
    lines = [f"{revision}  {one.replica.status.upper()}  {one.summary}"]
    if one.why is not None:
        lines += why_lines(one.why, one.replica.session or "session")
    return [*lines, *(f"  | {line}" for line in one.log)]


def plan(
    model: str,
    /,
    *arguments: str,
    flags: DeploymentFlags = NO_DEPLOYMENT,
    revision: RevisionFlags = NO_REVISION,
    output: OutputOptions = TABLE_OUTPUT,
) -> int:
    """Show the command that a deployment would run.

    Takes the options of sokovan serve, and creates nothing. {port} stands for the
    port that a replica gets at its start.

    For example:
      sokovan deployment plan Qwen/Qwen3-8B --gpus 2

    Parameters
    ----------
    model
        A name on a hub, the path of a model, or toy.
    arguments
        Further arguments of the engine, after --; for custom, the command.
    """
    import shlex  # noqa: PLC0415  # only to print the command

    fmt = output.format()
    with output.client() as client:
        body = flags.body(model, revision.revision(client, model, arguments), output.settings())
        view = client.deployments.plan(body)
    facts = [
        ("engine", view.engine),
        ("command", shlex.join(view.command) or "that of the image"),
        *((f"env {name}", value) for name, value in sorted(view.environment.items())),
        ("checked at", view.probe.path or "a connection"),
        ("first request at", view.smoke_path or "none"),
        ("load read at", view.metrics_path or "nowhere"),
        ("model", view.model),
        ("image", view.image or "host"),
        ("concurrency", str(view.concurrency_max)),
        ("routing", view.routing),
    ]
    show_one(view, facts, fmt, name=view.engine)
    if fmt.is_table and not view.checks_secret:
        print_status("this engine checks no key: other programs of its machine can use it")
    return OK
