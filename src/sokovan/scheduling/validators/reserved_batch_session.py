"""Validator of the start time of batch sessions."""

from __future__ import annotations

from sokovan.scheduling.snapshot import SessionWorkload
from sokovan.scheduling.validators.base import NotYetBegun, ValidationContext, ValidatorRule


class ReservedBatchSessionValidator(ValidatorRule):
    """Refuses a batch session before its start time."""

    name = "reserved-batch-session"
    looks_at = "starts_at_ms"

    def validate(self, session: SessionWorkload, context: ValidationContext) -> None:
        """Object before the start time."""
        now, starts = context.snapshot.now_ms, session.starts_at_ms
        if starts is not None and starts > now:
            raise NotYetBegun(f"starts in {(starts - now + 999) // 1000} s", session_id=session.session_id, hint="wait")
