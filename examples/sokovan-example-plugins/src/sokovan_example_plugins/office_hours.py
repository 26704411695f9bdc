"""A validator: whether a session may be scheduled now, with a reason if not."""

from __future__ import annotations

from typing import ClassVar

from sokovan.domain.session import SessionType
from sokovan.scheduling.snapshot import SessionWorkload
from sokovan.scheduling.validators.base import SchedulingValidationError, ValidationContext, ValidatorRule

HOUR_MS = 3_600_000
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_WORKING_DAYS = 5
_EPOCH_DAY = 3  # 1 January 1970 was a Thursday


class OfficeHoursValidator(ValidatorRule):
    """Lets interactive sessions start from Monday to Friday, 08:00 to 18:00 UTC.

    The time comes from the snapshot, never from the clock: a replay of the snapshot
    must give the same decision.
    """

    name = "office-hours"
    opens: ClassVar[int] = 8
    closes: ClassVar[int] = 18

    def concerns(self, session: SessionWorkload, context: ValidationContext) -> bool:
        """Whether the session is interactive; others may start at any time."""
        del context
        return session.session_type is SessionType.INTERACTIVE

    def validate(self, session: SessionWorkload, context: ValidationContext) -> None:
        """Object outside office hours; a running session may still grow."""
        hours = context.snapshot.now_ms // HOUR_MS
        day, hour = (hours // 24 + _EPOCH_DAY) % len(DAYS), hours % 24
        if not context.starts or (day < _WORKING_DAYS and self.opens <= hour < self.closes):
            return
        raise SchedulingValidationError(
            f"interactive sessions start on working days from {self.opens:02}:00 to {self.closes:02}:00 UTC; "
            f"it is {DAYS[day]}, {hour:02}:00",
            session_id=session.session_id,
            hint="submit it as a batch session, or wait for the morning",
        )
