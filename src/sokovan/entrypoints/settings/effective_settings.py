"""Describes the settings in force, each with its source."""

from __future__ import annotations

from collections.abc import Mapping

from sokovan.entrypoints.settings.live_settings import LiveSettings
from sokovan.entrypoints.settings.server_settings import GROUPS, ServerSettings, single_settings
from sokovan.entrypoints.settings.setting_kinds import origin_of
from sokovan.entrypoints.settings.setting_sources import variable_of
from sokovan.ports.config import setting_path
from sokovan.wire.api.system import ServerSettingsView, SettingView

DEFAULT = "default"


def effective_settings(live: LiveSettings) -> ServerSettingsView:
    """The settings in force, and what of the configuration is not applied."""
    notices = [notice.text for notice in live.notices]
    return ServerSettingsView(settings=setting_views(live.current, live.origins), notices=notices)


def setting_views(settings: ServerSettings, origins: Mapping[str, str]) -> list[SettingView]:
    """Every setting with its value and source; of scaling groups, those configured."""
    groups = [
        SettingView(
            name=setting_path(GROUPS, name),
            value=f"scheduler {group.scheduler}",
            source=origin_of(setting_path(GROUPS, name), origins),
            default=None,
            hot=True,
        )
        for name, group in settings.scaling_groups.items()
    ]
    return groups + [_view(path, settings.value(path), origins) for path in single_settings()]


def _view(path: str, value: object, origins: Mapping[str, str]) -> SettingView:
    info, default = single_settings()[path]
    # A key of etcd has the origin of its section, which other settings of the section do not share.
    source = origins.get(path) or (origin_of(path, origins) if value != default else "") or DEFAULT
    return SettingView(
        name=path,
        value=info.shown(value),
        source=source,
        default=info.shown(default),
        hot=info.hot,
        variable=variable_of(path),
    )
