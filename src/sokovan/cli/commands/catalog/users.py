"""`sokovan user`: people and service accounts."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from sokovan.cli.commands.catalog.catalog import changed, list_all, remove_named, show_named, tell_changed
from sokovan.cli.commands.options import (
    DEFAULT_ACTION,
    DEFAULT_SERVER,
    TABLE_OUTPUT,
    ActionOptions,
    OutputOptions,
    ServerOptions,
    Yes,
)
from sokovan.cli.formatting import NONE, or_none
from sokovan.cli.rendering import Column
from sokovan.wire.api.tenancy import Role, UserBody

COLUMNS: list[Column[UserBody]] = [
    Column("name", lambda user: user.name),
    Column("role", lambda user: user.role),
    Column("domain", lambda user: user.domain),
    Column("groups", lambda user: ", ".join(user.groups) or NONE),
    Column("quota", lambda user: or_none(user.policy)),
]


def ls(*, shown: OutputOptions = TABLE_OUTPUT) -> int:
    """List users.

    For example:
      sokovan user ls
    """
    return list_all(shown, COLUMNS, lambda client: client.users.list())


def show(name: str, /, *, shown: OutputOptions = TABLE_OUTPUT) -> int:
    """Show one user.

    For example:
      sokovan user show ada

    Parameters
    ----------
    name
        The name.
    """
    return show_named(shown, COLUMNS, lambda client: client.users.get(name))


def change(
    name: str,
    /,
    *,
    domain: str | None = None,
    group: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    role: Role | None = None,
    quota: str | None = None,
    server: ActionOptions = DEFAULT_ACTION,
) -> int:
    """Make a user, or change one.

    A new user needs a key as well: sokovan key add NAME.

    For example:
      sokovan user set ada --group nlp --group vision
      sokovan user set ada --role domain-admin

    Parameters
    ----------
    name
        The name.
    domain
        The domain of a new one; your own, if not said.
    group
        A project the user is in. May be given repeatedly; together they replace those there are.
    role
        What the user may do.
    quota
        The limits the user is under.
    """
    with server.client() as client:
        body, is_new = changed(
            lambda: client.users.get(name),
            lambda: UserBody(name=name, domain=domain or client.whoami().domain),
            {"domain": domain, "groups": list(group) or None, "role": role, "policy": quota},
        )
        kept = client.users.put(body)
    return tell_changed(server, "user", kept, is_new=is_new)


def remove(name: str, /, *, yes: Yes = False, server: ServerOptions = DEFAULT_SERVER) -> int:
    """Remove a user.

    For example:
      sokovan user rm ada --yes

    Parameters
    ----------
    name
        The name.
    """
    return remove_named(
        server,
        "user",
        name,
        yes=yes,
        look=lambda client: client.users.get(name),
        act=lambda client: client.users.delete(name),
    )
