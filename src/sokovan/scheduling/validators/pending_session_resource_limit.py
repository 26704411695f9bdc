"""Validator of the slots that waiting sessions request, in all four scopes."""

from __future__ import annotations

from collections.abc import Iterator

from sokovan.domain.owners.policy import Scope
from sokovan.domain.slot_notation import format_slots
from sokovan.domain.slots import SlotLimits
from sokovan.scheduling.snapshot import SessionWorkload
from sokovan.scheduling.validators.base import PendingLimitExceeded, ValidationContext, ValidatorRule


class PendingSessionResourceLimitValidator(ValidatorRule):
    """Considers a session if it and the waiting ones ahead stay within the limit.

    The order is that of scheduling: priority, then age.
    """

    name = "pending-session-resource-limit"
    by_owner = True

    def concerns(self, session: SessionWorkload, context: ValidationContext) -> bool:
        """Only owners over a limit at the start; a backlog only shrinks."""
        pending = context.pending
        return any(
            limits.exceeded_by(pending.slots_at_start(scope, name)) for scope, name, limits in _limits(session, context)
        )

    def validate(self, session: SessionWorkload, context: ValidationContext) -> None:
        """Object if waiting sessions ahead and the request exceed a limit."""
        if not context.starts:
            return
        for scope, name, limits in _limits(session, context):
            alone = limits.exceeded_by(context.request)
            slots = context.pending.of(scope, name).slots_ahead(session)
            excess = alone or limits.exceeded_by(slots + context.request)
            if excess:
                raise PendingLimitExceeded(
                    f"waiting sessions of {scope} {name} would exceed their limit by {format_slots(excess)}",
                    session_id=session.session_id,
                    final=bool(alone),
                )


def _limits(session: SessionWorkload, context: ValidationContext) -> Iterator[tuple[Scope, str, SlotLimits]]:
    for account in context.accounts(session):
        if account.policy is not None and len(account.policy.pending_slots_max):
            yield account.scope, account.name, account.policy.pending_slots_max
