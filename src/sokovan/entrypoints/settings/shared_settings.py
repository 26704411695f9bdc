"""Pushes a configuration file to etcd, where managers share it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.toml_files import read_files
from sokovan.domain.errors import InvalidInput
from sokovan.entrypoints.plugins import installed_plugins
from sokovan.entrypoints.settings.server_settings import settings_of, single_settings
from sokovan.entrypoints.settings.setting_kinds import InvalidSettings, SettingProblem, with_origins
from sokovan.entrypoints.settings.setting_sources import SettingFileMissing, SettingSources
from sokovan.ports.config import ConfigStore, ConfigTree, ConfigValue, setting_path

# The section with the address of the shared configuration, which is read before it.
OWN_SECTION = "config"


class NothingShared(InvalidInput):
    """The configuration of this machine names no shared one."""

    code = "nothing-shared"
    hint = "name it: --set config.url=etcd://HOST:2379, or in the file of --config"


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A setting that differs; None where it is missing. Passwords are hidden."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class PushedSettings:
    """The difference to the shared configuration, and its revision before or after it.

    `restart` are the settings that managers apply after a restart only.
    """

    changes: tuple[SettingChange, ...]
    restart: tuple[str, ...]
    revision: str


async def push_settings(file: Path, sources: SettingSources, *, dry_run: bool = False) -> PushedSettings:
    """Replace the shared configuration with that of a file, if it is valid.

    Both alone and with what this machine sets, as a manager here would read it. What the
    file does not have is removed. A configuration that changed since it was compared is left
    as it is. Raises SettingFileMissing, NothingShared, InvalidSettings, UnreadableConfig,
    ConfigUnavailable, ConfigConflict.
    """
    config = sources.read().config
    if config.url.startswith("file:"):
        raise NothingShared(f"config.url is {config.url}, which is no configuration that managers share")
    wanted = _read(file)
    _validate(wanted, sources)
    store = sources.store(config, clock=SystemClock())
    try:
        return await push_tree(store, wanted, dry_run=dry_run)
    finally:
        await store.close()


async def push_tree(store: ConfigStore, wanted: ConfigTree, *, dry_run: bool = False) -> PushedSettings:
    """Make a stored configuration equal to this one.

    Raises ConfigUnavailable, UnreadableConfig, and ConfigConflict if it changed meanwhile.
    """
    before = await store.read()
    changes = tuple(_differences(before.values, wanted.values))
    revision = before.revision
    if changes and not dry_run:
        sections = {name: wanted.values.get(name) for name in {**before.values, **wanted.values}}
        revision = (await store.write(sections, expected=before.revision)).revision
    known = single_settings()
    restart = tuple(one.name for one in changes if one.name in known and not known[one.name][0].hot)
    return PushedSettings(changes, restart, revision)


def _read(file: Path) -> ConfigTree:
    """The configuration in a file. Raises SettingFileMissing, UnreadableConfig, InvalidInput."""
    if not file.is_file():
        raise SettingFileMissing(f"there is no file {file}", hint="name the file to push")
    found = read_files(file, None)
    if found.is_blank:  # a file that was truncated must not remove everything
        raise InvalidInput(f"{file} is empty", hint="to remove every shared setting, push a file with a comment only")
    return found.tree()


def _validate(wanted: ConfigTree, sources: SettingSources) -> None:
    """Require a valid configuration. Raises InvalidSettings."""
    if OWN_SECTION in wanted.values:
        problem = SettingProblem(OWN_SECTION, "is where the shared configuration is; set it on each machine")
        raise InvalidSettings(with_origins([problem], wanted.origins))
    registry = installed_plugins()
    settings_of(wanted.values, registry, origins=wanted.origins)
    whole = sources.over_shared(wanted)
    settings_of(whole.values, registry, origins=whole.origins)


def _differences(before: Mapping[str, ConfigValue], after: Mapping[str, ConfigValue]) -> Iterator[SettingChange]:
    """The settings that differ, by name."""
    old, new = dict(_leaves(before)), dict(_leaves(after))
    for path in sorted({*old, *new}):
        if _text(old.get(path)) != _text(new.get(path)):
            yield SettingChange(path, *(_shown(path, values.get(path)) for values in (old, new)))


def _leaves(values: Mapping[str, ConfigValue], *above: str) -> Iterator[tuple[str, ConfigValue]]:
    """Each value that is no table, or an empty one, with its path."""
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, *above, name)
        else:
            yield setting_path(*above, name), value


def _text(value: ConfigValue | None) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _shown(path: str, value: ConfigValue | None) -> str | None:
    known = single_settings().get(path)
    shown = value if known is None or value is None else known[0].shown(value)
    return None if shown is None else json.dumps(shown, ensure_ascii=False, sort_keys=True)
