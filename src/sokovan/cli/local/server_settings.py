"""`sokovan config server` and `config push`: the settings of servers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from sokovan.cli.commands.options import TABLE_OUTPUT, Flag, OutputOptions
from sokovan.cli.errors import CommandError
from sokovan.cli.exit_codes import OK
from sokovan.cli.formatting import NONE
from sokovan.cli.local.setting_options import NO_SETTINGS, SettingOptions
from sokovan.cli.output import as_json, print_data, print_status
from sokovan.cli.rendering import Column, show_all
from sokovan.wire.api.system import SettingView

if TYPE_CHECKING:
    from sokovan.entrypoints.settings.shared_settings import PushedSettings, SettingChange


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


def push(file: Path, /, *, dry_run: Flag = False, settings: SettingOptions = NO_SETTINGS, json: Flag = False) -> int:
    """Push a configuration file to etcd.

    The configuration that managers share is replaced with the file, and the
    difference is printed. An invalid file is refused, and so is a push if the
    shared configuration changed meanwhile. The address is config.url of this
    machine. Managers apply hot settings at once.

    For example:
      sokovan config push shared.toml --config sokovan.toml --dry-run
      sokovan config push shared.toml --set config.url=etcd://etcd-1:2379

    Parameters
    ----------
    file
        File with all that managers share, as TOML.
    dry_run
        Validate the file and show the difference only.
    json
        Print the difference as JSON.
    """
    found = _pushed(file, settings, dry_run=dry_run)
    if json:
        print_data(as_json(asdict(found)))
    else:
        for one in found.changes:
            print_data(_change_text(one))
    if not found.changes:
        print_status("the shared configuration has all of this already")
    elif dry_run:
        print_status(f"{len(found.changes)} settings would change; nothing was written")
    else:
        print_status(f"{len(found.changes)} settings changed, revision {found.revision}")
    if found.restart:
        print_status(f"managers apply these after a restart: {', '.join(found.restart)}")
    return OK


def _pushed(file: Path, settings: SettingOptions, *, dry_run: bool) -> PushedSettings:
    import asyncio  # noqa: PLC0415  # loads only here

    from sokovan.entrypoints.embedded.data_folder import data_home  # noqa: PLC0415  # loads only here
    from sokovan.entrypoints.settings.setting_sources import sources_of  # noqa: PLC0415  # loads only here
    from sokovan.entrypoints.settings.shared_settings import push_settings  # noqa: PLC0415  # loads only here

    data = data_home(os.environ)
    sources = sources_of(settings.config, data, environment=os.environ, assignments=settings.set)
    try:
        return asyncio.run(push_settings(file, sources, dry_run=dry_run))
    except ModuleNotFoundError as error:
        hint = "install the client: pip install 'sokovan[etcd]'"
        raise CommandError(f"{error.name} is not installed", code="not-installed", hint=hint) from error


def _change_text(change: SettingChange) -> str:
    """A setting that differs: + is new, - is removed, ~ is another value."""
    if change.before is None:
        return f"+ {change.name} = {change.after}"
    if change.after is None:
        return f"- {change.name} = {change.before}"
    return f"~ {change.name} = {change.before} -> {change.after}"


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
