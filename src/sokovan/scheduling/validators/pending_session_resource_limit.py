"""Validator of the slots that waiting sessions request, in all four scopes."""

from __future__ import annotations

from collections.abc import Iterator

from sokovan.domain.slot_notation import format_slots
from sokovan.domain.slots import SlotLimits
from sokovan.scheduling.engine.usage.owner_backlog import OwnerBacklog
from sokovan.scheduling.engine.usage.owner_ledger import OwnerAccount
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
        return any(limits.exceeded_by(backlog.slots_at_start) for _, limits, backlog in _limits(session, context))

    def validate(self, session: SessionWorkload, context: ValidationContext) -> None:
        """Object if waiting sessions ahead and the request exceed a limit."""
        if not context.starts:
            return
        for account, limits, backlog in _limits(session, context):
            excess = limits.exceeded_by(backlog.slots_ahead(session) + context.request)
            if excess:
                raise PendingLimitExceeded(
                    f"waiting sessions of {account.scope} {account.name} would exceed their limit "
                    f"by {format_slots(excess)}",
                    session_id=session.session_id,
                )


def _limits(
    session: SessionWorkload, context: ValidationContext
) -> Iterator[tuple[OwnerAccount, SlotLimits, OwnerBacklog]]:
    for account in context.accounts(session):
        if account.policy is not None and len(account.policy.pending_slots_max):
            yield account, account.policy.pending_slots_max, context.pending.of(account.scope, account.name)
