"""Validator of the number of sessions of an array that run at once."""

from __future__ import annotations

from sokovan.scheduling.snapshot import SessionWorkload
from sokovan.scheduling.validators.base import ArrayLimitReached, ValidationContext, ValidatorRule


class ArrayLimitValidator(ValidatorRule):
    """Refuses a session while as many of its array run as may run at once."""

    name = "array-limit"
    looks_at = "array_limit"

    def validate(self, session: SessionWorkload, context: ValidationContext) -> None:
        """Object if the limit of the array is reached; a growing session runs already."""
        limit = session.array_limit
        if limit is None or not context.starts:
            return
        running = context.arrays.running(session)
        if running >= limit:
            raise ArrayLimitReached(f"{running} of {limit} sessions of its array run", session_id=session.session_id)
