"""CycleValidators: the validators of a profile, as the engine calls them."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.domain.slots import ResourceSlot
from sokovan.scheduling.engine.pending_session import PendingSession
from sokovan.scheduling.engine.usage.owner_ledger import LedgerEntry
from sokovan.scheduling.snapshot import SessionWorkload
from sokovan.scheduling.trace import NEVER, Check, Code
from sokovan.scheduling.validators import MANDATORY_VALIDATORS
from sokovan.scheduling.validators.base import (
    ResourceLimitRule,
    SchedulingValidationError,
    ValidationContext,
    ValidatorRule,
)
from sokovan.scheduling.validators.concurrency import ConcurrencyValidator
from sokovan.scheduling.validators.outcomes import is_final
from sokovan.scheduling.validators.pending_session_count_limit import PendingSessionCountLimitValidator
from sokovan.scheduling.validators.pending_session_resource_limit import PendingSessionResourceLimitValidator

# The rules that do not apply to sessions that are not charged.
_QUOTAS = (
    ResourceLimitRule,
    ConcurrencyValidator,
    PendingSessionCountLimitValidator,
    PendingSessionResourceLimitValidator,
)


class CycleValidators:
    """Runs every rule that applies to a session, and collects all objections."""

    def __init__(self, rules: Sequence[ValidatorRule], context: ValidationContext) -> None:
        self._context = context
        # Shown only where they object: most sessions are in no array.
        self.passed = tuple(Check(_name(rule), "ok") for rule in rules)
        rules = [*rules, *(rule() for rule in MANDATORY_VALIDATORS)]
        self._order = {rule: index for index, rule in enumerate(rules)}
        self._by_owner = [rule for rule in rules if rule.by_owner]
        others = [rule for rule in rules if not rule.by_owner]
        self._by_field = [(rule, rule.looks_at) for rule in others if rule.looks_at]
        self._by_session = [rule for rule in others if not rule.looks_at]

    def applicable(self, session: SessionWorkload, entry: LedgerEntry) -> tuple[ValidatorRule, ...]:
        """The rules that apply to this session."""
        if entry.rules is None:
            entry.rules = tuple(rule for rule in self._by_owner if self._applies(rule, session))
            entry.plain = all(isinstance(rule, ResourceLimitRule | ConcurrencyValidator) for rule in entry.rules)
        charged = session.session_type.is_charged
        rules = entry.rules if charged else tuple(one for one in entry.rules if not isinstance(one, _QUOTAS))
        more = [rule for rule, name in self._by_field if getattr(session, name, True)]
        if self._by_session:
            more += [rule for rule in self._by_session if self._applies(rule, session)]
        if not more:
            return rules
        # In the order of the profile: the first objection gives the verdict its code.
        return tuple(sorted((*rules, *more), key=self._order.__getitem__))

    def objections(self, pending: PendingSession, request: ResourceSlot) -> list[tuple[Code, Check]]:
        """All objections of the rules; a rule that raises counts as an objection."""
        context, session = self._context, pending.session
        context.request, context.starts = request, pending.starts and not pending.placed
        entry = pending.ledger_entry
        if entry is not None and pending.rules is entry.rules and _all_clear(entry, request, starts=context.starts):
            return []
        # An elastic session may start with fewer kernels than this request has.
        elastic = pending.need() < pending.waiting
        found = []
        for rule in pending.rules:
            try:
                rule.validate(session, context)
            except SchedulingValidationError as error:
                result = NEVER if is_final(error.refusal) and not elastic else "no"
                found.append((error.verdict_code, Check(_name(rule), result, error.message)))
            except Exception as error:  # noqa: BLE001  # a failing rule must not stop the cycle
                text = f"validator {_name(rule)} failed: {type(error).__name__}: {error}"
                found.append((Code.PLUGIN_FAILED, Check(_name(rule), "no", text)))
        return found

    def _applies(self, rule: ValidatorRule, session: SessionWorkload) -> bool:
        try:
            return rule.concerns(session, self._context)
        except Exception:  # noqa: BLE001  # then `validate` is called and its error is reported
            return True


def _all_clear(entry: LedgerEntry, request: ResourceSlot, *, starts: bool) -> bool:
    """Whether no limit on slots or sessions is exceeded; the common case, without calling each rule."""
    if not entry.plain:
        return False
    bounds = entry.bounds
    for slot, amount in request.items():
        for used, limit in bounds.get(slot, ()):
            if used.get(slot, 0) + amount > limit:
                return False
    if starts:
        for account, most in entry.session_bounds:
            if account.sessions >= most:
                return False
    return True


def _name(rule: ValidatorRule) -> str:
    return rule.name or type(rule).__name__
