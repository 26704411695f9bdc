"""Invariants of histories: gapless, legal, and written within leaders' terms."""

from __future__ import annotations

from typing import Any, NamedTuple

import sqlalchemy as sa

from sokovan.adapters.sql.invariants.violations import Check, no_row
from sokovan.adapters.sql.repositories.history import NOTED
from sokovan.adapters.sql.schema.tables import (
    AGENTS,
    DEPLOYMENTS,
    HISTORIES,
    KERNELS,
    LEASE_TERMS,
    LEASES,
    ROUTES,
    SERVING,
    SESSION_HISTORY,
    SESSIONS,
)
from sokovan.domain.lifecycle.agent import AGENT
from sokovan.domain.lifecycle.deployment import DEPLOYMENT
from sokovan.domain.lifecycle.kernel import KERNEL
from sokovan.domain.lifecycle.replica import REPLICA
from sokovan.domain.lifecycle.rollout import ROLLOUT
from sokovan.domain.lifecycle.route import ROUTE
from sokovan.domain.lifecycle.session import SESSION, SessionStatus, SessionTrigger
from sokovan.domain.lifecycle.transition_table import TransitionTable


class HistoryChain(NamedTuple):
    """One kind of object: its lifecycle, table and history table."""

    lifecycle: TransitionTable[Any, Any]
    objects: sa.Table
    history: sa.Table

    @property
    def key(self) -> sa.Column[str]:
        """The column with the object's id."""
        return next(iter(self.objects.primary_key.columns))

    @property
    def kind(self) -> sa.Label[str]:
        """The kind of object, shown with a violation."""
        return sa.literal(self.lifecycle.name).label("kind")


HISTORY_CHAINS = tuple(
    HistoryChain(lifecycle, objects, HISTORIES[lifecycle.name])
    for lifecycle, objects in (
        (SESSION, SESSIONS),
        (KERNEL, KERNELS),
        (AGENT, AGENTS),
        (DEPLOYMENT, DEPLOYMENTS),
        (REPLICA, SERVING.replicas),
        (ROLLOUT, SERVING.rollouts),
        (ROUTE, ROUTES),
    )
)
_ENDING = [status.value for status in (SessionStatus.TERMINATING, SessionStatus.TERMINATED, SessionStatus.CANCELLED)]


def _columns(chain: HistoryChain) -> tuple[Any, ...]:
    names = ("object_id", "sequence", "before", "trigger", "after")
    return (chain.kind, *[chain.history.c[name] for name in names])


def _terminal(chain: HistoryChain) -> list[str]:
    return sorted(status.value for status in chain.lifecycle.terminal)


def _legal_moves(chain: HistoryChain) -> Check:
    lifecycle, entry = chain.lifecycle, chain.history.c
    moves = {f"{move.before}>{move.trigger}>{move.after}" for move in lifecycle.moves}
    notes = {f"{state}>{NOTED}>{state}" for state in lifecycle.states if state not in lifecycle.terminal}
    row = entry.before + sa.literal(">") + entry.trigger + sa.literal(">") + entry.after
    # Rows after a final status belong to the next invariant.
    illegal = sa.and_(entry.before.not_in(_terminal(chain)), row.not_in(sorted(moves | notes)))
    begun = sa.and_(entry.before.is_(None), entry.after != lifecycle.initial.value)
    return no_row("a move that the lifecycle does not have", sa.select(*_columns(chain)).where(sa.or_(illegal, begun)))


def _nothing_after_terminal(chain: HistoryChain) -> Check:
    left = chain.history.c.before.in_(_terminal(chain))
    return no_row("a history row after a final status", sa.select(*_columns(chain)).where(left))


def _recorded_ends() -> tuple[Check, Check]:
    entry = SESSION_HISTORY.c
    last = sa.and_(entry.object_id == SESSIONS.c.session_id, entry.sequence == SESSIONS.c.history_sequence)
    ended = SESSIONS.c.status.in_(sorted(status.value for status in SESSION.terminal))
    earlier = SESSION_HISTORY.alias()
    # A correlated subquery per session: SQLite would scan a derived table of all first rows for each of them.
    first = (
        sa.select(sa.func.min(earlier.c.sequence))
        .where(
            earlier.c.object_id == SESSIONS.c.session_id,
            earlier.c.after.in_(_ENDING),
            # Neither a retry nor an eviction is an end, nor is a note.
            earlier.c.trigger.not_in([SessionTrigger.RETRY_REQUESTED.value, SessionTrigger.PREEMPTED.value, NOTED]),
        )
        .scalar_subquery()
    )
    row = SESSION_HISTORY.alias()
    cause = sa.case((row.c.code != "", row.c.code), else_=row.c.trigger)
    return (
        no_row(
            "a session's end time differs from its history",
            sa.select(SESSIONS.c.session_id, SESSIONS.c.status, SESSIONS.c.ended_ms, entry.at_ms)
            .select_from(SESSIONS)
            .join(SESSION_HISTORY, last)
            .where(ended, SESSIONS.c.ended_ms.is_distinct_from(entry.at_ms)),
        ),
        no_row(
            "the cause of an end is not the first cause",
            sa.select(SESSIONS.c.session_id, SESSIONS.c.status, SESSIONS.c.cause, cause.label("first_cause"))
            .select_from(SESSIONS)
            .outerjoin(row, sa.and_(row.c.object_id == SESSIONS.c.session_id, row.c.sequence == first))
            .where(SESSIONS.c.cause.is_distinct_from(cause)),
        ),
    )


