"""The sources of settings: flags, environment, configuration file, defaults.

Precedence: a flag, a variable, the file of this machine, the configuration that managers
share in etcd, the default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sokovan.adapters.local.toml_config import TomlConfig
from sokovan.adapters.local.toml_files import merged, read_files
from sokovan.domain.errors import InvalidInput
from sokovan.entrypoints.settings.server_settings import ServerSettings, settings_of, single_settings
from sokovan.entrypoints.settings.setting_kinds import InvalidSettings, SettingProblem, with_origins
from sokovan.entrypoints.settings.setting_sections import ConfigSettings
from sokovan.ports.config import ConfigStore, ConfigTree, ConfigValue
from sokovan.ports.environment import Clock

FILE = "sokovan.toml"
DROP_INS = "conf.d"
FILE_VARIABLE = "SOKOVAN_CONFIG"
_PREFIX, _SEPARATOR = "SOKOVAN_", "__"


class SettingFileMissing(InvalidInput):
    """The configuration file that was named does not exist."""

    code = "setting-file-missing"
    hint = f"correct --config or {FILE_VARIABLE}"


@dataclass(frozen=True, slots=True)
class Override:
    """A value of a variable or a flag, with its name as the origin."""

    path: str
    value: ConfigValue
    origin: str


@dataclass(frozen=True, slots=True)
class SettingSources:
    """The file of this machine and, in order of precedence, what overrides it."""

    file: Path
    overrides: tuple[Override, ...] = ()

    def read(self) -> ServerSettings:
        """The settings of this machine; plugins are not looked up.

        Raises InvalidSettings, ConfigUnavailable, UnreadableConfig.
        """
        tree = self.local_tree()
        return settings_of(tree.values, origins=tree.origins)

    def read_with_plugins(self) -> ServerSettings:
        """The settings, of which every named plugin and allocator can be loaded."""
        from sokovan.entrypoints.allocators import allocator_factory  # noqa: PLC0415  # agents need no database
        from sokovan.entrypoints.plugins import installed_plugins  # noqa: PLC0415  # agents need no plugins

        tree = self.local_tree()
        settings = settings_of(tree.values, installed_plugins(), origins=tree.origins)
        try:
            allocator_factory(settings.scheduler.allocator)
        except InvalidInput as error:
            problem = SettingProblem("scheduler.allocator", error.message)
            raise InvalidSettings(with_origins([problem], tree.origins)) from error
        return settings

    def local_tree(self) -> ConfigTree:
        """File, variables and flags. Raises ConfigUnavailable, UnreadableConfig."""
        return self.over(read_files(self.file, self.file.parent / DROP_INS).tree())

    def over(self, tree: ConfigTree) -> ConfigTree:
        """The configuration with the variables and flags."""
        values, origins = dict(tree.values), dict(tree.origins)
        for one in self.overrides:
            section, _, setting = one.path.partition(".")
            if isinstance(values.get(section, {}), dict):  # else it is refused
                values = merged(values, {section: {setting: one.value}})
                origins[one.path] = one.origin
        return ConfigTree(values, tree.revision, origins)

    def over_shared(self, tree: ConfigTree) -> ConfigTree:
        """A shared configuration with all that this machine sets."""
        local = self.local_tree()
        return ConfigTree(merged(tree.values, local.values), tree.revision, {**tree.origins, **local.origins})

    def store(self, config: ConfigSettings, *, clock: Clock) -> ConfigStore:
        """The store of the configuration: the file, or etcd."""
        if config.url.startswith("file:"):
            return TomlConfig(self.file, clock=clock, drop_ins=self.file.parent / DROP_INS, poll_s=config.poll_s)
        from sokovan.adapters.etcd.access import EtcdAccess  # noqa: PLC0415  # an optional dependency
        from sokovan.adapters.etcd.config import EtcdConfig  # noqa: PLC0415  # an optional dependency

        scheme, _, hosts = config.url.partition("://")
        user, at, hosts = hosts.rpartition("@")
        username, _, password = user.partition(":") if at else ("", "", "")
        form = "https://{}" if scheme == "etcds" else "{}"
        certificate = Path(config.ca_file).read_bytes() if config.ca_file else None
        endpoints = tuple(form.format(host) for host in hosts.rstrip("/").split(","))
        access = EtcdAccess(endpoints, username=username, password=password, ca_certificate=certificate)
        return EtcdConfig(access, clock=clock)


def sources_of(
    file: Path | None,
    data: Path,
    *,
    environment: Mapping[str, str],
    flags: Mapping[str, object] | None = None,
    assignments: Iterable[str] = (),
) -> SettingSources:
    """The sources of a server on the folder `data`.

    `flags` are values by option, of which those that a setting names are used;
    `assignments` are texts like `scheduler.batch_max=50`. Raises SettingFileMissing,
    InvalidInput.
    """
    named = file or (Path(environment[FILE_VARIABLE]) if environment.get(FILE_VARIABLE) else None)
    if named is not None and not named.exists():
        raise SettingFileMissing(f"there is no file {named}")
    overrides = (*_from_environment(environment), *map(_assigned, assignments), *_from_flags(flags or {}))
    return SettingSources((named or data / FILE).absolute(), overrides)


def variable_of(path: str) -> str:
    """The variable of a setting.

    >>> variable_of("scheduler.batch_max")
    'SOKOVAN_SCHEDULER__BATCH_MAX'
    """
    return f"{_PREFIX}{path.replace('.', _SEPARATOR).upper()}"


def setting_variables(environment: Mapping[str, str]) -> list[str]:
    """The variables that set a setting: those with two underscores in a row."""
    return sorted(
        name for name, value in environment.items() if name.startswith(_PREFIX) and _SEPARATOR in name and value
    )


def _from_environment(environment: Mapping[str, str]) -> list[Override]:
    """The settings of variables; an unknown one is refused like a key."""
    return [
        _override(name.removeprefix(_PREFIX).lower().replace(_SEPARATOR, ".", 1), environment[name], name)
        for name in setting_variables(environment)
    ]


def _assigned(assignment: str) -> Override:
    path, equals, text = assignment.partition("=")
    if not equals or "." not in path:
        raise InvalidInput(f"--set {assignment[:80]!r} is not SETTING=VALUE", hint="use --set scheduler.batch_max=50")
    return _override(path, text, f"--set {path}")


def _from_flags(flags: Mapping[str, object]) -> list[Override]:
    settings = {info.flag: path for path, (info, _) in single_settings().items() if info.flag}
    given = {flag: value for flag, value in flags.items() if flag in settings and _is_given(value)}
    return [Override(settings[flag], _flag_value(flag, value), flag) for flag, value in given.items()]


def _is_given(value: object) -> bool:
    return not (value is None or value is False or value in ("", ()))


def _flag_value(flag: str, value: object) -> ConfigValue:
    if isinstance(value, tuple):
        return list(value)
    return False if flag.startswith("--no-") else value  # type: ignore[return-value]  # a value of an option


def _override(path: str, text: str, origin: str) -> Override:
    known = single_settings().get(path)
    return Override(path, known[0].read(text) if known else text, origin)
