"""Why a session is where it is, and what would become of a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sokovan.domain.ids import AgentId, QueueName, ScalingGroupName, SessionId
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.slots import NO_SLOTS, ResourceSlot
from sokovan.scheduling.trace import MEANING, Advice, Check, Code


class When(StrEnum):
    """When a session would start, as things are."""

    NOW = "now"
    WAITS = "waits"
    NEVER = "never"


class Stage(StrEnum):
    """The stable name of where a session stands that the core has no verdict on."""

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
    TIME_LIMIT_REACHED = "TIME_LIMIT_REACHED"
    COMMAND_FAILED = "COMMAND_FAILED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


# What each stage asks of the reader, and what it means, beside the table of the core's codes.
STAGES: Mapping[Stage, tuple[Advice, str]] = {
    Stage.NOT_SEEN_YET: (Advice.WAIT, "no scheduling cycle has looked at it yet"),
    Stage.PREPARING: (Advice.NOTHING, "it has its places, and its image is looked for there"),
    Stage.IMAGE_PULLING: (Advice.WAIT, "its image is being made ready where it will run"),
    Stage.IMAGE_NOT_FOUND: (Advice.CHANGE, "an agent cannot have its image"),
    Stage.STARTING: (Advice.NOTHING, "its kernels are being started"),
    Stage.RUNNING: (Advice.NOTHING, "it runs"),
    Stage.AGENT_UNREACHABLE: (Advice.WAIT, "an agent that it needs does not answer, and is asked again"),
    Stage.RETRY_BACKOFF: (Advice.WAIT, "a step failed, and is tried again soon"),
    Stage.ENDING: (Advice.NOTHING, "its kernels are being ended"),
    Stage.SUCCEEDED: (Advice.NOTHING, "it came to its own end, with exit code 0"),
    Stage.STOPPED: (Advice.NOTHING, "somebody ended it"),
    Stage.OUT_OF_MEMORY: (Advice.CHANGE, "a kernel needed more memory than it had asked for"),
    Stage.TIME_LIMIT_REACHED: (Advice.CHANGE, "it ran for as long as it had asked for, and was ended"),
    Stage.COMMAND_FAILED: (Advice.CHANGE, "its own command failed, or was ended by a signal; its log may tell why"),
    Stage.FAILED: (Advice.BROKEN, "it ended, but not well"),
    Stage.CANCELLED: (Advice.NOTHING, "it was withdrawn before it started"),
}


# What is said where waiting does not help, as the limit is below what must start together.
ABOVE_LIMIT = "that is more than the limit itself"


def meaning_of(code: str) -> tuple[Advice, str]:
    """What a code of a verdict or stage asks of the reader, and what it means."""
    if code in Code.__members__:
        return MEANING[Code(code)]
    if code in Stage.__members__:
        return STAGES[Stage(code)]
    return Advice.WAIT, "a reason that this version does not know"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """A session that goes first, and why."""

    session: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WouldStart:
    """When it would start (now, later, never) if one thing were different."""

    when: str
    change: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PastReason:
    """A reason that held for a while: how often it was found, from when to when."""

    code: str
    summary: str
    count: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a session is where it is, what the reader should do, and what would help."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSession:
    """What the scheduler would do with a request.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingSummary:
    """How many sessions wait for one reason, and for how much in all."""

    code: str
    verdict: Advice
    sessions: int
    oldest_ms: int
    meaning: str
    slots: ResourceSlot = NO_SLOTS
