"""Validator of the number of an owner's waiting sessions, in all four scopes."""

from __future__ import annotations

from collections.abc import Iterator

from sokovan.scheduling.engine.usage.owner_backlog import OwnerBacklog
from sokovan.scheduling.engine.usage.owner_ledger import OwnerAccount
from sokovan.scheduling.snapshot import SessionWorkload
from sokovan.scheduling.validators.base import PendingLimitExceeded, ValidationContext, ValidatorRule


class PendingSessionCountLimitValidator(ValidatorRule):
    """Considers only the first waiting sessions of an owner, up to its limit.

    The order is that of scheduling: priority, then age.
    """

    name = "pending-session-count-limit"
    by_owner = True

    def concerns(self, session: SessionWorkload, context: ValidationContext) -> bool:
        """Only owners over a limit at the start; a backlog only shrinks."""
        return any(backlog.count_at_start > limit for _, limit, backlog in _limits(session, context))

    def validate(self, session: SessionWorkload, context: ValidationContext) -> None:
        """Object if waiting sessions ahead reach a limit."""
        if not context.starts:
            return
        for account, limit, backlog in _limits(session, context):
            ahead = backlog.count_ahead(session)
            if ahead >= limit:
                raise PendingLimitExceeded(
                    f"{ahead} sessions of {account.scope} {account.name} wait ahead of it, {limit} may wait at a time",
                    session_id=session.session_id,
                )


def _limits(session: SessionWorkload, context: ValidationContext) -> Iterator[tuple[OwnerAccount, int, OwnerBacklog]]:
    for account in context.accounts(session):
        limit = account.policy.pending_sessions_max if account.policy is not None else None
        if limit is not None:
            yield account, limit, context.pending.of(account.scope, account.name)
