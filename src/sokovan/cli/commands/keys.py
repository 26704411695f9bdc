"""`sokovan key`: keys, by which callers show who they are."""

from __future__ import annotations

from sokovan.cli.commands.catalog.catalog import list_all
from sokovan.cli.commands.options import DEFAULT_SERVER, TABLE_OUTPUT, OutputOptions, ServerOptions, Yes
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


def ls(*, shown: OutputOptions = TABLE_OUTPUT) -> int:
    """List keys, without their secrets.

    For example:
      sokovan key ls
    """
    return list_all(shown, COLUMNS, lambda client: client.keys.list(), key="access_key")


def add(user: str | None = None, /, *, quota: str | None = None, shown: OutputOptions = TABLE_OUTPUT) -> int:
    """Make a key for a user; it is shown once.

    For example:
      sokovan key add
      sokovan key add ada --json

    Parameters
    ----------
    user
        For whom; for yourself, if not said.
    quota
        The limits of this key.
    """
    form = shown.form()
    with shown.client() as client:
        made = client.keys.create(user or client.whoami().user, policy=quota)
    show_one(made, [("key", made.access_key), ("user", made.user), ("token", made.token)], form, name=made.access_key)
    print_status("the token is shown this once; keep it, or add it with sokovan context add")
    return OK


def remove(key: str, /, *, yes: Yes = False, server: ServerOptions = DEFAULT_SERVER) -> int:
    """Make a key useless.

    For example:
      sokovan key rm AK-01JCN8 --yes

    Parameters
    ----------
    key
        The key as sokovan key ls lists it, not the token.
    """
    confirm(f"make key {key} useless", yes=yes)
    with server.client() as client:
        client.keys.delete(key)
    print_status(f"key {key} removed")
    return OK
