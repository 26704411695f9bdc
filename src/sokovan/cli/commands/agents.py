"""`sokovan agent`: machines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sokovan.cli import formatting
from sokovan.cli.commands.catalog.catalog import list_all
from sokovan.cli.commands.options import DEFAULT_SERVER, TABLE_OUTPUT, OutputOptions, ServerOptions, Yes
from sokovan.cli.commands.sessions.session_tables import history_columns
from sokovan.cli.exit_codes import OK
from sokovan.cli.output import print_status
from sokovan.cli.prompts import confirm
from sokovan.cli.rendering import Column, show_one
from sokovan.sdk.environment import SystemEnvironment
from sokovan.wire.api.fleet import AgentView

if TYPE_CHECKING:
    from sokovan.sdk.sync.client import Client

# The label of a machine that only acts as if.
_PRETENDED_LABEL = "sokovan.pretended"


def ls(
    *,
    all: Annotated[bool, Parameter(name=["--all", "-a"], negative=())] = False,  # noqa: A002  # the flag is --all
    shown: OutputOptions = TABLE_OUTPUT,
) -> int:
    """List machines.

    For example:
      sokovan agent ls
      sokovan agent ls --all
      sokovan agent ls -o wide

    Parameters
    ----------
    all
        Those too that have left for good, or are not pretended any more.
    """

    def read(client: Client) -> Iterator[AgentView]:
        return (agent for agent in client.agents.list() if all or not has_left(agent))

    return list_all(shown, agent_columns(utc=shown.utc), read, key="id")


def has_left(agent: AgentView) -> bool:
    """Whether nobody waits for a machine: it is gone for ever, or there never was one."""
    pretended = _PRETENDED_LABEL in agent.labels
    return agent.status == "terminated" or (agent.status == "lost" and pretended and agent.kernels == 0)


def show(name: str, /, *, shown: OutputOptions = TABLE_OUTPUT) -> int:
    """Show one machine.

    For example:
      sokovan agent show gpu2

    Parameters
    ----------
    name
        Its name.
    """
    form = shown.form()
    with shown.client() as client:
        agent = client.agents.get(name)
    facts = [(column.name, column.cell(agent)) for column in agent_columns(utc=shown.utc)]
    facts.append(
        ("labels", " ".join(f"{key}={value}" for key, value in sorted(agent.labels.items())) or formatting.NONE)
    )
    show_one(agent, facts, form, name=agent.id)
    return OK


def history(name: str, /, *, shown: OutputOptions = TABLE_OUTPUT) -> int:
    """Tell the story of a machine.

    For example:
      sokovan agent history gpu2

    Parameters
    ----------
    name
        Its name.
    """
    return list_all(shown, history_columns(utc=shown.utc), lambda client: client.agents.history(name), key="after")


def drain(name: str, /, *, reason: str = "", server: ServerOptions = DEFAULT_SERVER) -> int:
    """Start nothing new on a machine; what runs goes on.

    For example:
      sokovan agent drain gpu2 --reason "dimm swap"

    Parameters
    ----------
    name
        Its name.
    reason
        Why, for its history.
    """
    with server.client() as client:
        agent = client.agents.drain(name, reason=reason)
    print_status(f"{agent.id}  {agent.status.upper()}  {agent.kernels} kernels go on")
    return OK


def undrain(name: str, /, *, reason: str = "", server: ServerOptions = DEFAULT_SERVER) -> int:
    """Take a drained machine back.

    For example:
      sokovan agent undrain gpu2

    Parameters
    ----------
    name
        Its name.
    reason
        Why, for its history.
    """
    with server.client() as client:
        agent = client.agents.undrain(name, reason=reason)
    print_status(f"{agent.id}  {agent.status.upper()}")
    return OK


def declare_gone(name: str, /, *, reason: str = "", yes: Yes = False, server: ServerOptions = DEFAULT_SERVER) -> int:
    """Say that a machine never comes back.

    What it held is free then, and its kernels are over. If it is not gone, the same slots would be used twice: be sure.

    For example:
      sokovan agent declare-gone gpu2 --reason "burnt" --yes

    Parameters
    ----------
    name
        Its name.
    reason
        Why, for its history.
    """
    confirm(f"declare {name} gone for ever", yes=yes)
    with server.client() as client:
        agent = client.agents.declare_gone(name, reason=reason)
    print_status(f"{agent.id}  {agent.status.upper()}")
    return OK


def agent_columns(*, utc: bool = False) -> list[Column[AgentView]]:
    """The columns of a list of machines."""
    now_s = SystemEnvironment().wall_s()
    return [
        Column("name", lambda agent: agent.id),
        Column("state", lambda agent: agent.status.upper()),
        Column("link", lambda agent: "up" if agent.connected else "down"),
        Column("pool", lambda agent: agent.scaling_group),
        Column("kernels", lambda agent: str(agent.kernels)),
        Column("gpu", lambda agent: formatting.share(formatting.gpu_slot(agent.slots), agent.used, agent.slots)),
        Column("cpu", lambda agent: formatting.share("cpu", agent.used, agent.slots)),
        Column("mem", lambda agent: formatting.share("mem", agent.used, agent.slots)),
        Column("heartbeat", lambda agent: formatting.age(agent.heartbeat_at, now_s=now_s, utc=utc)),
        Column("arch", lambda agent: agent.architecture, wide=True),
        Column("incarnation", lambda agent: str(agent.incarnation), wide=True),
    ]
