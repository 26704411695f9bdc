"""Validator of a keypair's limit of concurrent sessions."""

from __future__ import annotations

from sokovan.scheduling.snapshot import SessionWorkload
from sokovan.scheduling.validators.base import ConcurrencyLimitExceeded, ValidationContext, ValidatorRule


class ConcurrencyValidator(ValidatorRule):
    """Refuses a session beyond the limit; a growing one is counted already."""

    name = "concurrency"
    by_owner = True

    def concerns(self, session: SessionWorkload, context: ValidationContext) -> bool:
        """Only keypairs with a limit on sessions."""
        policy = context.keypair(session).policy
        return policy is not None and policy.sessions_max is not None

    def validate(self, session: SessionWorkload, context: ValidationContext) -> None:
        """Object if the keypair has reached its limit."""
        account = context.keypair(session)
        limit = account.policy.sessions_max if account.policy is not None else None
        if limit is not None and context.starts and account.sessions >= limit:
            raise ConcurrencyLimitExceeded(
                f"keypair {account.name} runs {account.sessions} of {limit} sessions",
                session_id=session.session_id,
                hint="end a session, or have an admin raise the limit",
            )
