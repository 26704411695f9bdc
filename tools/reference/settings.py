"""Every setting, with its default and its meaning."""

from __future__ import annotations

from sokovan.entrypoints.settings.server_settings import described
from sokovan.entrypoints.settings.setting_kinds import SettingInfo

INTRODUCTION = """\
# Settings

A setting comes from a flag, a variable, the configuration file, the configuration that managers share in etcd, or its
default; the first of these that has it wins. [How to configure](../howto/configure.md) describes them. All settings are
validated as a whole: a configuration with mistakes is refused with all of them listed, and nothing is applied.
`sokovan config server` shows the values of a running server and where each comes from.

A setting with *yes* under "hot" takes effect while the server runs; the others need a restart. The variable of a
setting is `SOKOVAN_SECTION__SETTING`, as `SOKOVAN_SCHEDULER__BATCH_MAX`; every setting can be given by
`--set SECTION.SETTING=VALUE`, and some by a flag of their own. `NAME` is the name of a scaling group; these are set in
the file, or by `sokovan scaling-group set`.

| Setting | Kind | Default | Hot | Flag | Meaning |
|---|---|---|---|---|---|
"""

REMARK = """
A key that is not listed is refused, in `scheduler_opts` too; the message names its place and the most similar key.
"""


def page() -> str:
    """The page of all settings, section by section."""
    return INTRODUCTION + "".join(_row(path, about, default) for path, about, default in described()) + REMARK


def _row(path: str, about: SettingInfo, default: object) -> str:
    hot, flag = "yes" if about.hot else "no", f"`{about.flag}`" if about.flag else ""
    return f"| `{path}` | {about.form} | {_shown(default)} | {hot} | {flag} | {about.meaning} |\n"


def _shown(default: object) -> str:
    """A default in TOML notation."""
    if default is None:
        return "not set"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, list | tuple):
        names = [f'"{item}"' for item in default]
        return f"`[{', '.join(names)}]`"
    if isinstance(default, str):
        return f'`"{default}"`'
    return f"`{default}`"
