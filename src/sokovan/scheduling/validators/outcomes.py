"""Outcomes of validation failures: the session waits, or is cancelled."""

from __future__ import annotations

from enum import StrEnum, auto


class Outcome(StrEnum):
    """The status of a refused session."""

    PENDING = auto()
    CANCELLED = auto()


class ValidationFailure(StrEnum):
    """The cases in which a validator refuses a session."""

    LIMIT_IN_USE = auto()
    LIMIT_EXCEEDED_ALONE = auto()
    SESSION_LIMIT = auto()
    ARRAY_LIMIT = auto()
    PENDING_LIMIT = auto()
    PENDING_LIMIT_EXCEEDED_ALONE = auto()
    DEPENDENCY_NOT_ENDED = auto()
    DEPENDENCY_FAILED = auto()
    NOT_YET_BEGUN = auto()
    CUSTOM = auto()
    CUSTOM_FINAL = auto()
    VALIDATOR_FAILED = auto()


# The outcome and the meaning of each case; the reference page is generated from this table.
OUTCOMES: dict[ValidationFailure, tuple[Outcome, str]] = {
    ValidationFailure.LIMIT_IN_USE: (
        Outcome.PENDING,
        "an owner would exceed a limit on slots with what others of it use",
    ),
    ValidationFailure.LIMIT_EXCEEDED_ALONE: (
        Outcome.CANCELLED,
        "the session alone requests more than a limit on slots",
    ),
    ValidationFailure.SESSION_LIMIT: (Outcome.PENDING, "an owner has reached its limit on sessions, also one of 0"),
    ValidationFailure.ARRAY_LIMIT: (Outcome.PENDING, "as many sessions of its array run as may run at once"),
    ValidationFailure.PENDING_LIMIT: (
        Outcome.PENDING,
        "waiting sessions ahead of it reach the pending limit of an owner",
    ),
    ValidationFailure.PENDING_LIMIT_EXCEEDED_ALONE: (
        Outcome.CANCELLED,
        "the session alone requests more than waiting sessions of an owner may",
    ),
    ValidationFailure.DEPENDENCY_NOT_ENDED: (Outcome.PENDING, "a session that it depends on has not ended"),
    ValidationFailure.DEPENDENCY_FAILED: (Outcome.CANCELLED, "a session that it depends on has failed"),
    ValidationFailure.NOT_YET_BEGUN: (Outcome.PENDING, "its start time has not come"),
    ValidationFailure.CUSTOM: (Outcome.PENDING, "a custom validator refuses it for now"),
    ValidationFailure.CUSTOM_FINAL: (Outcome.CANCELLED, "a custom validator refuses it for good (`final=True`)"),
    ValidationFailure.VALIDATOR_FAILED: (Outcome.PENDING, "a validator raised an unexpected error"),
}


def is_final(refusal: ValidationFailure) -> bool:
    """Whether a session that is refused in this case can never pass."""
    return OUTCOMES[refusal][0] is Outcome.CANCELLED
