"""Types of explanations: why a session waits, dry-run results, summaries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sokovan.domain.ids import AgentId, QueueName, ScalingGroupName, SessionId
from sokovan.domain.lifecycle.eviction import EvictionCost
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.slots import NO_SLOTS, ResourceSlot
from sokovan.scheduling.trace import MEANING, Advice, Check, Code


class When(StrEnum):
    """When a session would start in the current state of the cluster."""

    NOW = "now"
    WAITS = "waits"
    NEVER = "never"


class Stage(StrEnum):
    """Stable codes for sessions without a verdict of the scheduler."""

    NOT_SEEN_YET = "NOT_SEEN_YET"
    PREPARING = "PREPARING"
    IMAGE_PULLING = "IMAGE_PULLING"
    IMAGE_NOT_FOUND = "IMAGE_NOT_FOUND"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    AGENT_UNREACHABLE = "AGENT_UNREACHABLE"
    RETRY_BACKOFF = "RETRY_BACKOFF"
    ENDING = "ENDING"
    SUCCEEDED = "SUCCEEDED"
    STOPPED = "STOPPED"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    DISK_LIMIT_REACHED = "DISK_LIMIT_REACHED"
    TIME_LIMIT_REACHED = "TIME_LIMIT_REACHED"
    LIFETIME_REACHED = "LIFETIME_REACHED"
    IDLE_TIMEOUT = "IDLE_TIMEOUT"
    COMMAND_FAILED = "COMMAND_FAILED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    VALIDATION_FAILED = "VALIDATION_FAILED"


# Advice and meaning of each stage, beside the table of the scheduler's codes.
STAGES: Mapping[Stage, tuple[Advice, str]] = {
    Stage.NOT_SEEN_YET: (Advice.WAIT, "no scheduling cycle has considered it yet"),
    Stage.PREPARING: (Advice.NOTHING, "it is placed, and its agents are checking for its image"),
    Stage.IMAGE_PULLING: (Advice.WAIT, "its image is being pulled"),
    Stage.IMAGE_NOT_FOUND: (Advice.CHANGE, "its image is unavailable on an agent"),
    Stage.STARTING: (Advice.NOTHING, "its kernels are being started"),
    Stage.RUNNING: (Advice.NOTHING, "it is running"),
    Stage.AGENT_UNREACHABLE: (Advice.WAIT, "one of its agents does not answer; requests are retried"),
    Stage.RETRY_BACKOFF: (Advice.WAIT, "a step failed and will be retried"),
    Stage.ENDING: (Advice.NOTHING, "its kernels are being stopped"),
    Stage.SUCCEEDED: (Advice.NOTHING, "it ended with exit code 0"),
    Stage.STOPPED: (Advice.NOTHING, "it was stopped on request"),
    Stage.OUT_OF_MEMORY: (Advice.CHANGE, "a kernel exceeded its memory limit"),
    Stage.DISK_LIMIT_REACHED: (Advice.CHANGE, "a kernel, or all of its owner's, had too much on the disk"),
    Stage.TIME_LIMIT_REACHED: (Advice.CHANGE, "it reached its time limit and was stopped"),
    Stage.LIFETIME_REACHED: (Advice.CHANGE, "it ran as long as its scaling group allows, and was stopped"),
    Stage.IDLE_TIMEOUT: (Advice.CHANGE, "it was idle for its idle timeout, and was stopped"),
    Stage.COMMAND_FAILED: (Advice.CHANGE, "its command failed or was killed by a signal; see its log"),
    Stage.FAILED: (Advice.BROKEN, "it failed"),
    Stage.CANCELLED: (Advice.NOTHING, "it was cancelled before it started"),
    Stage.VALIDATION_FAILED: (Advice.CHANGE, "it could never pass a validator, and was cancelled"),
}


def meaning_of(code: str) -> tuple[Advice, str]:
    """The advice and meaning of the code of a verdict or stage."""
    if code in Code.__members__:
        return MEANING[Code(code)]
    if code in Stage.__members__:
        return STAGES[Stage(code)]
    return Advice.WAIT, "unknown to this version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """A session that is ahead, and why."""

    session: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WouldStart:
    """When it would start (now, later, never) with one change."""

    when: str
    change: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PastReason:
    """An earlier reason for waiting: how often it was found, first and last time."""

    code: str
    summary: str
    count: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedVictim:
    """A session that would lose kernels; id and name are empty if it is hidden.

    By `rule` it may be evicted. `cost` is that of all that would be evicted with it,
    `runner_up` that of the next best set.
    """

    session: str
    user: str
    action: str
    kernels: int
    whole: bool
    lost_s: int
    name: str = ""
    rule: str = ""
    cost: EvictionCost | None = None
    runner_up: EvictionCost | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a session is in its state, the advice to its owner, and what would help.

    The first session that may not be evicted for it, because it started too recently, may be
    from `until_ms` on.
    """

    session_id: SessionId
    status: SessionStatus
    verdict: Advice
    code: str
    summary: str
    checks: tuple[Check, ...] = ()
    funnel: Mapping[str, int] = field(default_factory=dict)
    position: int = 0
    ahead: tuple[Ahead, ...] = ()
    would_start: tuple[WouldStart, ...] = ()
    history: tuple[PastReason, ...] = ()
    as_of_ms: int | None = None
    name: str = ""
    times_out_ms: int | None = None
    until_ms: int | None = None
    evicts: tuple[PlannedVictim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSession:
    """The result of a dry run of a request.

    `placements` are pairs of a kernel's index and an agent.
    """

    would_start: When
    code: str
    summary: str
    verdict: Advice
    slots: ResourceSlot
    size: int
    scaling_group: ScalingGroupName
    queue: QueueName
    image: str
    placements: tuple[tuple[int, AgentId], ...] = ()
    checks: tuple[Check, ...] = ()
    funnel: Mapping[str, int] = field(default_factory=dict)
    position: int = 0
    evicts: tuple[PlannedVictim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingSummary:
    """How many sessions wait for one reason, and their total slots."""

    code: str
    verdict: Advice
    sessions: int
    oldest_ms: int
    meaning: str
    slots: ResourceSlot = NO_SLOTS
