"""Explanations of waiting sessions, dry-run plans, and use."""

from __future__ import annotations

from dataclasses import dataclass, field

from sokovan.wire.api.evictions import EvictionCostView


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFiguresView:
    """The use of a device as its agent measured it last; null where unknown."""

    use_percent: int | None = None
    memory_used_bytes: int | None = None
    memory_bytes: int | None = None
    temperature_c: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckView:
    """One scheduling check and its result: ok, no, or short."""

    name: str
    result: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AheadView:
    """A session ahead in the queue."""

    session: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartView:
    """When it would start (now, later, never) with a given change."""

    when: str
    change: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonView:
    """A pending reason, with its count and period."""

    code: str
    summary: str
    count: int
    first: str
    last: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VictimView:
    """A session that would lose kernels, without id and name if another user's.

    By `rule` (priority, share, loan, move) it may be evicted. `cost` is that of all that would be evicted
    with it, `next_best` that of the next best set, if one was compared.
    """

    session: str
    action: str
    kernels: int
    whole: bool
    lost_slot_s: int
    name: str = ""
    rule: str = ""
    cost: EvictionCostView | None = None
    next_best: EvictionCostView | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyView:
    """Why a session is in its status, and changes that would let it start.

    The first session that may not be evicted for it, because it started too recently, may be from `until` on.
    """

    session: str
    status: str
    verdict: str
    code: str
    summary: str
    checks: list[CheckView] = field(default_factory=list)
    funnel: dict[str, int] = field(default_factory=dict)
    position: int = 0
    ahead: list[AheadView] = field(default_factory=list)
    would_start: list[StartView] = field(default_factory=list)
    history: list[ReasonView] = field(default_factory=list)
    as_of: str | None = None
    name: str = ""
    times_out_at: str | None = None
    until: str | None = None
    evicts: list[VictimView] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementView:
    """The planned agent of a kernel."""

    kernel: int
    agent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanView:
    """The dry-run result of a request: `now`, `waits` or `never`."""

    would_start: str
    code: str
    summary: str
    verdict: str
    slots: dict[str, int]
    size: int
    scaling_group: str
    queue: str
    image: str
    placements: list[PlacementView] = field(default_factory=list)
    checks: list[CheckView] = field(default_factory=list)
    funnel: dict[str, int] = field(default_factory=dict)
    position: int = 0
    evicts: list[VictimView] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingReason:
    """The sessions that wait for one reason: number, slots and oldest."""

    code: str
    verdict: str
    sessions: int
    slots: dict[str, int]
    oldest: str
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingView:
    """All waiting sessions, by reason."""

    items: list[WaitingReason]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelUseView:
    """Measured use of a kernel; `error` says why there are no figures.

    `cpu_ms` is CPU time since the start, `memory_bytes` what is held now; `sampled_ms` is the
    time on the agent, since 1970. A figure that an agent cannot measure is null. `slots` are
    those that the kernel asked for. `devices` are those that it holds, with the figures of the
    last heartbeat; of a device that several kernels share, they are those of all of them.
    """

    index: int
    rank: int | None
    status: str
    agent: str | None
    slots: dict[str, int]
    cpu_ms: int | None = None
    memory_bytes: int | None = None
    processes: int | None = None
    sampled_ms: int | None = None
    error: str | None = None
    devices: dict[str, DeviceFiguresView] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionMetricsView:
    """Measured use of the kernels of a session, of `size` in all."""

    session: str
    status: str
    size: int
    items: list[KernelUseView]


@dataclass(frozen=True, slots=True, kw_only=True)
class BookingEvictionView:
    """A session that leaves the agents of a booking, or was evicted from them.

    Of its kernels so many, all if `whole`, get their notice at `notice_at` and end by `ends_by`. `then` is
    `requeue`, `shrink` (it goes on with fewer kernels) or `end`. Once it was evicted, `lost_slot_s` are its lost
    slot seconds, to the end of the kernels at `ended_at`, or to the notice until then.
    """

    session: str
    name: str
    user: str
    kernels: int
    whole: bool
    notice_at: str
    ends_by: str
    then: str
    evicted: bool = False
    ended_at: str | None = None
    lost_slot_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BookingEvictionsView:
    """A booking with its agents, and the sessions that leave for it.

    Those `planned` leave unless they end before; the others were evicted.
    """

    booking: str
    agents: list[str]
    planned: list[BookingEvictionView]
    evicted: list[BookingEvictionView]
