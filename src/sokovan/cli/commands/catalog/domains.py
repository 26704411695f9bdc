"""`sokovan domain`: the widest tenants."""

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
from sokovan.wire.api.tenancy import DomainBody

COLUMNS: list[Column[DomainBody]] = [
    Column("name", lambda domain: domain.name),
    Column("quota", lambda domain: or_none(domain.policy)),
]


def ls(*, shown: OutputOptions = TABLE_OUTPUT) -> int:
    """List domains.

    For example:
      sokovan domain ls
    """
    return list_all(shown, COLUMNS, lambda client: client.domains.list())


def show(name: str, /, *, shown: OutputOptions = TABLE_OUTPUT) -> int:
    """Show one domain.

    For example:
      sokovan domain show default

    Parameters
    ----------
    name
        Its name.
    """
    return show_named(shown, COLUMNS, lambda client: client.domains.get(name))


def change(name: str, /, *, quota: str | None = None, server: ActionOptions = DEFAULT_ACTION) -> int:
    """Make a domain, or change one.

    For example:
      sokovan domain set physics --quota big

    Parameters
    ----------
    name
        Its name.
    quota
        The limits it is under.
    """
    with server.client() as client:
        body, is_new = changed(lambda: client.domains.get(name), lambda: DomainBody(name=name), {"policy": quota})
        kept = client.domains.put(body)
    return tell_changed(server, "domain", kept, is_new=is_new)


def remove(name: str, /, *, yes: Yes = False, server: ServerOptions = DEFAULT_SERVER) -> int:
    """Remove a domain.

    For example:
      sokovan domain rm physics --yes

    Parameters
    ----------
    name
        Its name.
    """
    return remove_named(
        server,
        "domain",
        name,
        yes=yes,
        look=lambda client: client.domains.get(name),
        act=lambda client: client.domains.delete(name),
    )
