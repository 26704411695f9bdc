"""Single sessions: show them, tell their story, wait for them, end them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sokovan.cli.commands.options import DEFAULT_ACTION, TABLE_OUTPUT, ActionOptions, Flag, OutputOptions, Yes
from sokovan.cli.commands.sessions.session_tables import KERNEL_HEADINGS, history_columns, kernel_rows, session_facts
from sokovan.cli.exit_codes import OK, exit_code_of
from sokovan.cli.output import flush_output, print_data, print_error, print_status, table
from sokovan.cli.prompts import confirm
from sokovan.cli.rendering import COLUMN_FORMATS, show_all, show_one
from sokovan.sdk.core.durations import seconds
from sokovan.sdk.core.session_calls import SessionListOptions
from sokovan.sdk.core.states import ENDED, checked_state, is_final, reached, state_of
from sokovan.sdk.errors import ClientProblem, InvalidSetting
from sokovan.wire.api.sessions import SessionView

if TYPE_CHECKING:
    from sokovan.sdk.sync.client import Client


def show(
    name: str,
    /,
    *,
    watch: Annotated[bool, Parameter(name=["--watch", "-w"], negative=())] = False,
    until: str | None = None,
    shown: OutputOptions = TABLE_OUTPUT,
) -> int:
    """Show one session.

    For example:
      sokovan session show ddp
      sokovan session show ddp -o yaml
      sokovan session show ddp --until RUNNING

    Parameters
    ----------
    name
        Its name or id, or the beginning of one.
    watch
        Show it again after every change, until it has ended.
    until
        Watch until it is, or has been, in this state.
    """
    target = checked_state(until) if until is not None else None
    shown.form()
    with shown.client() as client:
        if not watch and target is None:
            _show(client.sessions.get(name), shown)
            return OK
        for view in client.sessions.watch(name):
            _show(view, shown)
            flush_output()
            if target is not None and reached(view, target):
                break
    return OK


def history(name: str, /, *, shown: OutputOptions = TABLE_OUTPUT) -> int:
    """Tell the whole story of a session.

    Every move of the session and of its kernels, with time, cause and reason.

    For example:
      sokovan session history ddp
      sokovan session history ddp -o jsonl

    Parameters
    ----------
    name
        Its name or id, or the beginning of one.
    """
    form = shown.form()
    with shown.client() as client:
        story = client.sessions.history(name)
        kernels = client.sessions.get(story.session).kernels if form.format in COLUMN_FORMATS else []
    columns = history_columns(story.lines, kernels, utc=shown.utc)
    show_all(story.lines, columns, form, name=lambda line: line.subject)
    return OK


def wait(
    *names: str,
    until: Annotated[str, Parameter(name=["--for", "--until"])] = ENDED,
    timeout: str | None = None,
    server: ActionOptions = DEFAULT_ACTION,
) -> int:
    """Wait until sessions are in a state.

    Exit status: 0 they are, 1 one ended without ever being there, 6 time is up.

    For example:
      sokovan wait ddp
      sokovan wait ddp tune-9 --for RUNNING --timeout 10m

    Parameters
    ----------
    names
        Names or ids, or beginnings of one.
    until
        The state, as RUNNING or state=RUNNING; ENDED is any end.
    timeout
        For how long at most: 90s, 10m, 2h.
    """
    target = checked_state(until.removeprefix("state="))
    timeout_s = None if timeout is None else seconds(timeout, what="--timeout")
    with server.client() as client:
        for name in _some(names, "wait"):
            view = client.sessions.wait(name, target, timeout_s=timeout_s)
            server.tell(view, f"{view.name}  {state_of(view)}")
    return OK


def stop(
    *names: str,
    all: Flag = False,  # noqa: A002  # the flag is --all
    force: Flag = False,
    yes: Yes = False,
    server: ActionOptions = DEFAULT_ACTION,
) -> int:
    """End sessions.

    A session gets SIGTERM, time to finish, then SIGKILL. With --force you see it ended at once; its machines are free
    only when the agents have said that it is gone.

    For example:
      sokovan stop ddp
      sokovan stop --all --yes

    Parameters
    ----------
    names
        Names or ids, or beginnings of one.
    all
        All of your own that have not ended.
    force
        Without waiting for the agents.
    """
    with server.client() as client:
        mine = SessionListOptions(mine=True)
        chosen = [view for view in client.sessions.list(mine) if not is_final(view)] if all else []
        if not all:
            _some(names, "stop", or_flag="--all")
        elif not names and not chosen:
            print_status("there is nothing to end")
            return OK
        if all or force:
            shown = [*names, *(view.name for view in chosen)]
            confirm(f"{'force the end of' if force else 'end'} {_counted(shown)}", yes=yes)
        return _each(client, server, [*names, *(view.id for view in chosen)], forced=force)


def cancel(*names: str, server: ActionOptions = DEFAULT_ACTION) -> int:
    """Take back sessions that still wait.

    A session that has started already is not touched: end it with sokovan stop.

    For example:
      sokovan cancel tune-9

    Parameters
    ----------
    names
        Names or ids, or beginnings of one.
    """
    with server.client() as client:
        for name in _some(names, "cancel"):
            view = client.sessions.cancel(name)
            server.tell(view, f"{view.name}  {state_of(view)}")
    return OK


def _show(view: SessionView, shown: OutputOptions) -> None:
    form = shown.form()
    show_one(view, session_facts(view, utc=shown.utc), form, name=view.name)
    if form.is_table and view.kernels and not form.columns:
        print_data("")
        print_data(table(KERNEL_HEADINGS, kernel_rows(view.kernels)))


def _each(client: Client, server: ActionOptions, names: Sequence[str], *, forced: bool) -> int:
    """Every one is tried; the first failure decides the status."""
    status = OK
    for name in names:
        try:
            view = client.sessions.stop(name, forced=forced)
            server.tell(view, f"{view.name}  {state_of(view)}")
        except ClientProblem as problem:
            print_error(problem, json_too=server.json)
            status = status or exit_code_of(problem)
    return status


def _counted(names: Sequence[str]) -> str:
    return f"session {names[0]}" if len(names) == 1 else f"{len(names)} sessions"


def _some(names: Sequence[str], verb: str, *, or_flag: str = "") -> Sequence[str]:
    if not names:
        more = f", or say {or_flag}" if or_flag else ""
        raise InvalidSetting("no session is named", hint=f"write sokovan {verb} NAME{more}; sokovan ps lists them")
    return names
