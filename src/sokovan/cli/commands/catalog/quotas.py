"""`sokovan quota`: limits, and who is under them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sokovan.cli.commands.catalog.catalog import (
    amounts_text,
    changed,
    list_all,
    read_amounts,
    remove_named,
    show_named,
    tell_changed,
)
from sokovan.cli.commands.options import (
    DEFAULT_ACTION,
    DEFAULT_SERVER,
    TABLE_OUTPUT,
    ActionOptions,
    OutputOptions,
    ServerOptions,
    Yes,
)
from sokovan.cli.formatting import or_none
from sokovan.cli.output import print_status
from sokovan.cli.rendering import Column
from sokovan.sdk.errors import InvalidSetting
from sokovan.wire.api.tenancy import PolicyBody

if TYPE_CHECKING:
    from sokovan.sdk.sync.client import Client

OWNERS = ("user", "group", "domain")

COLUMNS: list[Column[PolicyBody]] = [
    Column("name", lambda policy: policy.name),
    Column("slots", lambda policy: amounts_text(policy.slots_max)),
    Column("sessions", lambda policy: or_none(policy.sessions_max)),
    Column("pending", lambda policy: or_none(policy.pending_sessions_max)),
    Column("kernels", lambda policy: or_none(policy.kernels_per_session_max)),
    Column("priority", lambda policy: or_none(policy.priority_max)),
]


def ls(*, shown: OutputOptions = TABLE_OUTPUT) -> int:
    """List limits.

    For example:
      sokovan quota ls
    """
    return list_all(shown, COLUMNS, lambda client: client.policies.list())


def show(name: str, /, *, shown: OutputOptions = TABLE_OUTPUT) -> int:
    """Show one set of limits.

    For example:
      sokovan quota show students
      sokovan quota show group:nlp

    Parameters
    ----------
    name
        Its name, or an owner: user:NAME, group:NAME, domain:NAME.
    """
    return show_named(shown, COLUMNS, lambda client: client.policies.get(policy_of(name)))


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Limits that are plain numbers; what is not said stays."""

    sessions: Annotated[int | None, Parameter(help="How many sessions at once.")] = None
    pending: Annotated[int | None, Parameter(help="How many sessions may wait.")] = None
    kernels: Annotated[int | None, Parameter(help="How many kernels a session may have.")] = None
    priority: Annotated[int | None, Parameter(help="The highest priority to ask for; 100, if not said.")] = None


AS_THEY_ARE = Counts()


def change(name: str, /, *amounts: str, counts: Counts = AS_THEY_ARE, server: ActionOptions = DEFAULT_ACTION) -> int:
    """Make limits, change them, or put an owner under them.

    A plain name is a set of limits that many may share. An owner, as group:nlp, gets limits of his own.

    For example:
      sokovan quota set students gpu=8 cpu=64 --sessions 10
      sokovan quota set group:nlp gpu=64

    Parameters
    ----------
    name
        A name, or an owner: user:NAME, group:NAME, domain:NAME.
    amounts
        How much at once: gpu=64 mem=512GiB.
    """
    policy = policy_of(name)
    said = {
        "slots_max": read_amounts(amounts, option="quota set"),
        "sessions_max": counts.sessions,
        "pending_sessions_max": counts.pending,
        "kernels_per_session_max": counts.kernels,
        "priority_max": counts.priority,
    }
    with server.client() as client:
        body, is_new = changed(lambda: client.policies.get(policy), lambda: PolicyBody(name=policy), said)
        kept = client.policies.put(body)
        if ":" in name:
            _put_under(client, name, policy)
    return tell_changed(server, "quota", kept, is_new=is_new)


def remove(name: str, /, *, yes: Yes = False, server: ServerOptions = DEFAULT_SERVER) -> int:
    """Remove limits.

    For example:
      sokovan quota rm students --yes

    Parameters
    ----------
    name
        Its name, or an owner.
    """
    policy = policy_of(name)
    return remove_named(
        server,
        "quota",
        name,
        yes=yes,
        look=lambda client: client.policies.get(policy),
        act=lambda client: client.policies.delete(policy),
    )


def policy_of(name: str) -> str:
    """The name of the policy that is meant. Raises InvalidSetting."""
    kind, colon, owner = name.partition(":")
    if not colon:
        return name
    if kind not in OWNERS or not owner:
        raise InvalidSetting(f"{name[:80]!r} is no owner", hint="write user:NAME, group:NAME or domain:NAME")
    return f"{kind}.{owner}"


def _put_under(client: Client, name: str, policy: str) -> None:
    kind, _, owner = name.partition(":")
    if kind == "user":
        client.users.put(replace(client.users.get(owner), policy=policy))
    elif kind == "group":
        client.groups.put(replace(client.groups.get(owner), policy=policy))
    else:
        client.domains.put(replace(client.domains.get(owner), policy=policy))
    print_status(f"{kind} {owner} is under quota {policy}")
