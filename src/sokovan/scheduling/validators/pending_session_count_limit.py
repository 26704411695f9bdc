"""Validator of the number of a keypair's waiting sessions."""

from __future__ import annotations

from sokovan.scheduling.snapshot import SessionWorkload
from sokovan.scheduling.validators.base import PendingLimitExceeded, ValidationContext, ValidatorRule


class PendingSessionCountLimitValidator(ValidatorRule):
    """Considers only the oldest waiting sessions of a keypair, up to its limit."""

    name = "pending-session-count-limit"
    by_owner = True

    def concerns(self, session: SessionWorkload, context: ValidationContext) -> bool:
        """Only keypairs over the limit at the start; a backlog only shrinks."""
        policy = context.keypair(session).policy
        limit = policy.pending_sessions_max if policy is not None else None
        return limit is not None and context.pending.of(session.owner.access_key).count_at_start > limit

    def validate(self, session: SessionWorkload, context: ValidationContext) -> None:
        """Object if older waiting sessions reach the limit."""
        policy = context.keypair(session).policy
        if policy is None or policy.pending_sessions_max is None or not context.starts:
            return
        ahead = context.pending.of(session.owner.access_key).count_ahead(session)
        if ahead >= policy.pending_sessions_max:
            raise PendingLimitExceeded(
                f"{ahead} earlier sessions of keypair {session.owner.access_key} wait, "
                f"{policy.pending_sessions_max} may wait at a time",
                session_id=session.session_id,
            )
