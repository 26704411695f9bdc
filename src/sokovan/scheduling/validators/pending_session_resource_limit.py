"""Validator of the slots that a keypair's waiting sessions request."""

from __future__ import annotations

from sokovan.domain.slot_notation import format_slots
from sokovan.scheduling.snapshot import SessionWorkload
from sokovan.scheduling.validators.base import PendingLimitExceeded, ValidationContext, ValidatorRule


class PendingSessionResourceLimitValidator(ValidatorRule):
    """Considers a session if it and the older waiting ones stay within the limit."""

    name = "pending-session-resource-limit"
    by_owner = True

    def concerns(self, session: SessionWorkload, context: ValidationContext) -> bool:
        """Only keypairs over the limit at the start; a backlog only shrinks."""
        policy = context.keypair(session).policy
        if policy is None or not policy.pending_slots_max:
            return False
        return bool(policy.pending_slots_max.exceeded_by(context.pending.of(session.owner.access_key).slots_at_start))

    def validate(self, session: SessionWorkload, context: ValidationContext) -> None:
        """Object if older waiting sessions and the request exceed the limit."""
        policy = context.keypair(session).policy
        if policy is None or not context.starts:
            return
        slots = context.pending.of(session.owner.access_key).slots_ahead(session)
        excess = policy.pending_slots_max.exceeded_by(slots + context.request)
        if excess:
            raise PendingLimitExceeded(
                f"waiting sessions of keypair {session.owner.access_key} would exceed their limit "
                f"by {format_slots(excess)}",
                session_id=session.session_id,
            )
