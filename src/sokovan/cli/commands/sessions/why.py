"""`sokovan why`: why a session waits, and what would help."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from sokovan.cli import formatting
from sokovan.cli.commands.options import TABLE_OUTPUT, OutputOptions
from sokovan.cli.commands.sessions.session_tables import check_table, funnel_line, indented
from sokovan.cli.exit_codes import OK
from sokovan.cli.output import print_data, table
from sokovan.cli.rendering import Column, show_all, show_one
from sokovan.sdk.environment import SystemEnvironment
from sokovan.sdk.errors import InvalidSetting
from sokovan.wire.api.explanations import WaitingReason, WhyView

_SCOPES = ("KEYPAIR", "USER", "GROUP", "DOMAIN")
_HELPS = {
    "WAIT": "nothing: wait, its turn will come",
    "CHANGE": "change the request",
    "ASK_ADMIN": "ask an administrator",
    "BROKEN": "something is broken: tell an administrator",
}
_FOR_ROOM = "wait for something that runs to end, or ask for less"
# What is better advice where the code tells more.
_HELPS_WITH: dict[tuple[str, str], str] = {
    **{("CHANGE", f"QUOTA_{scope}"): "ask for less, or ask an administrator to raise the limit" for scope in _SCOPES},
    ("CHANGE", "DEPENDENCY"): "run what failed again and submit this anew, or drop the dependency",
    ("CHANGE", "COMMAND_FAILED"): "see what it said: sokovan logs {name}",
    ("CHANGE", "TIME_LIMIT_REACHED"): "raise its --time-limit; how far it came: sokovan logs {name}",
    ("CHANGE", "OUT_OF_MEMORY"): "ask for more with --mem",
    ("WAIT", "NOT_ENOUGH_FREE"): _FOR_ROOM,
    ("WAIT", "FRAGMENTED"): _FOR_ROOM,
    ("WAIT", "NODES_DRAINING"): "wait until machines take work again (sokovan agent ls), or ask an administrator",
}
_STARTS = {"now": "would start now", "later": "would start later", "never": "would not start even"}


def why(
    name: str | None = None,
    /,
    *,
    all: Annotated[bool, Parameter(name=["--all", "-a"], negative=())] = False,  # noqa: A002  # the flag is --all
    shown: OutputOptions = TABLE_OUTPUT,
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
    if not form.is_table:
        show_one(view, [("code", view.code), ("summary", view.summary)], form, name=view.code)
        return OK
    for line in explained(view, name):
        print_data(line)
    return OK


def explained(view: WhyView, name: str) -> list[str]:
    """The explanation as people read it: the verdict first, then all checks."""
    lines = [f"{name}  {view.status.upper()}  {view.code}".rstrip(), f"  {view.summary}"]
    if view.verdict in _HELPS:
        lines.append(f"  what to do: {_help(view, name)}")
    if view.funnel:
        lines.append(funnel_line(view.funnel))
    if view.position:
        lines.append(f"  place in its queue: {view.position}")
    lines.extend(f"  behind {one.session}: {one.why}" for one in view.ahead)
    if view.checks:
        lines += ["", *check_table(view.checks)]
    if view.would_start:
        lines += ["", *(f"  {_STARTS.get(one.when, one.when)} {one.change}" for one in view.would_start)]
    if view.history:
        past = [(one.code, str(one.count), one.first, one.last) for one in view.history]
        lines += ["", *indented(table(("REASON SO FAR", "TIMES", "FIRST", "LAST"), past))]
    return lines


def _help(view: WhyView, name: str) -> str:
    """What the reader can do about it."""
    short = any(check.name == "room" and check.result == "short" for check in view.checks)
    if view.code == "QUEUE_OVER_SHARE" and short:
        # Its share is all there is: no other queue will give anything back.
        return _FOR_ROOM
    return _HELPS_WITH.get((view.verdict, view.code), _HELPS[view.verdict]).format(name=name)


def _waiting_columns(*, utc: bool) -> list[Column[WaitingReason]]:
    now_s = SystemEnvironment().wall_s()
    return [
        Column("reason", lambda one: one.code),
        Column("sessions", lambda one: str(one.sessions)),
        Column("gpu", lambda one: formatting.gpus(one.slots)),
        Column("slots", lambda one: formatting.amounts(one.slots), wide=True),
        Column("oldest", lambda one: formatting.age(one.oldest, now_s=now_s, utc=utc)),
        Column("do", lambda one: one.verdict),
        Column("meaning", lambda one: one.meaning),
    ]
