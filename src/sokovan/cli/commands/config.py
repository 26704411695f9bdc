"""`sokovan config`: what this client goes by."""

from __future__ import annotations

from sokovan.cli.commands.options import TABLE_OUTPUT, Flag, OutputOptions
from sokovan.cli.exit_codes import OK
from sokovan.cli.formatting import NONE
from sokovan.cli.rendering import Column, show_all
from sokovan.sdk.settings import Setting

HIDDEN = "(hidden)"


def show(*, origin: Flag = False, shown: OutputOptions = TABLE_OUTPUT) -> int:
    """Show what this client goes by, and where it comes from.

    A flag wins over the environment, the environment over the project's .sokovan.toml, that over the context, and the
    context over the default. The key is not shown.

    For example:
      sokovan config show --origin
      sokovan config show --json

    Parameters
    ----------
    origin
        Say where each value comes from.
    """
    form, settings = shown.form(), shown.settings()
    lines = [_shown(setting) for setting in settings.by_name.values()]
    columns: list[Column[Setting]] = [
        Column("name", lambda one: one.name),
        Column("value", lambda one: one.value or NONE),
        Column("origin", lambda one: one.origin, wide=not origin),
    ]
    show_all(lines, columns, form, name=lambda one: one.name)
    return OK


def _shown(setting: Setting) -> Setting:
    if setting.name != "token" or not setting.value:
        return setting
    return Setting(setting.name, HIDDEN, setting.origin)
