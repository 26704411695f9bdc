"""Every setting, with its default and its meaning."""

from __future__ import annotations

from sokovan.entrypoints.setting_kinds import About
from sokovan.entrypoints.settings import described

INTRODUCTION = """\
# Settings

Settings are read from a TOML file and its drop-ins, or from etcd; [how to configure](../howto/configure.md) says where
and how. They are checked as a whole: a configuration with a mistake in it is refused with every mistake named, and what
was in force before stays.

A setting whose row says *yes* under "hot" takes effect while the server runs; the others need a restart. `NAME` stands
for the name of a scaling group; without any there is one, `default`.

| Setting | Kind | Default | Hot | Meaning |
|---|---|---|---|---|
"""

REMARK = """
In `scheduler_opts` further keys are allowed: they are kept for plugins. One that almost has the name of a known option
is refused as a slip.
"""


def page() -> str:
    """The page of all settings, section by section."""
    rows = [_row(path, about, default, hot="yes" if is_hot else "no") for path, about, default, is_hot in described()]
    return INTRODUCTION + "".join(rows) + REMARK


def _row(path: str, about: About, default: object, *, hot: str) -> str:
    return f"| `{path}` | {about.form} | {_shown(default)} | {hot} | {about.meaning} |\n"


def _shown(default: object) -> str:
    """A default as TOML has it."""
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
