"""`sokovan whoami`: the authenticated user."""

from __future__ import annotations

from sokovan.cli.commands.options import TABLE_OUTPUT, OutputOptions
from sokovan.cli.exit_codes import OK
from sokovan.cli.formatting import NONE
from sokovan.cli.rendering import show_one


def whoami(*, output: OutputOptions = TABLE_OUTPUT) -> int:
    """Show the authenticated user.

    For example:
      sokovan whoami
    """
    fmt = output.format()
    with output.client() as client:
        me = client.whoami()
    facts = [
        ("user", me.user),
        ("role", me.role),
        ("domain", me.domain),
        ("groups", ", ".join(me.groups) or NONE),
        ("key", me.access_key),
        ("folders", ", ".join(me.folders) or NONE),
    ]
    show_one(me, facts, fmt, name=me.user)
    return OK
