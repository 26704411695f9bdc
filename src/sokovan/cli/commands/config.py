"""`sokovan config show`: the effective settings of the client."""

from __future__ import annotations

from sokovan.cli.commands.options import TABLE_OUTPUT, Flag, OutputOptions
from sokovan.cli.exit_codes import OK
from sokovan.cli.formatting import NONE
from sokovan.cli.rendering import Column, show_all
from sokovan.sdk.settings import Setting

HIDDEN = "(hidden)"


def show(*, origin: Flag = False, output: OutputOptions = TABLE_OUTPUT) -> int:
    """Show the effective settings and their origin.

    Precedence: flag, environment, the project's .sokovan.toml, context,
    default. The API key is hidden.

    For example:
      sokovan config show --origin
      sokovan config show --json

    Parameters
    ----------
    origin
        Show where each value comes from.
    """
    fmt, settings = output.format(), output.settings()
    lines = [_without_secret(setting) for setting in settings.by_name.values()]
    columns: list[Column[Setting]] = [
        Column("name", lambda one: one.name),
        Column("value", lambda one: one.value or NONE),
        Column("origin", lambda one: one.origin, wide=not origin),
    ]
    show_all(lines, columns, fmt, name=lambda one: one.name)
    return OK


def _without_secret(setting: Setting) -> Setting:
    if setting.name != "token" or not setting.value:
        return setting
    return Setting(setting.name, HIDDEN, setting.origin)
