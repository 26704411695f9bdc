"""The laws that a store must keep, each as one check over its rows.

The same checks serve tests, simulations and `sokovan audit`. They read one
consistent state and change nothing. Each law has the number it has in the list
of invariants that the system is built on; `NOT_JUDGED` names the others, with
the reason: rows alone cannot tell what runs on hosts, what proxies see, or what
happened between two commits.

Some laws hold at the moment of a commit, and a later state cannot prove them
in full. I15 blames an owner only if something was given after the limit was
last written. I17 asks only what cannot have changed since: whether the agent
took new work at that moment is not on record. I14 compares times of the
store's clock, so a clock that was set back shows there. I29 finds entries that
were changed or removed, but not that the newest ones were cut off.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec

from sokovan.adapters.sql.invariants import (
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
    """One law: its number, its name, what it means, and how it is checked."""

    id: str
    title: str
    meaning: str
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """What was found about one law: nothing, or the rows that break it.

    `rows` are the first of them; `count` is how many there are.
    """

    invariant: Invariant
    count: int
    rows: tuple[Violation, ...]

    @property
    def holds(self) -> bool:
        """Whether no row breaks the law."""
        return self.count == 0


async def _unbroken_chain(transaction: Transaction, offences: Violations) -> None:
    broken = await SqlAuditTrail(transaction).first_broken()
    if broken is not None:
        offences.add("the first entry of the audit trail that does not fit the chain", sequence=broken)


INVARIANTS: tuple[Invariant, ...] = (
    Invariant(
        "I1",
        "slot conservation",
        "What an agent, a device or an owner has in use is the sum of what kernels hold, and exactly the kernels from"
        " SCHEDULED to TERMINATING hold what they ask for.",
        usage_invariants.SLOT_CONSERVATION,
    ),
    Invariant(
        "I2",
        "no logical overcommit",
        "No agent has more of a slot in use than it has, or less than nothing.",
        usage_invariants.NO_OVERCOMMIT,
    ),
    Invariant(
        "I5",
        "device exclusivity",
        "Kernels hold at most the units that a device has, and a device that a kernel has for itself is held by no"
        " other.",
        usage_invariants.DEVICE_EXCLUSIVITY,
    ),
    Invariant(
        "I6",
        "port exclusivity",
        "A port of an agent leads to one replica of one route.",
        usage_invariants.PORT_EXCLUSIVITY,
    ),
    Invariant(
        "I7",
        "gang atomicity",
        "While a session is alive, it has at least as many kernels placed as must start together, or none.",
        session_invariants.GANG_ATOMICITY,
    ),
    Invariant(
        "I8",
        "derived status",
        "The status of a session follows from what is wanted of it and from the statuses of its kernels.",
        session_invariants.DERIVED_STATUS,
    ),
    Invariant(
        "I9",
        "legal edges only",
        "Every move of every history is one that the lifecycle has.",
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
        "Every history is counted 1 to n without a gap, each line goes on where the one before it ended, and the last"
        " one says the status.",
        history_invariants.HISTORY_ONCE,
    ),
    Invariant(
        "I12",
        "idempotent submit",
        "An idempotency key stands for one request, and the session that it made is there.",
        session_invariants.IDEMPOTENT_SUBMIT,
    ),
    Invariant(
        "I14",
        "fencing",
        "What a leader wrote was written within its term, and epochs only rise.",
        history_invariants.FENCING,
    ),
    Invariant(
        "I15",
        "quota",
        "Nobody was given more than a limit allows, unless the limit was set or lowered afterwards.",
        quota_invariants.QUOTA,
    ),
    Invariant(
        "I16",
        "dependencies",
        "Every session that was scheduled depends only on sessions that ended with success.",
        session_invariants.DEPENDENCIES_MET,
    ),
    Invariant(
        "I17",
        "placement validity",
        "Every kernel that holds slots lies on an agent that exists, of its scaling group, with its architecture and"
        " labels, in an incarnation that the agent has reached.",
        session_invariants.PLACEMENT_VALIDITY,
    ),
    Invariant(
        "I18",
        "intent before action",
        "A kernel that an agent may have been asked to create is on record as sent, with its agent, since it was"
        " CREATING.",
        session_invariants.INTENT_BEFORE_ACTION,
    ),
    Invariant(
        "I19",
        "confirm before free",
        "What was freed carries a proof that nothing of it runs any more, and nothing on record contradicts the proof.",
        freeing_invariants.CONFIRM_BEFORE_FREE,
    ),
    Invariant(
        "I20",
        "free once",
        "What a kernel held was freed at one time with one proof, and no amount is negative.",
        freeing_invariants.FREE_ONCE,
    ),
    Invariant(
        "I29",
        "audit chain",
        "Every entry of the audit trail carries the digest of the one before it.",
        (_unbroken_chain,),
    ),
)

# The laws that rows cannot tell, and what is needed instead.
NOT_JUDGED: dict[str, str] = {
    "I3": "no physical overcommit: only the hosts know what runs on them",
    "I4": "no unexplained process: only the hosts know what runs on them",
    "I13": "one live attempt: only the hosts know what runs on them",
    "I21": "routing soundness: what a proxy sees, and when, is not in the store",
    "I22": "rollout envelope: it is about every moment of a rollout, and the store has the present one",
    "I23": "declarative scale: the store keeps the last number that was written, not the ones before it",
    "I24": "event confluence: it compares runs, and is tested by simulation",
    "I25": "hint not lost: it is about time between a hint and a cycle, and is tested by simulation",
    "I26": "poison isolation: it is about time between cycles, and is tested by simulation",
    "I27": "authorisation: it needs the decisions of the API beside an independent policy",
    "I28": "secret hygiene: it is about logs, events and command lines, and is tested there",
    "I30": "clock independence: it compares runs, and is tested by simulation",
    "I31": "bounded everything: each bound is reached in a test",
    "I32": "ledger and bill: no bill is kept in the store",
}


async def audit(store: SqlStore, *, only: Collection[str] = ()) -> Sequence[AuditFinding]:
    """Every law, or those named in `only`, checked on one state of the store.

    Raises StoreUnavailable.
    """
    chosen = [invariant for invariant in INVARIANTS if not only or invariant.id in only]

    async def work(unit: SqlUnitOfWork) -> list[AuditFinding]:
        return [await _finding(invariant, unit.transaction) for invariant in chosen]

    return await store.read_apart(work)


async def _finding(invariant: Invariant, transaction: Transaction) -> AuditFinding:
    offences = Violations()
    for check in invariant.checks:
        try:
            await check(transaction, offences)
        except (SokovanError, LookupError, TypeError, ValueError, msgspec.MsgspecError) as error:
            # A row that cannot be read is an offence too; it must not hide what the other laws find.
            offences.add("a row cannot be read", reason=f"{type(error).__name__}: {error}")
    return AuditFinding(invariant, offences.count, tuple(offences.rows))
