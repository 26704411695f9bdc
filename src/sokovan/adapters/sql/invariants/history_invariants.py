"""Laws of histories: each is whole and legal, and leaders wrote in their terms."""

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
    SESSION_HISTORY,
    SESSIONS,
)
from sokovan.domain.lifecycle.agent import AGENT
from sokovan.domain.lifecycle.deployment import DEPLOYMENT
from sokovan.domain.lifecycle.kernel import KERNEL
from sokovan.domain.lifecycle.route import ROUTE
from sokovan.domain.lifecycle.session import SESSION, SessionStatus
from sokovan.domain.lifecycle.transition_table import TransitionTable


class HistoryChain(NamedTuple):
    """One kind of object: its lifecycle, its table, its history."""

    lifecycle: TransitionTable[Any, Any]
    objects: sa.Table
    history: sa.Table

    @property
    def key(self) -> sa.Column[str]:
        """The column with the object's id."""
        return next(iter(self.objects.primary_key.columns))

    @property
    def kind(self) -> sa.Label[str]:
        """The kind of object, for those who read an offence."""
        return sa.literal(self.lifecycle.name).label("kind")


STORIES = tuple(
    HistoryChain(lifecycle, objects, HISTORIES[lifecycle.name])
    for lifecycle, objects in (
        (SESSION, SESSIONS),
        (KERNEL, KERNELS),
        (AGENT, AGENTS),
        (DEPLOYMENT, DEPLOYMENTS),
        (ROUTE, ROUTES),
    )
)
_ENDING = [status.value for status in (SessionStatus.TERMINATING, SessionStatus.TERMINATED, SessionStatus.CANCELLED)]


def _line(story: HistoryChain) -> tuple[Any, ...]:
    names = ("object_id", "sequence", "before", "trigger", "after")
    return (story.kind, *[story.history.c[name] for name in names])


def _terminal(story: HistoryChain) -> list[str]:
    return sorted(status.value for status in story.lifecycle.terminal)


def _legal_lines(story: HistoryChain) -> Check:
    lifecycle, told = story.lifecycle, story.history.c
    moves = {f"{move.before}>{move.trigger}>{move.after}" for move in lifecycle.moves}
    notes = {f"{state}>{NOTED}>{state}" for state in lifecycle.states if state not in lifecycle.terminal}
    line = told.before + sa.literal(">") + told.trigger + sa.literal(">") + told.after
    # What follows a final status is a matter of the next law.
    illegal = sa.and_(told.before.not_in(_terminal(story)), line.not_in(sorted(moves | notes)))
    begun = sa.and_(told.before.is_(None), told.after != lifecycle.initial.value)
    return no_row("a move that the lifecycle does not have", sa.select(*_line(story)).where(sa.or_(illegal, begun)))


def _nothing_after_the_end(story: HistoryChain) -> Check:
    left = story.history.c.before.in_(_terminal(story))
    return no_row("a line after the end of an object", sa.select(*_line(story)).where(left))


def _kept_ends() -> tuple[Check, Check]:
    told = SESSION_HISTORY.c
    last = sa.and_(told.object_id == SESSIONS.c.session_id, told.sequence == SESSIONS.c.history_sequence)
    ended = SESSIONS.c.status.in_(sorted(status.value for status in SESSION.terminal))
    earlier = SESSION_HISTORY.alias()
    # Asked once per session: SQLite would look through a table of all first lines for each of them.
    first = (
        sa.select(sa.func.min(earlier.c.sequence))
        .where(earlier.c.object_id == SESSIONS.c.session_id, earlier.c.after.in_(_ENDING))
        .scalar_subquery()
    )
    line = SESSION_HISTORY.alias()
    cause = sa.case((line.c.code != "", line.c.code), else_=line.c.trigger)
    return (
        no_row(
            "a session did not end when its history says",
            sa.select(SESSIONS.c.session_id, SESSIONS.c.status, SESSIONS.c.ended_ms, told.at_ms)
            .select_from(SESSIONS)
            .join(SESSION_HISTORY, last)
            .where(ended, SESSIONS.c.ended_ms.is_distinct_from(told.at_ms)),
        ),
        no_row(
            "the cause of an end is not the first one",
            sa.select(SESSIONS.c.session_id, SESSIONS.c.status, SESSIONS.c.cause, cause.label("first_cause"))
            .select_from(SESSIONS)
            .outerjoin(line, sa.and_(line.c.object_id == SESSIONS.c.session_id, line.c.sequence == first))
            .where(SESSIONS.c.cause.is_distinct_from(cause)),
        ),
    )


