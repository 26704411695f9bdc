"""`sokovan timeline`: how long sessions waited and held their slots."""

from __future__ import annotations

from datetime import datetime

from sokovan.cli.commands.catalog.time_window import LAST_HOUR, WindowOptions
from sokovan.cli.commands.options import TABLE_OUTPUT, OutputOptions
from sokovan.cli.exit_codes import OK
from sokovan.cli.formatting import NONE, duration
from sokovan.cli.output import print_status
from sokovan.cli.rendering import Column, show_all
from sokovan.sdk.environment import SystemEnvironment
from sokovan.sdk.errors import InvalidSetting
from sokovan.wire.api.sessions import SessionRowView

LIMIT_DEFAULT = 100
WIDTH = 40


def timeline(
    *,
    queue: str | None = None,
    user: str | None = None,
    search: str | None = None,
    limit: int = LIMIT_DEFAULT,
    time: WindowOptions = LAST_HOUR,
    output: OutputOptions = TABLE_OUTPUT,
) -> int:
    """Show how long sessions waited and held their slots.

    One line for each session that waited or ran within the time, newest first.
    The bar covers that time: dots while the session waited, # while it held slots.
    Of one that was evicted, all time before its last start counts as waiting; see
    sokovan agent timeline for that of its devices.

    For example:
      sokovan timeline
      sokovan timeline --last 7d --queue research
      sokovan timeline --from 2030-01-31T08:00:00Z --to 2030-01-31T18:00:00Z
      sokovan timeline --json

    Parameters
    ----------
    queue
        Only sessions of this queue.
    user
        Only sessions of this user.
    search
        Only those with these words in name, id, user or queue.
    limit
        Maximum number of sessions; default: 100.
    """
    if limit < 1:
        raise InvalidSetting(f"--limit {limit} is less than 1", hint="use 1 or more")
    window, now_s = time.window(), SystemEnvironment().wall_s()
    with output.client() as client:
        rows = list(
            client.sessions.rows(
                since=window.since, until=window.until, queue=queue, user=user, q=search, limit=limit + 1
            )
        )
    columns: list[Column[SessionRowView]] = [
        Column("name", lambda row: row.name),
        Column("state", lambda row: row.status.upper()),
        Column("waited", lambda row: _length(row.submitted_at, row.scheduled_at or row.ended_at, now_s)),
        Column("held", lambda row: _length(row.scheduled_at, row.ended_at, now_s) if _began(row) else NONE),
        Column("time", lambda row: bar(row, window.from_s, window.to_s, now_s)),
    ]
    show_all(rows[:limit], columns, output.format(), name=lambda row: row.name)
    if len(rows) > limit:
        print_status(f"the newest {limit} sessions are listed, and there are more; --limit lists more")
    return OK


def bar(row: SessionRowView, from_s: float, to_s: float, now_s: float) -> str:
    """The session within a time until now, as text of a fixed width."""
    held_s = _time(row.scheduled_at) if _began(row) else None
    end_s = _time(row.ended_at) if row.ended_at else now_s
    submitted_s = _time(row.submitted_at)
    marks = []
    for place in range(WIDTH):
        # The middle of the part of the time that the mark stands for.
        at_s = from_s + (to_s - from_s) * (place + 0.5) / WIDTH
        is_alive = submitted_s <= at_s <= end_s
        marks.append(" " if not is_alive else "#" if held_s is not None and at_s >= held_s else ".")
    return f"|{''.join(marks)}|"


def _began(row: SessionRowView) -> bool:
    return row.scheduled_at is not None and row.status != "pending"


def _time(text: str | None) -> float:
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def _length(begin: str | None, end: str | None, now_s: float) -> str:
    return duration(max(0.0, (_time(end) if end else now_s) - _time(begin)))
