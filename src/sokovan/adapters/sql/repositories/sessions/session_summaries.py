"""Sessions as lists show them, read without the specs of all of their kernels.

The spec of a large session is long, and decoding it blocks the event loop. What lists show of it
is stored beside it; small sessions have their spec alone, which is as short.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Row

from sokovan.adapters.sql.repositories.sessions.session_rows import (
    failed_starts_of,
    kernel_record,
    kernels_of,
)
from sokovan.adapters.sql.schema.eviction_codec import evictions_of
from sokovan.adapters.sql.schema.spec_codec import SPEC_ENCODER, decode_slots, spec_of, spec_text
from sokovan.adapters.sql.schema.tables import SESSIONS
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.session import Goal, SessionStatus
from sokovan.domain.records import KernelRecord, SessionResult, SessionSummary, SpecSummary
from sokovan.domain.session import SessionSpec
from sokovan.domain.slots import devices_in_thousandths

# Sessions that are read before other tasks run, in a few milliseconds.
CHUNK = 20
# Specs of so many kernels are short enough to be read whole.
_FEW_KERNELS = 8
_DECODER = msgspec.json.Decoder(SpecSummary, dec_hook=decode_slots)


def summary_text(spec: SessionSpec) -> str:
    """The stored summary of a spec; empty if the spec itself is short enough."""
    return "" if len(spec.kernels) <= _FEW_KERNELS else SPEC_ENCODER.encode(SpecSummary.of(spec)).decode()


def texts(spec: SessionSpec) -> dict[str, str]:
    """The columns of a spec and its summary."""
    return {"body": spec_text(spec), "summary": summary_text(spec)}


def sizes(spec: SessionSpec) -> dict[str, int]:
    """The columns of a spec's size that lists are sorted by."""
    return {"size": len(spec.kernels), "devices": devices_in_thousandths(spec.requested_slots())}


async def read_summaries(transaction: Transaction, ids: Sequence[str], *, kernels_max: int) -> list[SessionSummary]:
    """The sessions with these ids, in their order, each with its first kernels."""
    found: list[SessionSummary] = []
    for start in range(0, len(ids), CHUNK):
        if start:
            await asyncio.sleep(0)  # yields, so that a long page does not block the event loop
        found += await _read(transaction, ids[start : start + CHUNK], kernels_max)
    return found


async def _read(transaction: Transaction, ids: Sequence[str], kernels_max: int) -> list[SessionSummary]:
    bound = bound_ids(transaction, ids)
    rows = {row.session_id: row for row in await transaction.fetch(_statement(transaction.postgresql), bound)}
    kernels: dict[str, list[KernelRecord]] = {one: [] for one in rows}
    first = {**bound, "kernels_max": kernels_max}
    for row in await transaction.fetch(kernels_of(transaction.postgresql), first) if kernels_max else ():
        kernels[row.session_id].append(kernel_record(row))
    return [_summary(rows[one], kernels[one]) for one in ids if one in rows]


@cache
def _statement(postgresql: bool) -> sa.Select[Any]:  # noqa: FBT001  # a key of the cache
    """Selects sessions by id; the spec only of those without a summary."""
    columns = [column for column in SESSIONS.columns if column.name not in {"body", "sealed"}]
    body = sa.case((SESSIONS.c.summary == "", SESSIONS.c.body), else_="").label("body")
    return sa.select(*columns, body).where(SESSIONS.c.session_id.in_(sa.select(ids_table(postgresql).c.id)))


def _summary(row: Row[Any], kernels: Sequence[KernelRecord]) -> SessionSummary:
    return SessionSummary(
        session_id=SessionId(row.session_id),
        spec=_DECODER.decode(row.summary) if row.summary else SpecSummary.of(spec_of(row.body)),
        status=SessionStatus(row.status),
        version=row.version,
        goal=Goal(row.goal),
        submitted_ms=row.submitted_ms,
        kernels=tuple(kernels),
        scheduled_ms=row.scheduled_ms,
        ended_ms=row.ended_ms,
        cause=row.cause,
        cause_detail=row.cause_detail,
        result=None if row.result is None else SessionResult(row.result),
        hypernode=row.hypernode,
        place=row.place,
        since_ms=row.since_ms,
        failed_starts=failed_starts_of(row.failed_starts),
        group_domains=msgspec.json.decode(row.group_domains),
        evictions=evictions_of(row.evictions),
        checkpoint_ms=row.checkpoint_ms,
        loan=row.loan,
    )