def _points_to_its_last_line(story: HistoryChain) -> Check:
    told, objects = story.history.c, story.objects.c
    ends = (
        sa.select(
            told.object_id,
            sa.func.min(told.sequence).label("first"),
            sa.func.max(told.sequence).label("last"),
            sa.func.count().label("lines"),
        )
        .group_by(told.object_id)
        .subquery()
    )
    wrong = (ends.c.last.is_distinct_from(objects.history_sequence), ends.c.first != 1, ends.c.lines != ends.c.last)
    return no_row(
        "a history has a gap, or its object does not stand at its end",
        sa.select(story.kind, story.key.label("object_id"), objects.history_sequence, ends.c.last, ends.c.lines)
        .select_from(story.objects)
        .outerjoin(ends, ends.c.object_id == story.key)
        .where(sa.or_(*wrong)),
    )


def _says_what_its_history_says(story: HistoryChain) -> Check:
    told, objects = story.history.c, story.objects.c
    here = sa.and_(told.object_id == story.key, told.sequence == objects.history_sequence)
    return no_row(
        "an object has another status than its history says",
        sa.select(story.kind, story.key.label("object_id"), objects.status, told.after.label("told"))
        .select_from(story.objects)
        .join(story.history, here)
        .where(told.after != objects.status),
    )


def _goes_on_where_it_was(story: HistoryChain) -> Check:
    told, earlier = story.history.c, story.history.alias()
    link = sa.and_(earlier.c.object_id == told.object_id, earlier.c.sequence == told.sequence - 1)
    broken = sa.or_(
        told.before.is_distinct_from(earlier.c.after),
        told.previous.is_distinct_from(earlier.c.sequence),
    )
    # The first line has none before it, on both sides of the comparison. A missing one is a gap, and told as such.
    judged = sa.or_(told.sequence == 1, earlier.c.sequence.is_not(None))
    return no_row(
        "a line does not go on where the one before it ended",
        sa.select(*_line(story), earlier.c.after.label("was"))
        .select_from(story.history)
        .outerjoin(earlier, link)
        .where(judged, broken),
    )


def _belongs_to_something(story: HistoryChain) -> Check:
    told = story.history.c
    return no_row(
        "a history of an object that is not there",
        sa.select(story.kind, told.object_id)
        .distinct()
        .select_from(story.history)
        .outerjoin(story.objects, story.key == told.object_id)
        .where(story.key.is_(None)),
    )


def _written_in_its_term(story: HistoryChain) -> Check:
    told, term, following = story.history.c, LEASE_TERMS.alias(), LEASE_TERMS.alias()
    outside = sa.or_(
        told.lease.is_(None),
        told.epoch.is_(None),
        term.c.epoch.is_(None),
        told.at_ms < term.c.since_ms,
        told.at_ms > following.c.since_ms,
    )
    return no_row(
        "a line was not written in the term of the leader it names",
        sa.select(
            story.kind,
            *[told[name] for name in ("object_id", "sequence", "lease", "epoch", "at_ms")],
            term.c.since_ms,
            following.c.since_ms.label("until_ms"),
        )
        .select_from(story.history)
        .outerjoin(term, sa.and_(term.c.name == told.lease, term.c.epoch == told.epoch))
        .outerjoin(following, sa.and_(following.c.name == told.lease, following.c.epoch == told.epoch + 1))
        .where(sa.or_(told.lease.is_not(None), told.epoch.is_not(None)), outside),
    )


def _epochs_rise(story: HistoryChain) -> Check:
    told = story.history.c
    before = sa.func.lag(told.epoch).over(partition_by=(told.object_id, told.lease), order_by=told.sequence)
    named = [told[name] for name in ("object_id", "sequence", "lease", "epoch")]
    lines = sa.select(story.kind, *named, before.label("epoch_before")).where(told.lease.is_not(None)).subquery()
    return no_row(
        "an earlier leader wrote after a later one", sa.select(lines).where(lines.c.epoch_before > lines.c.epoch)
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


LEGAL_EDGES: tuple[Check, ...] = tuple(_legal_lines(story) for story in STORIES)
TERMINAL_ABSORBING: tuple[Check, ...] = (*(_nothing_after_the_end(story) for story in STORIES), *_kept_ends())
HISTORY_ONCE: tuple[Check, ...] = tuple(
    check(story)
    for story in STORIES
    for check in (_points_to_its_last_line, _says_what_its_history_says, _goes_on_where_it_was, _belongs_to_something)
)
FENCING: tuple[Check, ...] = (
    *(check(story) for story in STORIES for check in (_written_in_its_term, _epochs_rise)),
    *_terms(),
)
