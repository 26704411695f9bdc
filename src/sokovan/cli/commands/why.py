"""`sokovan why`: why a session waits, and what would help."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from sokovan.cli import cells
from sokovan.cli.commands.options import AS_TABLE, Shown
from sokovan.cli.commands.session_views import check_table, funnel_line, indented
from sokovan.cli.exit_codes import OK
from sokovan.cli.output import say, table
from sokovan.cli.rendering import Column, show_all, show_one
from sokovan.sdk.errors import InvalidSetting
from sokovan.sdk.surroundings import RealSurroundings
from sokovan.wire.api.explanations import WaitingReason, WhyView

_HELPS = {
    "WAIT": "nothing: wait, its turn will come",
    "CHANGE": "change the request",
    "ASK_ADMIN": "ask an administrator",
    "BROKEN": "something is broken: tell an administrator",
}


def why(
    name: str | None = None,
    /,
    *,
    all: Annotated[bool, Parameter(name=["--all", "-a"], negative=())] = False,  # noqa: A002  # the flag is --all
    shown: Shown = AS_TABLE,
) -> int:
    """Say why a session has not started, and what would help.

    For example:
      sokovan why tune-9
      sokovan why tune-9 --json
      sokovan why --all

    Parameters
    ----------
    name
        Its name or id, or the beginning of one.
    all
        Everything that waits, by reason.
    """
    form = shown.form()
    if (name is None) != all:
        raise InvalidSetting("name one session, or say --all", hint="sokovan ps --status PENDING lists those that wait")
    with shown.client() as client:
        if name is None:
            reasons = client.sessions.waiting().items
            show_all(reasons, _waiting_columns(utc=shown.utc), form, name=lambda reason: reason.code)
            return OK
        view = client.sessions.why(name)
    if not form.is_for_people:
        show_one(view, [("code", view.code), ("summary", view.summary)], form, name=view.code)
        return OK
    for line in explained(view, name):
        say(line)
    return OK


def explained(view: WhyView, name: str) -> list[str]:
    """The explanation as people read it: the verdict first, then all checks."""
    lines = [f"{name}  {view.status.upper()}  {view.code}".rstrip(), f"  {view.summary}"]
    if view.verdict in _HELPS:
        lines.append(f"  what to do: {_HELPS[view.verdict]}")
    if view.funnel:
        lines.append(funnel_line(view.funnel))
    if view.position:
        lines.append(f"  place in its queue: {view.position}")
    lines.extend(f"  behind {one.session}: {one.why}" for one in view.ahead)
    if view.checks:
        lines += ["", *check_table(view.checks)]
    if view.would_start:
        lines += ["", "  would start:", *(f"    {one.when}: {one.change}" for one in view.would_start)]
    if view.history:
        past = [(one.code, str(one.count), one.first, one.last) for one in view.history]
        lines += ["", *indented(table(("REASON SO FAR", "TIMES", "FIRST", "LAST"), past))]
    return lines


def _waiting_columns(*, utc: bool) -> list[Column[WaitingReason]]:
    now_s = RealSurroundings().wall_s()
    return [
        Column("reason", lambda one: one.code),
        Column("sessions", lambda one: str(one.sessions)),
        Column("gpu", lambda one: cells.gpus(one.slots)),
        Column("slots", lambda one: cells.amounts(one.slots), wide=True),
        Column("oldest", lambda one: cells.age(one.oldest, now_s=now_s, utc=utc)),
        Column("do", lambda one: one.verdict),
        Column("meaning", lambda one: one.meaning),
    ]
