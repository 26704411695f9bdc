"""JSON types of errors, events, the caller, health and settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

# The ports of the API, of the agents of this machine, of the gateway, in examples of other machines' agents, and of
# the data listeners of those.
DEFAULT_PORT = 7646
LINK_PORT = 7647
GATEWAY_PORT = 7648
MACHINES_PORT = 7649
DATA_PORT = 7650


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldProblem:
    """A problem with one value of a request; `where` is its path, as a/0/b."""

    where: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemView:
    """An error (RFC 9457): `code` is stable, `hint` says what to do next."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str = ""
    request_id: str = ""
    problems: list[FieldProblem] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventView:
    """A change of an object; `object` is its kind, `id` its name.

    An event about `verdicts` says that `count` sessions wait for the reason `after` now;
    `sessions` are the ids of the first of them. One with the trigger `submitted` is about
    `count` new sessions likewise, and `id` is the first.
    """

    object: str
    id: str
    before: str | None
    after: str
    trigger: str
    at: str
    count: int = 0
    sessions: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class WhoamiView:
    """The authenticated caller.

    `machine` marks the files that the agents of an embedded server see: equal for a client
    of the same user on the same machine, and empty for any other server. Sessions of the
    caller may work in folders of agents beneath `folders`; `/` is on a system with one user.
    """

    user: str
    role: str
    domain: str
    groups: list[str]
    access_key: str
    machine: str = ""
    folders: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingView:
    """A setting of the server; `source` is `default`, FILE:LINE, a variable or a flag.

    `hot` settings take effect while the server runs. Passwords in URLs are hidden.
    """

    name: str
    value: Any
    source: str
    default: Any
    hot: bool
    variable: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettingsView:
    """The settings in force; `notices` say what of the configuration is not applied."""

    settings: list[SettingView] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthView:
    """The health of the system's components."""

    status: str
    version: str
    parts: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntryView:
    """A call that changed something, or was denied: who did what to which object."""

    number: int
    at: str
    who: str
    action: str
    target: str
    outcome: str
    request_id: str = ""
    detail: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditChainView:
    """Whether the entries of the audit log are as they were written.

    Each entry has a digest of itself and of the one before. `first_broken` is the number of the
    first that does not fit; from there on entries were changed, removed or added.
    """

    intact: bool
    checked_at: str
    first_broken: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntryPage:
    """Entries of the audit log, newest first.

    A page may have fewer entries than were asked for, or none, and still a `next`: a filter
    looks at a bounded number of entries at a time.
    """

    items: list[AuditEntryView]
    next: str | None = None
