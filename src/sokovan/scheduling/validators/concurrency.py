"""Validator of the limits of concurrent sessions, in all four scopes."""

from __future__ import annotations

from sokovan.scheduling.snapshot import SessionWorkload
from sokovan.scheduling.validators.base import ConcurrencyLimitExceeded, ValidationContext, ValidatorRule


class ConcurrencyValidator(ValidatorRule):
    """Refuses a session beyond a limit of an owner; a growing one is counted already."""

    name = "concurrency"
    by_owner = True

    def concerns(self, session: SessionWorkload, context: ValidationContext) -> bool:
        """Only owners with a limit on sessions."""
        return any(account.sessions_max is not None for account in context.accounts(session))

    def validate(self, session: SessionWorkload, context: ValidationContext) -> None:
        """Object if the keypair, user, group or domain has reached its limit."""
        if not context.starts:
            return
        for account in context.accounts(session):
            limit = account.sessions_max
            if limit is not None and account.sessions >= limit:
                raise ConcurrencyLimitExceeded(
                    f"{account.scope} {account.name} runs {account.sessions} of {limit} sessions",
                    session_id=session.session_id,
                    hint="end a session, or have an admin raise the limit",
                )
