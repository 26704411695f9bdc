"""Why a session waits, and what would become of one that is only asked about."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckView:
    """One question that was asked: ok, no, or short of something."""

    name: str
    result: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AheadView:
    """A session that goes first."""

    session: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartView:
    """When it would start (now, later, never), and with which change."""

    when: str
    change: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonView:
    """A reason that held for a while."""

    code: str
    summary: str
    count: int
    first: str
    last: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyView:
    """Why a session is where it is, what the reader should do, and what would help."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementView:
    """Where a kernel would go."""

    kernel: int
    agent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanView:
    """What the scheduler would do with a request: `now`, `waits` or `never`."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingReason:
    """How many sessions wait for one reason, and what they wait for."""

    code: str
    verdict: str
    sessions: int
    slots: dict[str, int]
    oldest: str
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingView:
    """All that waits, by reason."""

    items: list[WaitingReason]
