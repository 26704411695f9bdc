"""Checks the invariants of a store, each as queries over its rows.

Tests, simulations and `sokovan audit` use the same checks. They read one
consistent state and change nothing. The numbers are those of the design's list of
invariants; `NOT_CHECKED` lists the others with the reason: the rows do not contain
what runs on hosts, what proxies see, or what happened between two commits.

Some invariants hold at the moment of a commit, and a later state cannot prove them
completely. I15 reports an owner only if something was allocated after the limit was
last written. I17 checks only what cannot have changed since: whether the agent was
schedulable at that moment is not stored. I14 compares times of the store's clock, so
a clock that was set back is reported there. I29 finds entries that were changed or
removed, but not that the newest ones were truncated.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec

from sokovan.adapters.sql.invariants import (
    eviction_invariants,
    freeing_invariants,
    history_invariants,
    quota_invariants,
    session_invariants,
    usage_invariants,
)
from sokovan.adapters.sql.invariants.violations import Check, Violation, Violations
from sokovan.adapters.sql.repositories.audit_log import SqlAuditTrail
from sokovan.adapters.sql.store import SqlStore
from sokovan.adapters.sql.transaction import Transaction
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.errors import SokovanError


@dataclass(frozen=True, slots=True)
class Invariant:
    """One invariant: its number, title, meaning and checks."""

    id: str
    title: str
    meaning: str
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """The result for one invariant: the rows that violate it, if any.

    `rows` are the first of them; `count` is their number.
    """

    invariant: Invariant
    count: int
    rows: tuple[Violation, ...]

    @property
    def holds(self) -> bool:
        """Whether no row violates the invariant."""
        return self.count == 0


async def _unbroken_chain(transaction: Transaction, violations: Violations) -> None:
    broken = await SqlAuditTrail(transaction).first_broken()
    if broken is not None:
        violations.add("the first entry of the audit trail that breaks the hash chain", sequence=broken)


INVARIANTS: tuple[Invariant, ...] = (
    Invariant(
        "I1",
        "slot conservation",
        "The usage of an agent, a device or an owner is the sum of the slots that kernels hold, and exactly the kernels"
        " from SCHEDULED to TERMINATING hold the slots they request.",
        usage_invariants.SLOT_CONSERVATION,
    ),
    Invariant(
        "I2",
        "no logical overcommit",
        "The usage of each slot of an agent is between zero and its capacity.",
        usage_invariants.NO_OVERCOMMIT,
    ),
    Invariant(
        "I5",
        "device exclusivity",
        "Kernels hold at most the units of a device, and an exclusive device is held by one kernel only.",
        usage_invariants.DEVICE_EXCLUSIVITY,
    ),
    Invariant(
        "I6",
        "port exclusivity",
        "A port of an agent belongs to one replica of one route, and is leased to one kernel, for as long as that holds"
        " slots.",
        usage_invariants.PORT_EXCLUSIVITY,
    ),
    Invariant(
        "I7",
        "gang atomicity",
        "A live session has either no kernels placed, or at least as many as must start together, and each of them has"
        " a rank of its own.",
        session_invariants.GANG_ATOMICITY,
    ),
    Invariant(
        "I8",
        "derived status",
        "The status of a session follows from its goal and the statuses of its kernels.",
        session_invariants.DERIVED_STATUS,
    ),
    Invariant(
        "I9",
        "legal edges only",
        "Every move in every history is a legal transition of the lifecycle.",
        history_invariants.LEGAL_EDGES,
    ),
    Invariant(
        "I10",
        "terminal absorbing",
        "Nothing follows a final status, and the first cause of an end is never overwritten.",
        history_invariants.TERMINAL_ABSORBING,
    ),
    Invariant(
        "I11",
        "history once",
        "Every history is numbered 1 to n without gaps, each row begins with the status in which the last one ended,"
        " and the final row has the object's status.",
        history_invariants.HISTORY_ONCE,
    ),
    Invariant(
        "I12",
        "idempotent submit",
        "An idempotency key belongs to one request, and the session it created exists.",
        session_invariants.IDEMPOTENT_SUBMIT,
    ),
    Invariant(
        "I14",
        "fencing",
        "Every write of a leader was made within its term, and epochs only increase.",
        history_invariants.FENCING,
    ),
    Invariant(
        "I15",
        "quota",
        "No owner was allocated more than a limit allows, unless the limit was set or lowered afterwards.",
        quota_invariants.QUOTA,
    ),
    Invariant(
        "I16",
        "dependencies",
        "Every scheduled session depends only on sessions that ended with success.",
        session_invariants.DEPENDENCIES_MET,
    ),
    Invariant(
        "I17",
        "placement validity",
        "Every kernel that holds slots is placed on an existing agent of its scaling group, with its architecture and"
        " labels, in an incarnation that the agent has reached.",
        session_invariants.PLACEMENT_VALIDITY,
    ),
    Invariant(
        "I18",
        "intent before action",
        "A kernel whose creation may have been requested is stored as sent, with its agent, since it was CREATING.",
        session_invariants.INTENT_BEFORE_ACTION,
    ),
    Invariant(
        "I19",
        "confirm before free",
        "Freed slots have a proof that their kernel no longer runs, and no stored row contradicts the proof.",
        freeing_invariants.CONFIRM_BEFORE_FREE,
    ),
    Invariant(
        "I20",
        "free once",
        "The slots of a kernel were freed once, together, with one proof, and no amount is negative.",
        freeing_invariants.FREE_ONCE,
    ),
    Invariant(
        "I29",
        "audit chain",
        "Every entry of the audit trail has the digest of the previous one.",
        (_unbroken_chain,),
    ),
    Invariant(
        "I33",
        "receipts of evictions",
        "Every eviction of a session has a receipt with a number of its own, which is open only while kernels of the"
        " session are ending, and is for another session or a booking.",
        eviction_invariants.EVICTIONS,
    ),
)

# Invariants that the rows cannot prove, and why.
NOT_CHECKED: dict[str, str] = {
    "I3": "no physical overcommit: the store does not have what runs on hosts",
    "I4": "no unexplained process: the store does not have what runs on hosts",
    "I13": "one live attempt: the store does not have what runs on hosts",
    "I21": "routing soundness: what a proxy sees, and when, is not in the store",
    "I22": "rollout envelope: it concerns every moment of a rollout, and the store has only the current state",
    "I23": "declarative scale: the store keeps only the last number that was written",
    "I24": "event confluence: it compares runs, and is tested by simulation",
    "I25": "hint not lost: it concerns the time between a hint and a cycle, and is tested by simulation",
    "I26": "poison isolation: it concerns the time between cycles, and is tested by simulation",
    "I27": "authorisation: it needs the decisions of the API and an independent policy",
    "I28": "secret hygiene: it concerns logs, events and command lines, and is tested there",
    "I30": "clock independence: it compares runs, and is tested by simulation",
    "I31": "bounded everything: each bound is reached in a test",
    "I32": "ledger and bill: no bill is kept in the store",
}


async def audit(store: SqlStore, *, only: Collection[str] = ()) -> Sequence[AuditFinding]:
    """Check all invariants, or those named in `only`, on one state of the store.

    Raises StoreUnavailable.
    """
    chosen = [invariant for invariant in INVARIANTS if not only or invariant.id in only]

    async def work(unit: SqlUnitOfWork) -> list[AuditFinding]:
        return [await _finding(invariant, unit.transaction) for invariant in chosen]

    return await store.read_long(work)


async def _finding(invariant: Invariant, transaction: Transaction) -> AuditFinding:
    violations = Violations()
    for check in invariant.checks:
        try:
            await check(transaction, violations)
        except (SokovanError, LookupError, TypeError, ValueError, msgspec.MsgspecError) as error:
            # A row that cannot be decoded is a violation too, and must not hide those of other invariants.
            violations.add("a row cannot be decoded", reason=f"{type(error).__name__}: {error}")
    return AuditFinding(invariant, violations.count, tuple(violations.rows))
