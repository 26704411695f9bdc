"""What becomes of a session that a validator refuses: it waits, or is cancelled."""

from __future__ import annotations

from enum import StrEnum, auto


class Outcome(StrEnum):
    """The status of a refused session."""

    PENDING = auto()
    CANCELLED = auto()


class Refusal(StrEnum):
    """The cases in which a validator refuses a session."""

    LIMIT_IN_USE = auto()
    LIMIT_EXCEEDED_ALONE = auto()
    SESSION_LIMIT = auto()
    PENDING_LIMIT = auto()
    PENDING_LIMIT_EXCEEDED_ALONE = auto()
    DEPENDENCY_NOT_ENDED = auto()
    DEPENDENCY_FAILED = auto()
    NOT_YET_BEGUN = auto()
    CUSTOM = auto()
    CUSTOM_FINAL = auto()
    VALIDATOR_FAILED = auto()


# The outcome and the meaning of each case; the reference page is generated from this table.
OUTCOMES: dict[Refusal, tuple[Outcome, str]] = {
    Refusal.LIMIT_IN_USE: (Outcome.PENDING, "an owner would exceed a limit on slots with what others of it use"),
    Refusal.LIMIT_EXCEEDED_ALONE: (Outcome.CANCELLED, "the session alone requests more than a limit on slots"),
    Refusal.SESSION_LIMIT: (Outcome.PENDING, "an owner has reached its limit on sessions, also one of 0"),
    Refusal.PENDING_LIMIT: (Outcome.PENDING, "waiting sessions ahead of it reach the pending limit of an owner"),
    Refusal.PENDING_LIMIT_EXCEEDED_ALONE: (
        Outcome.CANCELLED,
        "the session alone requests more than waiting sessions of an owner may",
    ),
    Refusal.DEPENDENCY_NOT_ENDED: (Outcome.PENDING, "a session that it depends on has not ended"),
    Refusal.DEPENDENCY_FAILED: (Outcome.CANCELLED, "a session that it depends on has failed"),
    Refusal.NOT_YET_BEGUN: (Outcome.PENDING, "its start time has not come"),
    Refusal.CUSTOM: (Outcome.PENDING, "a custom validator refuses it for now"),
    Refusal.CUSTOM_FINAL: (Outcome.CANCELLED, "a custom validator refuses it for good (`final=True`)"),
    Refusal.VALIDATOR_FAILED: (Outcome.PENDING, "a validator raised an unexpected error"),
}


def is_final(refusal: Refusal) -> bool:
    """Whether a session that is refused in this case can never pass."""
    return OUTCOMES[refusal][0] is Outcome.CANCELLED
