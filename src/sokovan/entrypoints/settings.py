"""The server settings, read from a configuration and validated as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import DEFAULT_SCALING_GROUP, ScalingGroupName
from sokovan.entrypoints.scaling_group_settings import GROUP_KEYS, OPTIONS, ScalingGroupReader
from sokovan.entrypoints.setting_kinds import (
    InvalidSettings,
    SettingInfo,
    SettingProblem,
    name,
    section_of,
    settings_in,
    unknown,
    url,
    whole,
)
from sokovan.scheduling.registry import PluginRegistry

__all__ = ["InvalidSettings", "ServerSettings", "SettingProblem", "settings_of"]

DAY_S = 24 * 3600


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """Intervals and batch size of the scheduler."""

    short_cycle_ms: int = whole(20, "Minimum time between two cycles triggered by hints.", least=1, most=60_000)
    long_cycle_s: int = whole(10, "Time between two cycles without a hint.", least=1, most=3600)
    batch_max: int = whole(500, "Maximum number of sessions started in one transaction.", least=1, most=100_000)
    allocator: str = name("repository", "The allocator that applies plans.")

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Settings that are valid alone but contradict each other."""
        if self.short_cycle_ms > self.long_cycle_s * 1000:
            yield (
                "short_cycle_ms",
                f"{self.short_cycle_ms} ms must not be longer than long_cycle_s, {self.long_cycle_s} s",
            )


@dataclass(frozen=True, slots=True)
class OrchestratorSettings:
    """Heartbeat timeouts, mass failure protection, and agents that fail sessions."""

    agent_suspect_s: int = whole(15, "Heartbeat timeout after which an agent gets no new kernels.", least=1, most=DAY_S)
    agent_lost_s: int = whole(60, "Heartbeat timeout after which an agent counts as lost.", least=2, most=DAY_S)
    mass_loss_percent: int = whole(
        30, "If more than this share of the agents is lost at once, no session is ended.", least=1, most=100
    )

    agent_failing_sessions: int = whole(
        3, "Failed starts in a row, of different sessions, after which an agent gets no new kernels.", least=1, most=16
    )
    agent_failing_window_s: int = whole(600, "Time within which these starts failed.", least=1, most=DAY_S)

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Settings that are valid alone but contradict each other."""
        if self.agent_lost_s <= self.agent_suspect_s:
            yield "agent_lost_s", f"{self.agent_lost_s} must be more than agent_suspect_s, {self.agent_suspect_s}"


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """The database of the server."""

    url: str = url(
        "sqlite:///state.db",
        "`sqlite:///FILE` for one machine, `postgresql://USER:PASSWORD@HOST/NAME` for several managers.",
        schemes=("sqlite", "postgresql"),
    )


@dataclass(frozen=True, slots=True)
class BusSettings:
    """The bus for hints and events between processes."""

    url: str = url(
        "inprocess:",
        "`inprocess:` for one process, `valkey://HOST:PORT/0` for several.",
        schemes=("inprocess", "valkey", "valkeys", "redis", "rediss"),
    )


@dataclass(frozen=True, slots=True)
class ConfigSettings:
    """The location of the configuration; read from the local file only."""

    url: str = url(
        "file:",
        "`file:` for this file and its drop-ins, `etcd://HOST:PORT,HOST:PORT` for one that managers share.",
        schemes=("file", "etcd", "etcds"),
    )
    poll_s: int = whole(1, "Interval between checks of the file for changes.", least=1, most=3600)


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """All settings, each within its bounds.

    `hot` names the sections that can be reloaded while the server runs; the others are
    read at the start.
    """

    scaling_groups: Mapping[ScalingGroupName, ScalingGroup] = field(
        default_factory=lambda: {DEFAULT_SCALING_GROUP: ScalingGroup(DEFAULT_SCALING_GROUP)}
    )
    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)
    orchestrator: OrchestratorSettings = field(default_factory=OrchestratorSettings)
    storage: StorageSettings = field(default_factory=StorageSettings)
    bus: BusSettings = field(default_factory=BusSettings)
    config: ConfigSettings = field(default_factory=ConfigSettings)

    hot: ClassVar[tuple[str, ...]] = ("scaling_groups", "scheduler", "orchestrator")


SECTIONS: dict[str, type] = {
    "scheduler": SchedulerSettings,
    "orchestrator": OrchestratorSettings,
    "storage": StorageSettings,
    "bus": BusSettings,
    "config": ConfigSettings,
}


def settings_of(values: Mapping[str, object], registry: PluginRegistry | None = None) -> ServerSettings:
    """Read and validate the settings of a configuration.

    With a registry, all named plugins must be in it. Raises InvalidSettings with all
    problems.
    """
    known = ("scaling_groups", *SECTIONS)
    problems = [SettingProblem(key, unknown(key, known)) for key in values if key not in known]
    groups = ScalingGroupReader(problems, registry).groups(values.get("scaling_groups", {}))
    sections: dict[str, Any] = {key: _section(key, values.get(key, {}), problems) for key in SECTIONS}
    if problems:
        raise InvalidSettings(problems)
    return ServerSettings(scaling_groups=groups, **sections)


def _section(key: str, value: object, problems: list[SettingProblem]) -> Any:
    before = len(problems)
    section: Any = section_of(SECTIONS[key], value, path=key, problems=problems)
    if len(problems) == before and hasattr(section, "contradictions"):
        problems += [SettingProblem(f"{key}.{setting}", text) for setting, text in section.contradictions()]
    return section


def described() -> Iterator[tuple[str, SettingInfo, object, bool]]:
    """All settings: path, description, default, and whether it is hot."""
    groups = [("scaling_groups.NAME", GROUP_KEYS), ("scaling_groups.NAME.scheduler_opts", OPTIONS)]
    for path, keys in (*groups, *((path, settings_in(section)) for path, section in SECTIONS.items())):
        for setting, (info, default) in keys.items():
            yield f"{path}.{setting}", info, default, path.partition(".")[0] in ServerSettings.hot
