"""`sokovan whoami`: who one is to the server."""

from __future__ import annotations

from sokovan.cli.commands.options import TABLE_OUTPUT, OutputOptions
from sokovan.cli.exit_codes import OK
from sokovan.cli.formatting import NONE
from sokovan.cli.rendering import show_one


def whoami(*, shown: OutputOptions = TABLE_OUTPUT) -> int:
    """Say who you are to the server.

    For example:
      sokovan whoami
    """
    form = shown.form()
    with shown.client() as client:
        me = client.whoami()
    facts = [
        ("user", me.user),
        ("role", me.role),
        ("domain", me.domain),
        ("groups", ", ".join(me.groups) or NONE),
        ("key", me.access_key),
    ]
    show_one(me, facts, form, name=me.user)
    return OK
