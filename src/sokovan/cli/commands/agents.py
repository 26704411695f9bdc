"""`sokovan agent`: list, inspect, label and drain agents, and let machines join."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated

from sokovan.cli import formatting
from sokovan.cli.arguments.parameters import Parameter
from sokovan.cli.commands.catalog.catalog_actions import list_all
from sokovan.cli.commands.options import (
    DEFAULT_ACTION,
    DEFAULT_SERVER,
    TABLE_OUTPUT,
    ActionOptions,
    Flag,
    OutputOptions,
    ServerOptions,
    Yes,
    name_values,
)
from sokovan.cli.commands.sessions.session_tables import history_columns
from sokovan.cli.commands.topology import report_change
from sokovan.cli.exit_codes import OK
from sokovan.cli.output import print_data, print_status
from sokovan.cli.prompts import confirm
from sokovan.cli.rendering import Column, show_one
from sokovan.sdk.core.durations import seconds
from sokovan.sdk.environment import SystemEnvironment
from sokovan.sdk.errors import InvalidSetting
from sokovan.wire.api.fleet import FAKE_LABEL, AgentFailureView, AgentImpactView, AgentView
from sokovan.wire.api.tenancy import JoinTokenLine

if TYPE_CHECKING:
    from sokovan.sdk.sync.client import Client


def ls(
    *,
    all: Annotated[bool, Parameter(name=["--all", "-a"], negative=())] = False,  # noqa: A002  # the flag is --all
    output: OutputOptions = TABLE_OUTPUT,
) -> int:
    """List agents.

    For example:
      sokovan agent ls
      sokovan agent ls --all
      sokovan agent ls -o wide

    Parameters
    ----------
    all
        Include agents that are permanently gone.
    """

    def read(client: Client) -> Iterator[AgentView]:
        return (agent for agent in client.agents.list() if all or not is_gone(agent))

    return list_all(output, agent_columns(utc=output.utc), read, key="id")


def is_gone(agent: AgentView) -> bool:
    """Whether an agent will not return: declared gone, or a fake agent that is lost."""
    fake = FAKE_LABEL in agent.labels
    return agent.status == "terminated" or (agent.status == "lost" and fake and agent.kernels == 0)


def show(name: str, /, *, output: OutputOptions = TABLE_OUTPUT) -> int:
    """Show an agent.

    For example:
      sokovan agent show gpu2

    Parameters
    ----------
    name
        Name of the agent.
    """
    fmt = output.format()
    with output.client() as client:
        agent = client.agents.get(name)
    facts = [(column.name, column.cell(agent)) for column in agent_columns(utc=output.utc)]
    slices = [slot for slot in agent.slots if slot.startswith(formatting.MIG_PREFIX)]
    facts += [(slot, formatting.share(slot, agent.used, agent.slots)) for slot in slices]
    facts.append(("images", ", ".join(agent.images) or formatting.NONE))
    facts.append(("labels", _label_texts(agent.labels)))
    if agent.unapproved:
        facts.append(("not approved", ", ".join(agent.unapproved)))
    if agent.operator_labels:
        facts.append(("set by operators", _label_texts(agent.operator_labels)))
    facts += [(f"fault of {device}", fault) for device, fault in agent.device_faults.items()]
    facts += [(f"failed at {one.at}", _failure_text(one)) for one in agent.failed_starts]
    show_one(agent, facts, fmt, name=agent.id)
    return OK


def history(name: str, /, *, output: OutputOptions = TABLE_OUTPUT) -> int:
    """Show the state transitions of an agent.

    For example:
      sokovan agent history gpu2

    Parameters
    ----------
    name
        Name of the agent.
    """
    return list_all(output, history_columns(utc=output.utc), lambda client: client.agents.history(name), key="after")


def drain(name: str, /, *, reason: str = "", dry_run: Flag = False, server: ServerOptions = DEFAULT_SERVER) -> int:
    """Stop scheduling on an agent; running kernels continue.

    Replicas of deployments move to other agents, where there is room.
    With --dry-run, the sessions with kernels there and the room that is left in its
    scaling group are shown, and nothing is changed.

    For example:
      sokovan agent drain gpu2 --dry-run
      sokovan agent drain gpu2 --reason "dimm swap"

    Parameters
    ----------
    name
        Name of the agent.
    reason
        Reason, recorded in its history.
    dry_run
        Show the impact only.
    """
    with server.client() as client:
        if dry_run:
            for line in impact_lines(client.topology.impact(name, "drain")):
                print_data(line)
            return OK
        agent = client.agents.drain(name, reason=reason)
    print_status(f"{agent.id}  {agent.status.upper()}  {agent.kernels} kernels still running")
    return OK


def impact_lines(found: AgentImpactView) -> Iterator[str]:
    """The impact of an action on an agent, in lines."""
    end = "end" if found.ends_kernels else "continue"
    kernels = f"{found.kernels} kernels {end}: {formatting.amounts(found.used)}"
    yield f"{found.agent}  {found.before.upper()}, then {found.after.upper()}, {kernels}"
    free = formatting.amounts(found.group_free_after)
    before = f"{found.group_agents_after} of {found.group_agents} agents"
    yield f"scaling group {found.scaling_group} keeps {before}, free: {free}"
    for one in found.sessions:
        moves = "; it moves: it ends after another replica serves elsewhere" if one.moves else ""
        yield f"  {one.name} of {one.user}: {one.kernels} of {one.size} kernels{moves}"
    if found.left_out:
        yield f"  ... and {found.left_out} more sessions"


def undrain(name: str, /, *, reason: str = "", server: ServerOptions = DEFAULT_SERVER) -> int:
    """Resume scheduling on a drained or failing agent.

    For example:
      sokovan agent undrain gpu2

    Parameters
    ----------
    name
        Name of the agent.
    reason
        Reason, recorded in its history.
    """
    with server.client() as client:
        agent = client.agents.undrain(name, reason=reason)
    print_status(f"{agent.id}  {agent.status.upper()}")
    return OK


def label(name: str, /, *labels: str, server: ServerOptions = DEFAULT_SERVER) -> int:
    """Set and remove labels of an agent.

    They are kept when the agent enrols again, and have precedence over the labels
    that it reports. Rules of the topology place agents by their labels.

    For example:
      sokovan agent label gpu2 zone=z1 rack=r01
      sokovan agent label gpu2 rack-

    Parameters
    ----------
    name
        Name of the agent.
    labels
        NAME=VALUE to set a label, NAME- to remove one.
    """
    given = dict(_set_label(text) for text in labels if "=" in text)
    removed = [text.removesuffix("-") for text in labels if "=" not in text]
    if not labels or any("=" not in text and not text.endswith("-") for text in labels):
        raise InvalidSetting("give NAME=VALUE to set a label, NAME- to remove one", hint="use rack=r01 or rack-")
    with server.client() as client:
        change = client.agents.label(name, given, remove=removed)
    print_status(f"{change.agent.id}  {_label_texts(change.agent.labels)}")
    report_change(change.topology)
    return OK


def taint(name: str, /, *taints: str, server: ServerOptions = DEFAULT_SERVER) -> int:
    """Set and remove taints of an agent.

    A taint keeps every session that does not tolerate it (`--tolerate`) off the
    agent; kernels that run already stay. Enrolments keep taints.

    For example:
      sokovan agent taint gpu2 dedicated=vision
      sokovan agent taint gpu2 spot:NoSchedule
      sokovan agent taint gpu2 dedicated-

    Parameters
    ----------
    name
        Name of the agent.
    taints
        KEY[=VALUE][:NoSchedule] to set a taint, KEY- to remove one.
    """
    if not taints:
        raise InvalidSetting("give KEY=VALUE to set a taint, KEY- to remove one", hint="use dedicated=vision")
    removed = [text.removesuffix("-") for text in taints if text.endswith("-") and "=" not in text]
    given = [text for text in taints if "=" in text or not text.endswith("-")]
    with server.client() as client:
        agent = client.agents.taint(name, *given, remove=removed)
    print_status(f"{agent.id}  taints: {_taint_texts(agent)}")
    return OK


def declare_gone(
    name: str,
    /,
    *,
    reason: str = "",
    yes: Yes = False,
    dry_run: Flag = False,
    server: ServerOptions = DEFAULT_SERVER,
) -> int:
    """Declare an agent permanently lost.

    Its resources are released and its kernels are terminated. Use this only if
    the machine is really gone: if it still runs kernels, the same resources are
    allocated twice.

    For example:
      sokovan agent declare-gone gpu2 --dry-run
      sokovan agent declare-gone gpu2 --reason "hardware failure" --yes

    Parameters
    ----------
    name
        Name of the agent.
    reason
        Reason, recorded in its history.
    dry_run
        Show the impact only: the sessions whose kernels end.
    """
    if dry_run:
        with server.client() as client:
            for line in impact_lines(client.topology.impact(name, "declare-gone")):
                print_data(line)
        return OK
    confirm(f"declare agent {name} permanently lost", yes=yes)
    with server.client() as client:
        agent = client.agents.declare_gone(name, reason=reason)
    print_status(f"{agent.id}  {agent.status.upper()}")
    return OK


def token(
    *,
    scaling_group: str = "default",
    slots: str = "",
    label: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    expires: str = "15m",
    output: ActionOptions = DEFAULT_ACTION,
) -> int:
    """Create a token that lets one machine join.

    Prints the command to run on that machine. The token works once. What the agent
    claims beyond it waits for sokovan agent approve.

    For example:
      sokovan agent token
      sokovan agent token --scaling-group gpus --slots cpu=64,mem=512Gi
      sokovan agent token --label rack=r01 --label zone=z1

    Parameters
    ----------
    scaling_group
        Scaling group that the machine joins.
    slots
        The most that its agent may report; default: any.
    label
        Label that its agent may report, such as rack=r01. Repeatable.
    expires
        How long the token is valid, at most 7d.
    """
    most = name_values([one for one in slots.split(",") if one], option="--slots", example="cpu=64,mem=512Gi")
    labels = name_values(label, option="--label", example="rack=r01")
    expires_s = round(seconds(expires, what="--expires"))
    with output.client() as client:
        made = client.agents.new_token(scaling_group=scaling_group, slots=most, labels=labels, expires_s=expires_s)
    if output.json:
        output.report(made, "")
        return OK
    print_status(f"run this on the machine that joins {made.scaling_group}, once and before {made.expires_at}:")
    given = "".join(f" --label {shlex.quote(f'{name}={text}')}" for name, text in sorted(made.labels.items()))
    print_data(f"sokovan agent join {made.url} --token {made.token} --ca {made.authority}{given}")
    return OK


def tokens(
    *,
    all: Annotated[bool, Parameter(name=["--all", "-a"], negative=())] = False,  # noqa: A002  # the flag is --all
    output: OutputOptions = TABLE_OUTPUT,
) -> int:
    """List unused join tokens.

    Their secrets are not shown.

    For example:
      sokovan agent tokens
      sokovan agent tokens --all

    Parameters
    ----------
    all
        Include used tokens until they expire, with their agents.
    """

    def read(client: Client) -> Iterator[JoinTokenLine]:
        return (one for one in client.agents.tokens() if all or not one.used_by)

    return list_all(output, TOKEN_COLUMNS, read)


def revoke_token(name: str, /, *, yes: Yes = False, server: ServerOptions = DEFAULT_SERVER) -> int:
    """Revoke an unused join token.

    For example:
      sokovan agent revoke-token join-01JCN8 --yes

    Parameters
    ----------
    name
        Name of the token, as sokovan agent tokens lists it.
    """
    confirm(f"revoke join token {name}", yes=yes)
    with server.client() as client:
        client.agents.revoke_token(name)
    print_status(f"join token {name} revoked")
    return OK


def approve(name: str, /, *, yes: Yes = False, server: ServerOptions = DEFAULT_SERVER) -> int:
    """Approve what an agent claims beyond its join token.

    Until then it gets no kernels. To refuse it, use sokovan agent remove.

    For example:
      sokovan agent approve gpu2 --yes

    Parameters
    ----------
    name
        Name of an agent that sokovan agent ls shows as UNAPPROVED.
    """
    with server.client() as client:
        claims = client.agents.get(name).unapproved
        if claims:
            confirm(f"approve for agent {name}: {', '.join(claims)}", yes=yes)
        agent = client.agents.approve(name, claims)
    print_status(f"{agent.id}  {agent_state(agent)}  approved: {', '.join(claims)}")
    return OK


def remove(name: str, /, *, yes: Yes = False, server: ServerOptions = DEFAULT_SERVER) -> int:
    """Revoke the certificate of an agent.

    Its link is closed and nothing more is placed on it. Its kernels keep their
    resources until it is lost and declared gone.

    For example:
      sokovan agent remove gpu2 --yes

    Parameters
    ----------
    name
        Name of an agent of another machine, which has joined.
    """
    confirm(f"revoke the certificate of agent {name}", yes=yes)
    with server.client() as client:
        agent = client.agents.remove(name)
    print_status(f"{agent.id}  {agent.status.upper()}  certificate revoked, {agent.kernels} kernels")
    return OK


def _set_label(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def _label_texts(labels: Mapping[str, str]) -> str:
    return " ".join(f"{key}={value}" for key, value in sorted(labels.items())) or formatting.NONE


def _taint_texts(agent: AgentView) -> str:
    return " ".join(agent.taints) or formatting.NONE


def agent_state(agent: AgentView) -> str:
    """The status of an agent, or why one that is alive gets no kernels."""
    if agent.status == "alive" and agent.unapproved:
        return "UNAPPROVED"
    return "FAILING" if agent.status == "alive" and agent.failing_since else agent.status.upper()


def _failure_text(failure: AgentFailureView) -> str:
    whose = f"session {failure.session} of {failure.user}: " if failure.session else ""
    return f"{whose}{failure.detail or failure.code}"


def _kernels_text(agent: AgentView) -> str:
    """The number of kernels, and the limit if there is one: `2/8`."""
    return str(agent.kernels) if agent.kernels_max is None else f"{agent.kernels}/{agent.kernels_max}"


TOKEN_COLUMNS: list[Column[JoinTokenLine]] = [
    Column("name", lambda token: token.name),
    Column("pool", lambda token: token.scaling_group),
    Column("slots", lambda token: formatting.amounts(token.slots)),
    Column("labels", lambda token: _label_texts(token.labels)),
    Column("created by", lambda token: token.created_by or formatting.NONE),
    Column("expires", lambda token: token.expires_at),
    Column("used by", lambda token: token.used_by or formatting.NONE),
]


def agent_columns(*, utc: bool = False) -> list[Column[AgentView]]:
    """The columns of a list of agents."""
    now_s = SystemEnvironment().wall_s()
    return [
        Column("name", lambda agent: agent.id),
        Column("state", agent_state),
        Column("link", lambda agent: "up" if agent.connected else "down"),
        Column("pool", lambda agent: agent.scaling_group),
        Column("kernels", _kernels_text),
        Column("gpu", lambda agent: formatting.share(formatting.gpu_slot(agent.slots), agent.used, agent.slots)),
        Column("cpu", lambda agent: formatting.share("cpu", agent.used, agent.slots)),
        Column("mem", lambda agent: formatting.share("mem", agent.used, agent.slots)),
        Column("heartbeat", lambda agent: formatting.age(agent.heartbeat_at, now_s=now_s, utc=utc)),
        Column("arch", lambda agent: agent.architecture, wide=True),
        Column("incarnation", lambda agent: str(agent.incarnation), wide=True),
        Column("shard", lambda agent: agent.shard or formatting.NONE, wide=True),
        Column("kernel ports", lambda agent: agent.kernel_ports, wide=True),
        Column("taints", _taint_texts, wide=True),
        Column("failures", lambda agent: str(len(agent.failed_starts)), wide=True),
        Column("failing", lambda agent: formatting.age(agent.failing_since, now_s=now_s, utc=utc), wide=True),
        Column("reason", lambda agent: agent.failing_reason or formatting.NONE, wide=True),
    ]
