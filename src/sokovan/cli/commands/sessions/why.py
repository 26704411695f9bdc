"""`sokovan why`: explains why a session is pending and what would help."""

from __future__ import annotations

from typing import Annotated

from sokovan.cli import formatting
from sokovan.cli.arguments.parameters import Parameter
from sokovan.cli.commands.options import TABLE_OUTPUT, OutputOptions
from sokovan.cli.commands.sessions.session_tables import check_table, funnel_line, indented, victim_lines
from sokovan.cli.exit_codes import OK
from sokovan.cli.output import print_data, table
from sokovan.cli.rendering import Column, show_all, show_one
from sokovan.sdk.environment import SystemEnvironment
from sokovan.sdk.errors import InvalidSetting
from sokovan.wire.api.explanations import WaitingReason, WhyView

_SCOPES = ("KEYPAIR", "USER", "GROUP", "DOMAIN")
_ADVICE = {
    "WAIT": "nothing; it starts when its turn comes",
    "CHANGE": "change the request",
    "ASK_ADMIN": "ask an administrator",
    "BROKEN": "report it to an administrator: something is broken",
}
_FOR_ROOM = "wait for running sessions to end, or request less"
# More specific advice by verdict and reason code.
_SPECIFIC_ADVICE: dict[tuple[str, str], str] = {
    **{("CHANGE", f"QUOTA_{scope}"): "request less, or ask an administrator to raise the quota" for scope in _SCOPES},
    ("WAIT", "HELD"): "release it when it may start: sokovan session release {name}",
    ("CHANGE", "BOOKING_INVALID"): "cancel it and submit it without the booking, or with another: sokovan booking ls",
    ("CHANGE", "DEPENDENCY"): "rerun the failed dependency and submit this session again, or drop the dependency",
    ("CHANGE", "COMMAND_FAILED"): "see its output: sokovan logs {name}",
    ("CHANGE", "TIME_LIMIT_REACHED"): "increase --time-limit; see its output: sokovan logs {name}",
    ("CHANGE", "LIFETIME_REACHED"): "save its state and submit it again, or choose another scaling group",
    ("CHANGE", "IDLE_TIMEOUT"): "submit it again when you need it, with a longer --idle-timeout",
    ("CHANGE", "VALIDATION_FAILED"): "request less and submit it again, or ask an administrator",
    (
        "CHANGE",
        "DISK_LIMIT_REACHED",
    ): "write less, or remove files; an administrator can raise the limit",
    ("CHANGE", "OUT_OF_MEMORY"): "request more with --mem",
    ("WAIT", "NOT_ENOUGH_FREE"): _FOR_ROOM,
    ("WAIT", "FRAGMENTED"): _FOR_ROOM,
    (
        "WAIT",
        "NODES_DRAINING",
    ): "wait until agents are undrained or approved (sokovan agent ls), or ask an administrator",
}
_STARTS = {"now": "would start now", "later": "would start later", "never": "would not start even"}


def why(
    name: str | None = None,
    /,
    *,
    all: Annotated[bool, Parameter(name=["--all", "-a"], negative=())] = False,  # noqa: A002  # the flag is --all
    evict: Annotated[bool, Parameter(negative=())] = False,
    output: OutputOptions = TABLE_OUTPUT,
) -> int:
    """Explain why a session is pending and what would help.

    For example:
      sokovan why tune-9
      sokovan why tune-9 --evict
      sokovan why tune-9 --json
      sokovan why --all

    Parameters
    ----------
    name
        Session name or ID, or a unique prefix of one.
    all
        Summarize all pending sessions by reason.
    evict
        List the sessions that would be evicted for it, as a dry run.
    """
    fmt = output.format()
    if evict and name is None:
        raise InvalidSetting("--evict needs a session name", hint="see sokovan ps --status PENDING")
    if (name is None) != all:
        raise InvalidSetting("give a session name, or --all", hint="see sokovan ps --status PENDING")
    with output.client() as client:
        if name is None:
            reasons = client.sessions.waiting().items
            show_all(reasons, _waiting_columns(utc=output.utc), fmt, name=lambda reason: reason.code)
            return OK
        view = client.sessions.why(name, evict=evict)
    if not fmt.is_table:
        show_one(view, [("code", view.code), ("summary", view.summary)], fmt, name=view.code)
        return OK
    for line in why_lines(view, name):
        print_data(line)
    return OK


def why_lines(view: WhyView, name: str) -> list[str]:
    """The explanation as lines of text: the verdict, then all checks."""
    lines = [f"{name}  {view.status.upper()}  {view.code}".rstrip(), f"  {view.summary}"]
    if view.verdict in _ADVICE:
        lines.append(f"  what to do: {_advice(view, name)}")
    if view.times_out_at:
        lines.append(f"  times out at {view.times_out_at}, unless it starts before")
    if view.funnel:
        lines.append(funnel_line(view.funnel))
    if view.position:
        lines.append(f"  ahead of it in its queue: {view.position}")
    lines.extend(f"  behind {one.session}: {one.why}" for one in view.ahead)
    if view.ahead and view.position > len(view.ahead):
        lines.append(f"  behind {view.position - len(view.ahead)} more")
    if view.checks:
        lines += ["", *check_table(view.checks)]
    lines += victim_lines(view.evicts)
    if view.would_start:
        lines += ["", *(f"  {_STARTS.get(one.when, one.when)} {one.change}" for one in view.would_start)]
    if view.history:
        past = [(one.code, str(one.count), one.first, one.last) for one in view.history]
        lines += ["", *indented(table(("REASON SO FAR", "TIMES", "FIRST", "LAST"), past))]
    return lines


def _advice(view: WhyView, name: str) -> str:
    """Advice for the user."""
    short = any(check.name == "room" and check.result == "short" for check in view.checks)
    if view.code == "QUEUE_OVER_SHARE" and short:
        # Its share is the whole cluster: no other queue has anything to return.
        return _FOR_ROOM
    return _SPECIFIC_ADVICE.get((view.verdict, view.code), _ADVICE[view.verdict]).format(name=name)


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
