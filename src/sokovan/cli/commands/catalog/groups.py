"""`sokovan group`: projects."""

from __future__ import annotations

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
from sokovan.cli.formatting import or_none
from sokovan.cli.rendering import Column
from sokovan.wire.api.tenancy import GroupBody

COLUMNS: list[Column[GroupBody]] = [
    Column("name", lambda group: group.name),
    Column("domain", lambda group: group.domain),
    Column("quota", lambda group: or_none(group.policy)),
]


def ls(*, shown: OutputOptions = TABLE_OUTPUT) -> int:
    """List projects.

    For example:
      sokovan group ls
    """
    return list_all(shown, COLUMNS, lambda client: client.groups.list())


def show(name: str, /, *, shown: OutputOptions = TABLE_OUTPUT) -> int:
    """Show one project.

    For example:
      sokovan group show nlp

    Parameters
    ----------
    name
        Its name.
    """
    return show_named(shown, COLUMNS, lambda client: client.groups.get(name))


def change(
    name: str, /, *, domain: str | None = None, quota: str | None = None, server: ActionOptions = DEFAULT_ACTION
) -> int:
    """Make a project, or change one.

    For example:
      sokovan group set nlp --quota big

    Parameters
    ----------
    name
        Its name.
    domain
        The domain of a new one; your own, if not said.
    quota
        The limits it is under.
    """
    with server.client() as client:
        body, is_new = changed(
            lambda: client.groups.get(name),
            lambda: GroupBody(name=name, domain=domain or client.whoami().domain),
            {"policy": quota, "domain": domain},
        )
        kept = client.groups.put(body)
    return tell_changed(server, "group", kept, is_new=is_new)


def remove(name: str, /, *, yes: Yes = False, server: ServerOptions = DEFAULT_SERVER) -> int:
    """Remove a project.

    For example:
      sokovan group rm nlp --yes

    Parameters
    ----------
    name
        Its name.
    """
    return remove_named(
        server,
        "group",
        name,
        yes=yes,
        look=lambda client: client.groups.get(name),
        act=lambda client: client.groups.delete(name),
    )
