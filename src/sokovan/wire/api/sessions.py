"""Sessions on the wire: what a client asks for, and what it is shown.

Times are RFC 3339 in UTC, durations are seconds, amounts are whole numbers of the
slot's smallest unit (cpu in millicores, mem in bytes), except in a request, where
people may write `4`, `0.5` or `16GiB`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sokovan.wire.api.bodies import Amount, StrictBody

SessionType = Literal["interactive", "batch", "inference", "system"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MountBody(StrictBody):
    """A folder of the machine that the kernels see at `target`."""

    source: str
    target: str
    read_only: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePortBody(StrictBody):
    """A port at which the main kernel serves others, by a name."""

    name: str
    port: int
    protocol: Literal["http", "tcp"] = "http"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelGroupBody(StrictBody):
    """Equal kernels of a session. What is not said here is taken from the session."""

    name: str
    size: int = 1
    minimum: int | None = None
    image: str | None = None
    command: list[str] | None = None
    environment: dict[str, str] = field(default_factory=dict)
    resources: dict[str, Amount] | None = None
    labels: dict[str, str] = field(default_factory=dict)
    require: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionBody(StrictBody):
    """A request for a session.

    Either `size` equal kernels, a main one and the others, or `groups`. `topology` is
    `hard`, `soft`, or one of them with the highest tier: `hard:rack`, `soft:2`.
    """

    name: str | None = None
    type: SessionType = "batch"
    image: str | None = None
    command: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    resources: dict[str, Amount] = field(default_factory=dict)
    size: int = 1
    minimum: int | None = None
    groups: list[KernelGroupBody] = field(default_factory=list)
    mounts: list[MountBody] = field(default_factory=list)
    ports: list[ServicePortBody] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    require: dict[str, str] = field(default_factory=dict)
    architecture: str | None = None
    scaling_group: str | None = None
    queue: str | None = None
    group: str | None = None
    priority: int = 0
    topology: str | None = None
    depends_on: list[str] = field(default_factory=list)
    starts_at: str | None = None
    time_limit: int | str | None = None
    preemptible: bool = True
    stop_grace: int | str = 10
    ends_with: Literal["all", "main", "any"] | None = None
    tolerates_failures: bool = False
    on_agent_lost: Literal["end", "requeue"] = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelView:
    """One kernel as people see it."""

    id: str
    index: int
    role: str
    group: str
    status: str
    agent: str | None
    attempt: int
    exit_code: int | None
    slots: dict[str, int]
    devices: dict[str, list[str]]
    image: str
    since: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """One session as people see it; `reason` is why it is where it is."""

    id: str
    name: str
    type: str
    status: str
    result: str | None
    goal: str
    user: str
    group: str
    domain: str
    scaling_group: str
    queue: str
    priority: int
    image: str
    command: list[str]
    slots: dict[str, int]
    size: int
    minimum: int
    kernels: list[KernelView]
    depends_on: list[str]
    topology: str | None
    hypernode: str | None
    submitted_at: str
    scheduled_at: str | None
    since: str
    ended_at: str | None
    starts_at: str | None
    time_limit_s: int | None
    reason: str | None
    reason_detail: str | None
    exit_code: int | None
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPage:
    """Some sessions, and where to go on."""

    items: list[SessionView]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLine:
    """One line of a story: a move, or a reason to stay, counted."""

    subject: str
    sequence: int
    before: str | None
    after: str
    trigger: str
    who: str
    code: str
    detail: str
    at: str
    last_at: str
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryView:
    """The story of a session and of its kernels, in the order of time."""

    session: str
    lines: list[HistoryLine]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    """A piece of output; `data` is base64, `offset` counts bytes from the start."""

    kernel: int
    offset: int
    next_offset: int
    data: str
    end: bool = False
