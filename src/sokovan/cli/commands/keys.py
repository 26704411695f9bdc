"""`sokovan key`: list, create, limit and revoke API keys."""

from __future__ import annotations

from sokovan.cli.commands.catalog.catalog_actions import list_all
from sokovan.cli.commands.options import (
    DEFAULT_ACTION,
    DEFAULT_SERVER,
    TABLE_OUTPUT,
    ActionOptions,
    OutputOptions,
    ServerOptions,
    Yes,
)
from sokovan.cli.exit_codes import OK
from sokovan.cli.formatting import or_none
from sokovan.cli.output import print_status
from sokovan.cli.prompts import confirm
from sokovan.cli.rendering import Column, show_one
from sokovan.wire.api.tenancy import KeyView

COLUMNS: list[Column[KeyView]] = [
    Column("key", lambda key: key.access_key),
    Column("user", lambda key: key.user),
    Column("active", lambda key: "yes" if key.active else "no"),
    Column("quota", lambda key: or_none(key.policy)),
]


def ls(*, output: OutputOptions = TABLE_OUTPUT) -> int:
    """List API keys.

    Secrets are not shown.

    For example:
      sokovan key ls
    """
    return list_all(output, COLUMNS, lambda client: client.keys.list(), key="access_key")


def add(user: str | None = None, /, *, quota: str | None = None, output: OutputOptions = TABLE_OUTPUT) -> int:
    """Create an API key.

    The token is printed once and cannot be shown again.

    For example:
      sokovan key add
      sokovan key add ada --json

    Parameters
    ----------
    user
        Owner of the key; default: yourself.
    quota
        Quota to apply to this key.
    """
    fmt = output.format()
    with output.client() as client:
        created = client.keys.create(user or client.whoami().user, policy=quota)
    facts = [("key", created.access_key), ("user", created.user), ("token", created.token)]
    show_one(created, facts, fmt, name=created.access_key)
    print_status("the token is not shown again; store it now, or add it with sokovan context add")
    return OK


def set_quota(key: str, /, *, quota: str, server: ActionOptions = DEFAULT_ACTION) -> int:
    """Set the quota of an API key.

    Sessions that run are not ended by it.

    For example:
      sokovan key set AK-01JCN8 --quota students
      sokovan key set AK-01JCN8 --quota ''

    Parameters
    ----------
    key
        Key ID as listed by sokovan key ls, not the token.
    quota
        Quota to apply to this key; an empty text removes it.
    """
    with server.client() as client:
        client.keys.set(key, policy=quota or None)
    print_status(f"API key {key} has quota {quota}" if quota else f"API key {key} has no quota of its own")
    return OK


def remove(key: str, /, *, yes: Yes = False, server: ServerOptions = DEFAULT_SERVER) -> int:
    """Revoke an API key.

    For example:
      sokovan key rm AK-01JCN8 --yes

    Parameters
    ----------
    key
        Key ID as listed by sokovan key ls, not the token.
    """
    confirm(f"revoke API key {key}", yes=yes)
    with server.client() as client:
        client.keys.delete(key)
    print_status(f"API key {key} revoked")
    return OK
