"""Every setting, with its default and its meaning."""

from __future__ import annotations

from sokovan.entrypoints.setting_kinds import SettingInfo
from sokovan.entrypoints.settings import described

INTRODUCTION = """\
# Settings

Settings are read from a TOML file and its drop-ins, or from etcd; [how to configure](../howto/configure.md) describes
both. They are validated as a whole: a configuration with mistakes is refused with all of them listed, and the previous
one stays in force.

A setting with *yes* under "hot" takes effect while the server runs; the others need a restart. `NAME` is the name of a
scaling group; if none is configured, there is one named `default`.

| Setting | Kind | Default | Hot | Meaning |
|---|---|---|---|---|
"""

REMARK = """
A key that is not listed is refused, in `scheduler_opts` too; the message names the most similar known one.
"""


def page() -> str:
    """The page of all settings, section by section."""
    rows = [_row(path, about, default, hot="yes" if is_hot else "no") for path, about, default, is_hot in described()]
    return INTRODUCTION + "".join(rows) + REMARK


def _row(path: str, about: SettingInfo, default: object, *, hot: str) -> str:
    return f"| `{path}` | {about.form} | {_shown(default)} | {hot} | {about.meaning} |\n"


def _shown(default: object) -> str:
    """A default in TOML notation."""
    if default is None:
        return "not set"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, list):
        names = [f'"{item}"' for item in default]
        return f"`[{', '.join(names)}]`"
    if isinstance(default, str):
        return f'`"{default}"`'
    return f"`{default}`"
