"""`sokovan serve`: create a deployment and print how to reach it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from sokovan.cli.arguments.parameters import OptionGroup, Parameter
from sokovan.cli.commands.options import DEFAULT_ACTION, ActionOptions
from sokovan.cli.commands.serving.deployment_tables import progress
from sokovan.cli.commands.serving.revision_options import NO_REVISION, TOY, RevisionFlags
from sokovan.cli.exit_codes import OK
from sokovan.cli.output import as_json, flush_output, print_data, print_status
from sokovan.sdk.core.durations import seconds
from sokovan.sdk.errors import ClientProblem, InvalidSetting, StillWaiting
from sokovan.sdk.preferences import with_defaults
from sokovan.wire.api.deployments import (
    DeploymentAccess,
    DeploymentBody,
    DeploymentView,
    EndpointTokenBody,
    ReplicaWhyView,
    RevisionBody,
    ScalingBody,
)
from sokovan.wire.api.sessions import SessionBody
from sokovan.wire.plain_codec import plain

if TYPE_CHECKING:
    from sokovan.sdk.settings import ClientSettings
    from sokovan.sdk.sync.client import Client

DEPLOYMENT = OptionGroup("Deployment options", sort_key=10)
# After this time without a change, the command prints what the replicas wait for.
QUIET_S = 5.0
_NOT_IN_NAMES = re.compile(r"[^a-z0-9._-]+")


class DeploymentFailed(ClientProblem):
    """The deployment was deleted, or its replicas fail again and again."""

    code = "deployment-failed"
    hint = "see sokovan deployment why NAME, and the logs of its sessions"


@Parameter(name="*", group=DEPLOYMENT)
@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentFlags:
    """Flags that describe the deployment as a whole."""

    name: Annotated[str | None, Parameter(name=["--name", "-n"], help="Name; default: from the model.")] = None
    replicas: Annotated[int, Parameter(help="Number of replicas, or the least if --max-replicas is given.")] = 1
    max_replicas: Annotated[int | None, Parameter(help="Most replicas; then their number follows demand.")] = None
    access: Annotated[DeploymentAccess, Parameter(help="Whose keys may use it.")] = "private"
    queue: Annotated[str | None, Parameter(help="Queue of the replicas. [env: SOKOVAN_QUEUE]")] = None
    group: Annotated[str | None, Parameter(help="Group to account to. [env: SOKOVAN_GROUP]")] = None
    scaling_group: Annotated[str | None, Parameter(help="Scaling group. [env: SOKOVAN_SCALING_GROUP]")] = None

    def body(self, model: str, revision: RevisionBody, settings: ClientSettings) -> DeploymentBody:
        """The request for the deployment. Raises InvalidSetting."""
        chosen = with_defaults(
            SessionBody(queue=self.queue, group=self.group, scaling_group=self.scaling_group), settings
        )
        return DeploymentBody(
            name=self.name or name_for(model),
            revision=revision,
            access=self.access,
            replicas_min=self.replicas,
            replicas_max=self.max_replicas,
            scaling=ScalingBody(metric="concurrency" if self.max_replicas is not None else "manual"),
            queue=chosen.queue,
            group=chosen.group,
            scaling_group=chosen.scaling_group,
        )


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class WaitFlags:
    """Flags that say whether and how long to wait."""

    detach: Annotated[bool, Parameter(name=["--detach", "-d"], negative=(), help="Do not wait until it serves.")] = (
        False
    )
    timeout: Annotated[str | None, Parameter(help="Exit with 6 if it does not serve in time: 90s, 10m.")] = None


NO_DEPLOYMENT = DeploymentFlags()
NO_WAIT = WaitFlags()


def serve(
    model: str,
    /,
    *arguments: str,
    flags: DeploymentFlags = NO_DEPLOYMENT,
    revision: RevisionFlags = NO_REVISION,
    wait: WaitFlags = NO_WAIT,
    server: ActionOptions = DEFAULT_ACTION,
) -> int:
    """Serve a model at an OpenAI-compatible URL.

    Creates a deployment, waits until it serves, and prints its URL, the name of
    the model and a key, which is not shown again. The engine is llama-cpp for a
    GGUF file, toy for the model toy, and vllm otherwise, unless --engine names
    another one. Fails if replicas fail again and again. Ctrl-C, --timeout and
    failures leave the deployment as it is.

    For example:
      sokovan serve toy
      sokovan serve Qwen/Qwen3-8B --gpus 1 --replicas 2
      sokovan serve ./model.gguf --name small
      sokovan serve mine --engine custom -- python server.py --port {port}

    Parameters
    ----------
    model
        A name on a hub, the path of a model, or toy.
    arguments
        Further arguments of the engine, after --; for custom, the command.
    """
    timeout_s = None if wait.timeout is None else seconds(wait.timeout, what="--timeout")
    with server.client() as client:
        body = flags.body(model, revision.revision(client, model, arguments), server.settings())
        created = client.deployments.create(body)
        token = client.deployments.tokens.create(created.id, EndpointTokenBody(name="serve"))
        if not wait.detach:
            created = follow(client, created, timeout_s=timeout_s)
    facts = {"name": created.name, "url": created.url, "model": created.models[0], "key": token.token}
    if server.json:
        print_data(as_json({**facts, "deployment": plain(created)}))
        return OK
    for name, value in facts.items():
        print_data(f"{name:7}{value}")
    flush_output()
    print_status(f'the key is not shown again; try: sokovan chat {created.name} "hello"')
    return OK


def follow(
    client: Client, view: DeploymentView, *, timeout_s: float | None = None, changes_from: int | None = None
) -> DeploymentView:
    """The deployment once it serves with the revision it should have.

    Prints a line for each change, and why nothing changes. One that is back at the revision
    `changes_from` is not waited for. Raises StillWaiting, DeploymentFailed.
    """
    last = said = ""
    now = view
    for seen in _changes(client, view, timeout_s):
        if seen is None:
            said = _say_why(client, now, said)
            continue
        now, line = seen, progress(seen)
        if line != last:
            print_status(line)
        last = line
        if now.status in {"destroying", "terminated"}:
            raise DeploymentFailed(f"{now.name} is being deleted")
        if now.rollout is None and now.revision.number == changes_from:
            break
        if now.status == "running" and now.rollout is None and now.replicas_active >= now.replicas_desired:
            break
    return now


def _changes(client: Client, view: DeploymentView, timeout_s: float | None) -> Iterator[DeploymentView | None]:
    """The deployment now and after each change; None after each time without one. Raises StillWaiting."""
    passed_s, now = 0.0, view
    while True:
        quiet_s = QUIET_S if timeout_s is None else min(QUIET_S, timeout_s - passed_s)
        try:
            for now in client.deployments.watch(view.id, timeout=quiet_s):
                yield now
        except StillWaiting:
            passed_s += quiet_s
            if timeout_s is not None and passed_s >= timeout_s:
                have = f"{now.name} has {now.replicas_active} of {now.replicas_desired} replicas"
                hint = f"see sokovan deployment why {now.name}"
                raise StillWaiting(f"{have} after {timeout_s:g} s", hint=hint) from None
        yield None


def _say_why(client: Client, view: DeploymentView, said: str) -> str:
    """Print what replicas wait for, or how they failed, unless that was said last; what was said last.

    Raises DeploymentFailed if so many failed that no more are started.
    """
    why = client.deployments.why(view.id)
    if why.code == "CRASH_LOOP" and view.rollout is None:  # a rollout ends by itself, and says why
        raise DeploymentFailed(f"{view.name}: {why.summary}", hint=f"see sokovan deployment why {view.name}")
    shown = [one for one in why.replicas if one.why is not None or why.code != "REPLICAS_WAIT"]
    line = next((text for one in shown if (text := _reason(one))), "")
    if line and line != said:
        print_status(f"{view.name}  {line}\n  see sokovan deployment why {view.name}")
    return line or said


def _reason(one: ReplicaWhyView) -> str:
    if one.why is not None and one.why.code:
        return f"waits: {one.why.summary}"
    return f"replica {one.replica.ordinal} {one.summary}" if one.replica.status == "failed" else ""


def name_for(model: str) -> str:
    """A name for a deployment, from that of its model. Raises InvalidSetting.

    >>> name_for("Qwen/Qwen3-8B")
    'qwen3-8b'
    """
    last = model.rstrip("/").rpartition("/")[2].removesuffix(".gguf").lower()
    name = _NOT_IN_NAMES.sub("-", last).strip("-._")[:63]
    if not name:
        raise InvalidSetting(f"there is no name in {model[:80]!r}", hint=f"add --name, for example --name {TOY}")
    return name
