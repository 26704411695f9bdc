"""The place of each option: command, spec file, API, SDK, and views."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_args, get_type_hints

from sokovan.cli.arguments.parameters import Parameter
from sokovan.cli.commands.catalog.catalog_nouns import CATALOG
from sokovan.cli.commands.sessions.session_options import SessionFlags
from sokovan.scheduling.profile import SCHEDULER_OPTIONS
from sokovan.sdk.spec.session_spec import SESSION_FIELDS
from sokovan.wire.api.sessions import KernelView, RunOptions, SessionBody, SessionView

INTRODUCTION = """\
# Where each option is exposed

A session is described by the flags of `run`, `plan` and `shell`, by a spec file, by the body of
`POST /api/v1/sessions`, or by arguments of the SDK's `run()`. *Shown as* is the field of `session show --json` and of
`GET /api/v1/sessions/{ref}`; `kernels[]` is a field of each kernel.

| API field | Flag of `run` | Key of a spec file | Argument of `run()` | Shown as |
|---|---|---|---|---|
"""
OBJECTS = """
## Objects of the cluster

Each is set by `sokovan NOUN set`, by `PUT /api/v1/...` and by `client.NOUNS.put()` of the SDK, and shown by
`sokovan NOUN show`, `GET` and `client.NOUNS.get()`, under the name of its API field. An empty text (`''`) restores the
default.

| Noun | Option of `set` | API field |
|---|---|---|
"""
SCHEDULER = """
## Options of the scheduler

They belong to a scaling group: `sokovan scaling-group set NAME --option NAME=VALUE`, the field `scheduler_opts` of the
API and of the SDK, `scaling_groups.NAME.scheduler_opts` of [the settings](settings.md), and `profile` of
[a scenario](scenarios.md): {options}.
"""
NONE = "-"
# Fields of a request that are shown under another name.
SHOWN_AS = {
    "resources": "slots",
    "time_limit": "time_limit_s",
    "idle_timeout": "idle_timeout_s",
    "stop_grace": "stop_grace_s",
    "checkpoint": "checkpoint_s",
    "groups": "kernels[].role",
}
POSITIONAL = {"command": "-- COMMAND"}
# Flags and arguments for a part of a field.
PARTS = {"resources": ("cpus", "mem", "gpus"), "retry": ("attempts",)}


def page() -> str:
    """The page of all options of sessions and objects."""
    rows = [
        f"| `{name}` | {_flags(name)} | {_key(name)} | {_arguments(name)} | {_shown(name)} |\n" for name in _fields()
    ]
    objects = [
        f"| {noun} | `{'SLOT=AMOUNT' if option.positional else option.flag}` | `{option.field}` |\n"
        for noun, one in CATALOG.items()
        for option in one.options
    ]
    scheduler = SCHEDULER.format(options=", ".join(f"`{name}`" for name in sorted(SCHEDULER_OPTIONS)))
    return "".join((INTRODUCTION, *rows, OBJECTS, *objects, scheduler))


def _fields() -> list[str]:
    return [one.name for one in fields(SessionBody)]


def _flags(name: str) -> str:
    if name in POSITIONAL:
        return f"`{POSITIONAL[name]}`"
    hints = get_type_hints(SessionFlags, include_extras=True)
    return _listed(_flag(each, hints[each]) for each in (name, *PARTS.get(name, ())) if each in hints)


def _flag(name: str, hint: Any) -> str:
    parameter = next(each for each in get_args(hint) if isinstance(each, Parameter))
    return parameter.names[0] if parameter.names else f"--{name.replace('_', '-')}"


def _key(name: str) -> str:
    return _listed(key for key, one in SESSION_FIELDS.items() if one.wire == name)


def _arguments(name: str) -> str:
    known = {*POSITIONAL, *RunOptions.__annotations__}
    return _listed(each for each in (name, *PARTS.get(name, ())) if each in known)


def _shown(name: str) -> str:
    if name in SHOWN_AS or name in SessionView.__dataclass_fields__:
        return f"`{SHOWN_AS.get(name, name)}`"
    return f"`kernels[].{name}`" if name in KernelView.__dataclass_fields__ else NONE


def _listed(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names) or NONE
