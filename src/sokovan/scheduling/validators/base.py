"""What a validator is: it sees a session and the running usage, and may object.

SchedulingValidationError            a session may not be scheduled now
├── ResourceLimitExceeded            an owner would pass a resource limit
├── ConcurrencyLimitExceeded         a keypair has as many sessions as it may have
├── PendingLimitExceeded             earlier waiting sessions fill the keypair's line
├── DependencyUnmet                  a session it waits for has not ended well
└── NotYetBegun                      it asked to start later
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from sokovan.domain.errors import SokovanError
from sokovan.domain.ids import SessionId
from sokovan.domain.policy import Scope
from sokovan.domain.slot_notation import format_amount
from sokovan.domain.slots import NO_SLOTS, ResourceSlot
from sokovan.scheduling.engine.usage.owner_ledger import Account, OwnerLedger, PendingLines
from sokovan.scheduling.snapshot import SessionWorkload, SystemSnapshot
from sokovan.scheduling.trace import Code


class SchedulingValidationError(SokovanError):
    """A session may not be scheduled now. Custom validators raise this one."""

    code = "scheduling-validation"
    hint = "see the reason above; the session is tried again in the next cycle"
    reason: ClassVar[Code] = Code.REFUSED_BY_PLUGIN

    def __init__(self, message: str, *, session_id: SessionId | None = None, hint: str = "") -> None:
        self.session_id = session_id
        super().__init__(message, hint=hint)

    @property
    def verdict_code(self) -> Code:
        """The code that the session's verdict carries."""
        return self.reason


class ResourceLimitExceeded(SchedulingValidationError):
    """An owner would pass a resource limit."""

    code = "quota-exceeded"
    hint = "wait for a session to end, ask for fewer slots, or have an admin raise the limit"

    def __init__(self, *, scope: Scope, owner: str, excess: list[tuple[str, int, int, int]]) -> None:
        self.scope, self.owner, self.excess = scope, owner, excess
        parts = ", ".join(_excess_text(*row) for row in excess)
        super().__init__(f"{scope} {owner} asks for {parts}")

    @property
    def verdict_code(self) -> Code:
        """The code by scope."""
        return Code(f"QUOTA_{self.scope.name}")


class ConcurrencyLimitExceeded(SchedulingValidationError):
    """A keypair has as many sessions as it may have at a time."""

    code = "concurrency-limit"
    reason = Code.CONCURRENCY_LIMIT


class PendingLimitExceeded(SchedulingValidationError):
    """Earlier waiting sessions fill the keypair's line."""

    code = "pending-limit"
    reason = Code.PENDING_LIMIT


class DependencyUnmet(SchedulingValidationError):
    """A session that this one waits for has not ended well, or not ended."""

    code = "dependency-unmet"
    reason = Code.DEPENDENCY


class NotYetBegun(SchedulingValidationError):
    """The session asked to start later."""

    code = "not-yet-begun"
    reason = Code.NOT_YET_BEGIN


@dataclass(slots=True)
class ValidationContext:
    """What a validator may look at: the snapshot, and the usage as it is by now.

    `request` is what the session would take in this turn; `starts` says whether
    the session would begin to run by it (a growing session counts already).
    """

    snapshot: SystemSnapshot
    ledger: OwnerLedger
    pending: PendingLines
    request: ResourceSlot = NO_SLOTS
    starts: bool = True

    def keypair(self, session: SessionWorkload) -> Account:
        """The account of the session's keypair."""
        return self.ledger.accounts(session.owner)[0]


class ValidatorRule(ABC):
    """One rule. A subclass names itself, says whom it concerns, and may object."""

    name: ClassVar[str] = ""
    # Whether `concerns` depends on the owner alone; it is then asked once per owner.
    by_owner: ClassVar[bool] = False
    # The one field of a session that the rule looks at; it is asked only where that field is set.
    looks_at: ClassVar[str] = ""

    def concerns(self, session: SessionWorkload, context: ValidationContext) -> bool:
        """Whether the rule has anything to say of this session; asked once per cycle."""
        del session, context
        return True

    @abstractmethod
    def validate(self, session: SessionWorkload, context: ValidationContext) -> None:
        """Raise SchedulingValidationError to object."""


class ResourceLimitRule(ValidatorRule):
    """A resource limit in one scope; the four built-in ones differ in the scope only."""

    scope: ClassVar[Scope]
    by_owner = True

    def concerns(self, session: SessionWorkload, context: ValidationContext) -> bool:
        """Only owners that have a slot limit in this scope."""
        return bool(self._account(session, context).limits)

    def validate(self, session: SessionWorkload, context: ValidationContext) -> None:
        """Object if usage and request together pass a limit."""
        account = self._account(session, context)
        excess = account.excess(context.request)
        if excess:
            raise ResourceLimitExceeded(scope=self.scope, owner=account.name, excess=excess)

    def _account(self, session: SessionWorkload, context: ValidationContext) -> Account:
        return context.ledger.accounts(session.owner)[_POSITION[self.scope]]


def _excess_text(slot: str, asked: int, used: int, limit: int) -> str:
    amounts = [format_amount(slot, amount) for amount in (asked, used, limit)]
    return f"{amounts[0]} {slot} with {amounts[1]} of {amounts[2]} in use"


_POSITION = {Scope.KEYPAIR: 0, Scope.USER: 1, Scope.GROUP: 2, Scope.DOMAIN: 3}
