"""`sokovan config server`: the settings of the server, or the check of a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from sokovan.cli.commands.options import TABLE_OUTPUT, Flag, OutputOptions
from sokovan.cli.exit_codes import OK
from sokovan.cli.formatting import NONE
from sokovan.cli.output import print_status
from sokovan.cli.rendering import Column, show_all
from sokovan.wire.api.system import SettingView


def server(*, check: Path | None = None, changed: Flag = False, output: OutputOptions = TABLE_OUTPUT) -> int:
    """Show the settings of the server, or check a file.

    Source of a value: default, FILE:LINE, the variable or the flag. For
    administrators; passwords are hidden. With --check, a configuration file is
    validated without a server, together with the variables of the environment.

    For example:
      sokovan config server --changed
      sokovan config server -o wide
      sokovan config server --check sokovan.toml

    Parameters
    ----------
    check
        Configuration file to validate; its values are shown.
    changed
        Show only values that differ from their default.
    """
    fmt = output.format()
    if check is not None:
        found, notices = _checked(check), [f"{check} is valid"]
    else:
        with output.client() as client:
            view = client.server_settings()
        found, notices = view.settings, view.notices
    columns: list[Column[SettingView]] = [
        Column("name", lambda one: one.name),
        Column("value", lambda one: _shown(one.value)),
        Column("source", lambda one: one.source),
        Column("default", lambda one: _shown(one.default), wide=True),
        Column("hot", lambda one: _shown(one.hot), wide=True),
        Column("variable", lambda one: one.variable or NONE, wide=True),
    ]
    shown = [one for one in found if not changed or one.value != one.default]
    show_all(shown, columns, fmt, name=lambda one: one.name)
    for notice in notices:
        print_status(notice)
    return OK


def _checked(file: Path) -> Sequence[SettingView]:
    from sokovan.entrypoints.embedded.data_folder import data_home  # noqa: PLC0415  # loads only here
    from sokovan.entrypoints.settings.effective_settings import setting_views  # noqa: PLC0415  # loads only here
    from sokovan.entrypoints.settings.setting_sources import sources_of  # noqa: PLC0415  # loads only here

    sources = sources_of(file, data_home(os.environ), environment=os.environ)
    return setting_views(sources.read_with_plugins(), sources.local_tree().origins)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(map(str, value)) or NONE
    return NONE if value is None or value == "" else str(value)
