"""Validator of the number of an owner's waiting sessions, in all four scopes."""

from __future__ import annotations

from collections.abc import Iterator

from sokovan.domain.owners.policy import Scope
from sokovan.scheduling.snapshot import SessionWorkload
from sokovan.scheduling.validators.base import PendingLimitExceeded, ValidationContext, ValidatorRule


class PendingSessionCountLimitValidator(ValidatorRule):
    """Considers only the first waiting sessions of an owner, up to its limit.

    The order is that of scheduling: priority, then age. Sessions that are held or that
    no agent could hold are not counted. With a limit of 0, no session starts.
    """

    name = "pending-session-count-limit"
    by_owner = True

    def concerns(self, session: SessionWorkload, context: ValidationContext) -> bool:
        """Only owners over a limit at the start; a backlog only shrinks."""
        pending = context.pending
        return any(pending.count_at_start(scope, name) > limit for scope, name, limit in _limits(session, context))

    def validate(self, session: SessionWorkload, context: ValidationContext) -> None:
        """Object if waiting sessions ahead reach a limit."""
        if not context.starts:
            return
        for scope, name, limit in _limits(session, context):
            ahead = context.pending.of(scope, name).count_ahead(session)
            if ahead >= limit:
                raise PendingLimitExceeded(_refusal(f"{scope} {name}", ahead, limit), session_id=session.session_id)


def _refusal(owner: str, ahead: int, limit: int) -> str:
    if limit == 0:
        return f"{owner} may have no waiting sessions, so none of its sessions starts"
    return f"{ahead} sessions of {owner} wait ahead of it, {limit} may wait at a time"


def _limits(session: SessionWorkload, context: ValidationContext) -> Iterator[tuple[Scope, str, int]]:
    for account in context.accounts(session):
        if account.policy is not None and account.policy.pending_sessions_max is not None:
            yield account.scope, account.name, account.policy.pending_sessions_max
