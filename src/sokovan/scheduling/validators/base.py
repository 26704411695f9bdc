"""Base class of validators, and the errors by which they refuse a session.

SchedulingValidationError            a session may not be scheduled now
├── ResourceLimitExceeded            an owner would exceed a resource limit
├── ConcurrencyLimitExceeded         an owner has reached its session limit
├── PendingLimitExceeded             waiting sessions ahead reach the pending limit
├── ArrayLimitReached                as many sessions of its array run as may run at once
├── DependencyUnmet                  a dependency has failed or has not ended
└── NotYetBegun                      the start time has not come yet
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

from sokovan.domain.errors import SokovanError
from sokovan.domain.ids import SessionId
from sokovan.domain.owners.policy import Scope
from sokovan.domain.slot_notation import format_amount
from sokovan.domain.slots import NO_SLOTS, ResourceSlot
from sokovan.scheduling.engine.usage.array_usage import ArrayUsage
from sokovan.scheduling.engine.usage.owner_backlog import OwnerBacklogs
from sokovan.scheduling.engine.usage.owner_ledger import Accounts, OwnerAccount, OwnerLedger
from sokovan.scheduling.snapshot import SessionWorkload, SystemSnapshot
from sokovan.scheduling.trace import Code
from sokovan.scheduling.validators.outcomes import ValidationFailure


class SchedulingValidationError(SokovanError):
    """A session may not be scheduled now. Custom validators raise this one."""

    code = "scheduling-validation"
    hint = "see the reason above; the session is retried in the next cycle"
    reason: ClassVar[Code] = Code.REFUSED_BY_PLUGIN

    def __init__(
        self, message: str, *, session_id: SessionId | None = None, hint: str = "", final: bool = False
    ) -> None:
        self.session_id = session_id
        self._refusal = ValidationFailure.CUSTOM_FINAL if final else ValidationFailure.CUSTOM
        super().__init__(message, hint=hint)

    @property
    def refusal(self) -> ValidationFailure:
        """The case, which says whether the session waits or is cancelled."""
        return self._refusal

    @property
    def verdict_code(self) -> Code:
        """The code of the session's verdict."""
        return self.reason


class ResourceLimitExceeded(SchedulingValidationError):
    """An owner would exceed a resource limit."""

    code = "quota-exceeded"
    hint = "wait for a session to end, request fewer slots, or have an admin raise the limit"

    def __init__(self, *, scope: Scope, owner: str, excess: list[tuple[str, int, int, int]]) -> None:
        self.scope, self.owner, self.excess = scope, owner, excess
        parts = ", ".join(_excess_text(*row) for row in excess)
        super().__init__(f"{scope} {owner} requests {parts}")

    @property
    def verdict_code(self) -> Code:
        """The code by scope."""
        return Code(f"QUOTA_{self.scope.name}")

    @property
    def refusal(self) -> ValidationFailure:
        """Whether the request alone exceeds a limit."""
        alone = any(request > limit for _, request, _, limit in self.excess)
        return ValidationFailure.LIMIT_EXCEEDED_ALONE if alone else ValidationFailure.LIMIT_IN_USE


class ConcurrencyLimitExceeded(SchedulingValidationError):
    """An owner has reached its limit of concurrent sessions."""

    code = "concurrency-limit"
    reason = Code.CONCURRENCY_LIMIT
    refusal = ValidationFailure.SESSION_LIMIT


class PendingLimitExceeded(SchedulingValidationError):
    """Waiting sessions ahead of this one reach the owner's pending limit."""

    code = "pending-limit"
    reason = Code.PENDING_LIMIT

    @property
    def refusal(self) -> ValidationFailure:
        """Whether the request alone exceeds the limit."""
        alone = self._refusal is ValidationFailure.CUSTOM_FINAL
        return ValidationFailure.PENDING_LIMIT_EXCEEDED_ALONE if alone else ValidationFailure.PENDING_LIMIT


class ArrayLimitReached(SchedulingValidationError):
    """As many sessions of the array run as may run at once."""

    code = "array-limit"
    hint = "wait for a session of the array to end"
    reason = Code.ARRAY_LIMIT
    refusal = ValidationFailure.ARRAY_LIMIT


class DependencyUnmet(SchedulingValidationError):
    """A session that this one depends on has failed or has not ended yet."""

    code = "dependency-unmet"
    reason = Code.DEPENDENCY

    @property
    def refusal(self) -> ValidationFailure:
        """Whether a dependency has failed."""
        failed = self._refusal is ValidationFailure.CUSTOM_FINAL
        return ValidationFailure.DEPENDENCY_FAILED if failed else ValidationFailure.DEPENDENCY_NOT_ENDED


class NotYetBegun(SchedulingValidationError):
    """The start time of the session has not come yet."""

    code = "not-yet-begun"
    reason = Code.NOT_YET_BEGIN
    refusal = ValidationFailure.NOT_YET_BEGUN


@dataclass(slots=True)
class ValidationContext:
    """The inputs of a validator: the snapshot and the current usage.

    `request` is what the session would take in this attempt; `starts` says whether
    it would start by it (a growing session is counted already).
    """

    snapshot: SystemSnapshot
    ledger: OwnerLedger
    pending: OwnerBacklogs
    arrays: ArrayUsage = field(default_factory=ArrayUsage)
    request: ResourceSlot = NO_SLOTS
    starts: bool = True

    def accounts(self, session: SessionWorkload) -> Accounts:
        """The accounts of the session's keypair, user, group and domain."""
        return self.ledger.accounts(session.owner)


class ValidatorRule(ABC):
    """One rule. A subclass sets `name` and implements `validate`."""

    name: ClassVar[str] = ""
    # Whether `concerns` depends on the owner only; it is then called once per owner.
    by_owner: ClassVar[bool] = False
    # The one session field that the rule reads; it is skipped for sessions without it.
    looks_at: ClassVar[str] = ""

    def concerns(self, session: SessionWorkload, context: ValidationContext) -> bool:
        """Whether the rule applies to this session; called once per cycle."""
        del session, context
        return True

    @abstractmethod
    def validate(self, session: SessionWorkload, context: ValidationContext) -> None:
        """Raise SchedulingValidationError to object."""


class ResourceLimitRule(ValidatorRule):
    """A resource limit in one scope; the four built-in ones differ only in the scope."""

    scope: ClassVar[Scope]
    by_owner = True

    def concerns(self, session: SessionWorkload, context: ValidationContext) -> bool:
        """Only owners that have a slot limit in this scope."""
        return bool(self._account(session, context).limits)

    def validate(self, session: SessionWorkload, context: ValidationContext) -> None:
        """Object if usage and request together exceed a limit."""
        account = self._account(session, context)
        excess = account.excess(context.request)
        if excess:
            raise ResourceLimitExceeded(scope=self.scope, owner=account.name, excess=excess)

    def _account(self, session: SessionWorkload, context: ValidationContext) -> OwnerAccount:
        return context.accounts(session)[_POSITION[self.scope]]


def _excess_text(slot: str, request: int, used: int, limit: int) -> str:
    amounts = [format_amount(slot, amount) for amount in (request, used, limit)]
    return f"{amounts[0]} {slot} with {amounts[1]} of {amounts[2]} in use"


_POSITION = {Scope.KEYPAIR: 0, Scope.USER: 1, Scope.GROUP: 2, Scope.DOMAIN: 3}
