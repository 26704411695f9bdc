"""Changes that users request: who may make them, and what is recorded of them."""

from __future__ import annotations

from sokovan.domain.lifecycle.session import Goal
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.owners.access import AccessSubject, Action, ObjectKind, Ownership, may
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.records import DETAIL_MAX, FORCED_BY_USER, USER_REQUESTED, Change
from sokovan.domain.session_request import Caller


def may_change(owner: Owner, caller: Caller) -> bool:
    """Whether the caller may change the sessions of an owner."""
    user = caller.owner
    subject = AccessSubject(user=user.user, domain=user.domain, role=caller.role, groups=caller.groups)
    ownership = Ownership(domain=owner.domain, user=owner.user, group=owner.group)
    return may(subject, Action.CHANGE, ObjectKind.SESSION, ownership)


def change_by(caller: Caller, code: str, detail: str) -> Change:
    """The author and the reason of a change, for histories."""
    return Change(who=caller.owner.user, by=Cause.CONTROLLER, code=code, detail=detail[:DETAIL_MAX])


def termination(caller: Caller, *, forced: bool, reason: str) -> tuple[Goal, Change]:
    """The goal of a session that is to end, and its author."""
    goal, code = (Goal.FORCE, FORCED_BY_USER) if forced else (Goal.STOP, USER_REQUESTED)
    return goal, change_by(caller, code, reason)