def _references_last_row(chain: HistoryChain) -> Check:
    entry, objects = chain.history.c, chain.objects.c
    ends = (
        sa.select(
            entry.object_id,
            sa.func.min(entry.sequence).label("first"),
            sa.func.max(entry.sequence).label("last"),
            sa.func.count().label("rows"),
        )
        .group_by(entry.object_id)
        .subquery()
    )
    wrong = (ends.c.last.is_distinct_from(objects.history_sequence), ends.c.first != 1, ends.c.rows != ends.c.last)
    return no_row(
        "a history has a gap, or its object does not reference the last row",
        sa.select(chain.kind, chain.key.label("object_id"), objects.history_sequence, ends.c.last, ends.c.rows)
        .select_from(chain.objects)
        .outerjoin(ends, ends.c.object_id == chain.key)
        .where(sa.or_(*wrong)),
    )


def _status_matches_history(chain: HistoryChain) -> Check:
    entry, objects = chain.history.c, chain.objects.c
    here = sa.and_(entry.object_id == chain.key, entry.sequence == objects.history_sequence)
    return no_row(
        "an object's status differs from its history",
        sa.select(chain.kind, chain.key.label("object_id"), objects.status, entry.after.label("recorded"))
        .select_from(chain.objects)
        .join(chain.history, here)
        .where(entry.after != objects.status),
    )


def _chained(chain: HistoryChain) -> Check:
    entry, earlier = chain.history.c, chain.history.alias()
    link = sa.and_(earlier.c.object_id == entry.object_id, earlier.c.sequence == entry.sequence - 1)
    broken = sa.or_(
        entry.before.is_distinct_from(earlier.c.after),
        entry.previous.is_distinct_from(earlier.c.sequence),
    )
    # The first row has no predecessor, on both sides of the comparison. A missing row is a gap, and reported as such.
    comparable = sa.or_(entry.sequence == 1, earlier.c.sequence.is_not(None))
    return no_row(
        "a history row does not begin with the status that the previous one ended with",
        sa.select(*_columns(chain), earlier.c.after.label("was"))
        .select_from(chain.history)
        .outerjoin(earlier, link)
        .where(comparable, broken),
    )


def _has_object(chain: HistoryChain) -> Check:
    entry = chain.history.c
    return no_row(
        "a history of an object that does not exist",
        sa.select(chain.kind, entry.object_id)
        .distinct()
        .select_from(chain.history)
        .outerjoin(chain.objects, chain.key == entry.object_id)
        .where(chain.key.is_(None)),
    )


def _written_in_term(chain: HistoryChain) -> Check:
    entry, term, following = chain.history.c, LEASE_TERMS.alias(), LEASE_TERMS.alias()
    outside = sa.or_(
        entry.lease.is_(None),
        entry.epoch.is_(None),
        term.c.epoch.is_(None),
        entry.at_ms < term.c.since_ms,
        entry.at_ms > following.c.since_ms,
    )
    return no_row(
        "a history row was not written within the term of its leader",
        sa.select(
            chain.kind,
            *[entry[name] for name in ("object_id", "sequence", "lease", "epoch", "at_ms")],
            term.c.since_ms,
            following.c.since_ms.label("until_ms"),
        )
        .select_from(chain.history)
        .outerjoin(term, sa.and_(term.c.name == entry.lease, term.c.epoch == entry.epoch))
        .outerjoin(following, sa.and_(following.c.name == entry.lease, following.c.epoch == entry.epoch + 1))
        .where(sa.or_(entry.lease.is_not(None), entry.epoch.is_not(None)), outside),
    )


def _epochs_rise(chain: HistoryChain) -> Check:
    entry = chain.history.c
    before = sa.func.lag(entry.epoch).over(partition_by=(entry.object_id, entry.lease), order_by=entry.sequence)
    named = [entry[name] for name in ("object_id", "sequence", "lease", "epoch")]
    rows = sa.select(chain.kind, *named, before.label("epoch_before")).where(entry.lease.is_not(None)).subquery()
    return no_row(
        "an earlier leader wrote after a later leader", sa.select(rows).where(rows.c.epoch_before > rows.c.epoch)
    )


def _terms() -> tuple[Check, Check]:
    term, following = LEASE_TERMS.alias(), LEASE_TERMS.alias()
    last = sa.select(LEASE_TERMS.c.name, sa.func.max(LEASE_TERMS.c.epoch).label("epoch")).group_by(LEASE_TERMS.c.name)
    newest = last.subquery()
    return (
        no_row(
            "a later term began before an earlier one",
            sa.select(term.c.name, term.c.epoch, term.c.since_ms, following.c.since_ms.label("following_ms"))
            .select_from(term)
            .join(following, sa.and_(following.c.name == term.c.name, following.c.epoch == term.c.epoch + 1))
            .where(following.c.since_ms < term.c.since_ms),
        ),
        no_row(
            "a lease is not at the epoch of its last term",
            sa.select(LEASES.c.name, LEASES.c.epoch, newest.c.epoch.label("term"))
            .select_from(LEASES)
            .outerjoin(newest, newest.c.name == LEASES.c.name)
            .where(LEASES.c.epoch.is_distinct_from(newest.c.epoch)),
        ),
    )


LEGAL_EDGES: tuple[Check, ...] = tuple(_legal_moves(chain) for chain in HISTORY_CHAINS)
TERMINAL_ABSORBING: tuple[Check, ...] = (
    *(_nothing_after_terminal(chain) for chain in HISTORY_CHAINS),
    *_recorded_ends(),
)
HISTORY_ONCE: tuple[Check, ...] = tuple(
    check(chain)
    for chain in HISTORY_CHAINS
    for check in (_references_last_row, _status_matches_history, _chained, _has_object)
)
FENCING: tuple[Check, ...] = (
    *(check(chain) for chain in HISTORY_CHAINS for check in (_written_in_term, _epochs_rise)),
    *_terms(),
)
