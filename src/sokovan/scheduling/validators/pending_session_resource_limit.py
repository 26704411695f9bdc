"""How much a keypair's waiting sessions may ask for together."""

from __future__ import annotations

from sokovan.domain.slot_notation import format_slots
from sokovan.scheduling.snapshot import SessionWorkload
from sokovan.scheduling.validators.base import PendingLimitExceeded, ValidationContext, ValidatorRule


class PendingSessionResourceLimitValidator(ValidatorRule):
    """A session is considered if it and the older waiting ones stay within the limit."""

    name = "pending-session-resource-limit"
    by_owner = True

    def concerns(self, session: SessionWorkload, context: ValidationContext) -> bool:
        """Only keypairs whose line asks for more than may wait; it never grows."""
        policy = context.keypair(session).policy
        if policy is None or not policy.pending_slots_max:
            return False
        return bool(policy.pending_slots_max.exceeded_by(context.pending.of(session.owner.access_key).largest))

    def validate(self, session: SessionWorkload, context: ValidationContext) -> None:
        """Object if what waits ahead and the request together pass the limit."""
        policy = context.keypair(session).policy
        if policy is None or not context.starts:
            return
        slots = context.pending.of(session.owner.access_key).slots_ahead(session)
        excess = policy.pending_slots_max.exceeded_by(slots + context.request)
        if excess:
            raise PendingLimitExceeded(
                f"waiting sessions of keypair {session.owner.access_key} would pass their limit "
                f"by {format_slots(excess)}",
                session_id=session.session_id,
            )
