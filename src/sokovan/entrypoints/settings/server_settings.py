"""The server settings, read from a configuration and validated as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import ScalingGroupName
from sokovan.entrypoints.settings.scaling_group_settings import GROUP_KEYS, OPTIONS, ScalingGroupReader
from sokovan.entrypoints.settings.setting_kinds import (
    InvalidSettings,
    SettingInfo,
    SettingProblem,
    section_of,
    settings_in,
    unknown,
    with_origins,
)
from sokovan.entrypoints.settings.setting_sections import (
    SECTIONS,
    AgentSettings,
    ApiServerSettings,
    ClusterSettings,
    ConfigSettings,
    CopySettings,
    LogSettings,
    OrchestratorSettings,
    OutputSettings,
    ProxySettings,
    RetentionSettings,
    SchedulerSettings,
    StorageSettings,
    UploadSettings,
    ValkeySettings,
)
from sokovan.scheduling.registry import PluginRegistry

__all__ = ["InvalidSettings", "ServerSettings", "SettingProblem", "settings_of"]

GROUPS = "scaling_groups"
_NOWHERE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """All settings, each within its bounds, and the configured scaling groups."""

    scaling_groups: Mapping[ScalingGroupName, ScalingGroup] = field(default_factory=dict)
    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)
    orchestrator: OrchestratorSettings = field(default_factory=OrchestratorSettings)
    agent: AgentSettings = field(default_factory=AgentSettings)
    api: ApiServerSettings = field(default_factory=ApiServerSettings)
    proxy: ProxySettings = field(default_factory=ProxySettings)
    uploads: UploadSettings = field(default_factory=UploadSettings)
    outputs: OutputSettings = field(default_factory=OutputSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    copies: CopySettings = field(default_factory=CopySettings)
    storage: StorageSettings = field(default_factory=StorageSettings)
    log: LogSettings = field(default_factory=LogSettings)
    config: ConfigSettings = field(default_factory=ConfigSettings)
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    valkey: ValkeySettings = field(default_factory=ValkeySettings)

    def value(self, path: str) -> Any:
        """The value of a setting, such as `scheduler.batch_max`."""
        section, _, setting = path.partition(".")
        return getattr(getattr(self, section), setting)

    def with_hot(self, requested: ServerSettings) -> ServerSettings:
        """These settings with the hot ones of `requested`; the others need a restart."""
        sections = {
            name: replace(getattr(self, name), **{key: requested.value(f"{name}.{key}") for key in _hot_in(section)})
            for name, section in SECTIONS.items()
        }
        return replace(requested, **sections)

    def differences(self, other: ServerSettings) -> list[str]:
        """Paths of the settings that differ, without values, which may be secret."""
        groups = self.scaling_groups.keys() | other.scaling_groups.keys()
        changed = [name for name in groups if self.scaling_groups.get(name) != other.scaling_groups.get(name)]
        return [f"{GROUPS}.{name}" for name in sorted(changed)] + [
            path for path in single_settings() if self.value(path) != other.value(path)
        ]


def settings_of(
    values: Mapping[str, object], registry: PluginRegistry | None = None, *, origins: Mapping[str, str] = _NOWHERE
) -> ServerSettings:
    """Read and validate the settings of a configuration.

    With a registry, all named plugins must be in it. `origins` are the places of the
    values by path. Raises InvalidSettings with all problems.
    """
    known = (GROUPS, *SECTIONS)
    problems = [SettingProblem(key, unknown(key, known)) for key in values if key not in known]
    groups = ScalingGroupReader(problems, registry).groups(values.get(GROUPS, {}))
    sections: dict[str, Any] = {key: _section(key, values.get(key, {}), problems) for key in SECTIONS}
    if problems:
        raise InvalidSettings(with_origins(problems, origins))
    return ServerSettings(scaling_groups=groups, **sections)


def single_settings() -> dict[str, tuple[SettingInfo, object]]:
    """The settings of all sections by path: description and default."""
    return {
        f"{path}.{name}": found for path, section in SECTIONS.items() for name, found in settings_in(section).items()
    }


def described() -> Iterator[tuple[str, SettingInfo, object]]:
    """All settings, those of scaling groups too: path, description and default."""
    for path, keys in ((f"{GROUPS}.NAME", GROUP_KEYS), (f"{GROUPS}.NAME.scheduler_opts", OPTIONS)):
        for name, (info, default) in keys.items():
            yield f"{path}.{name}", replace(info, hot=True), default
    for path, (info, default) in single_settings().items():
        yield path, info, default


def _section(key: str, value: object, problems: list[SettingProblem]) -> Any:
    before = len(problems)
    section: Any = section_of(SECTIONS[key], value, path=key, problems=problems)
    if len(problems) == before and hasattr(section, "contradictions"):
        problems += [SettingProblem(f"{key}.{setting}", text) for setting, text in section.contradictions()]
    return section


def _hot_in(section: type) -> list[str]:
    return [one.name for one in fields(section) if one.metadata["info"].hot]
