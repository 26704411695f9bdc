"""Commands on single sessions: show, history, wait, release, stop and cancel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

from sokovan.cli.arguments.parameters import Parameter
from sokovan.cli.commands.options import DEFAULT_ACTION, TABLE_OUTPUT, ActionOptions, Flag, OutputOptions, Yes
from sokovan.cli.commands.sessions.session_tables import (
    KERNEL_HEADINGS,
    Listed,
    array_fields,
    counts_text,
    history_columns,
    kernel_rows,
    session_fields,
)
from sokovan.cli.exit_codes import OK, exit_code_of
from sokovan.cli.output import flush_output, print_data, print_error, print_status, table
from sokovan.cli.prompts import confirm
from sokovan.cli.rendering import COLUMN_FORMATS, show_all, show_one
from sokovan.sdk.core.durations import seconds
from sokovan.sdk.core.session_calls import TOGETHER
from sokovan.sdk.core.states import ENDED, FINAL, PENDING, STATES, checked_state, is_final, reached, state_of
from sokovan.sdk.errors import ApiProblem, ClientProblem, InvalidSetting, api_problem
from sokovan.wire.api.arrays import ArrayView
from sokovan.wire.api.sessions import SessionRowView, SessionView

if TYPE_CHECKING:
    from sokovan.sdk.sync.client import Client

# The server's code for the name of an array where one session is required.
ARRAY_NAMED = "array-named"


def show(
    name: str,
    /,
    *,
    watch: Annotated[bool, Parameter(name=["--watch", "-w"], negative=())] = False,
    until: str | None = None,
    all_kernels: Flag = False,
    output: OutputOptions = TABLE_OUTPUT,
) -> int:
    """Show a session or an array.

    Of a session with many kernels, the first 100 are shown.

    For example:
      sokovan session show ddp
      sokovan session show 'sweep[17]'
      sokovan session show ddp -o yaml
      sokovan session show ddp --until RUNNING

    Parameters
    ----------
    name
        Session name or ID, or a unique prefix of one.
    watch
        Print it again after every change, until it has ended.
    until
        Watch until it has reached this state.
    all_kernels
        Show all kernels of the session.
    """
    target = checked_state(until) if until is not None else None
    output.format()
    with output.client() as client:
        if not watch and target is None:
            view = session_or_array(partial(client.sessions.get, name), partial(client.arrays.get, name))
            if isinstance(view, SessionView) and all_kernels and view.size > len(view.kernels):
                view = replace(view, kernels=client.kernels.list(view.id))
            _show_array(view, output) if isinstance(view, ArrayView) else _show(view, output)
            return OK
        for view in client.sessions.watch(name):
            _show(view, output)
            flush_output()
            if target is not None and reached(view, target):
                break
    return OK


def history(name: str, /, *, output: OutputOptions = TABLE_OUTPUT) -> int:
    """Show the state transitions of a session.

    Lists every transition of the session and its kernels, with time, actor and
    reason.

    For example:
      sokovan session history ddp
      sokovan session history ddp -o jsonl

    Parameters
    ----------
    name
        Session name or ID, or a unique prefix of one.
    """
    fmt = output.format()
    with output.client() as client:
        history = client.sessions.history(name)
        kernels = client.kernels.list(history.session) if fmt.name in COLUMN_FORMATS else []
    columns = history_columns(history.lines, kernels, utc=output.utc)
    show_all(history.lines, columns, fmt, name=lambda line: line.subject)
    return OK


def wait(
    *names: str,
    until: Annotated[str, Parameter(name=["--for", "--until"])] = ENDED,
    timeout: str | None = None,
    server: ActionOptions = DEFAULT_ACTION,
) -> int:
    """Wait until sessions reach a state.

    An array is waited for until all of its sessions have ended. Exit codes: 0
    all reached it, 1 a session ended without reaching it, 6 timeout.

    For example:
      sokovan wait ddp
      sokovan wait ddp tune-9 --for RUNNING --timeout 10m

    Parameters
    ----------
    names
        Session names or IDs, or unique prefixes.
    until
        State, such as RUNNING; default: ENDED, any final state.
    timeout
        Maximum time to wait: 90s, 10m, 2h.
    """
    target = checked_state(until.removeprefix("state="))
    timeout_s = None if timeout is None else seconds(timeout, what="--timeout")
    with server.client() as client:
        for name in _required(names, "wait"):
            session = partial(client.sessions.wait, name, target, timeout=timeout_s)
            array = partial(_wait_array, client, name, target, timeout_s=timeout_s)
            _report(server, session_or_array(session, array))
    return OK


def stop(
    *names: str,
    all: Flag = False,  # noqa: A002  # the flag is --all
    force: Flag = False,
    yes: Yes = False,
    server: ActionOptions = DEFAULT_ACTION,
) -> int:
    """Stop sessions.

    Kernels get SIGTERM, a grace period, then SIGKILL. With --force, sessions
    are reported as terminated at once; their resources are released when the
    agents confirm that the kernels are gone. The name of an array stops all of
    its sessions.

    For example:
      sokovan stop ddp
      sokovan stop --all --yes
      sokovan stop 'sweep[17]'

    Parameters
    ----------
    names
        Session names or IDs, or unique prefixes.
    all
        Stop all of your sessions that have not ended.
    force
        Do not wait for the agents.
    """
    with server.client() as client:
        chosen = _own_sessions(client) if all else []
        if not all:
            _required(names, "stop", or_flag="--all")
        elif not names and not chosen:
            print_status("no sessions to stop")
            return OK
        if all or force:
            affected = [*names, *(row.name for row in chosen)]
            confirm(f"{'force-stop' if force else 'stop'} {_counted(affected)}", yes=yes)
        return _stop_all(client, server, [*names, *(row.id for row in chosen)], forced=force)


def cancel(*names: str, server: ActionOptions = DEFAULT_ACTION) -> int:
    """Cancel pending sessions.

    Fails for a session that has started; stop it with sokovan stop.

    For example:
      sokovan cancel tune-9

    Parameters
    ----------
    names
        Session names or IDs, or unique prefixes.
    """
    with server.client() as client:
        for name in _required(names, "cancel"):
            view = client.sessions.cancel(name)
            server.report(view, f"{view.name}  {state_of(view)}")
    return OK


def release(*names: str, gate: str | None = None, server: ActionOptions = DEFAULT_ACTION) -> int:
    """Release held sessions, so that they may start.

    Opens the gates that sokovan run --hold closed. A session that is not held
    is not affected. The name of an array releases all of its sessions.

    For example:
      sokovan session release ddp
      sokovan session release 'sweep[17]'
      sokovan session release ddp --gate data-ready

    Parameters
    ----------
    names
        Session names or IDs, or unique prefixes.
    gate
        Open only this gate; default: all.
    """
    with server.client() as client:
        for name in _required(names, "session release"):
            session = partial(client.sessions.release, name, gate=gate)
            _report(server, session_or_array(session, partial(client.arrays.release, name, gate=gate)))
    return OK


def _show(view: SessionView, output: OutputOptions) -> None:
    fmt = output.format()
    show_one(view, session_fields(view, utc=output.utc), fmt, name=view.name)
    if fmt.is_table and view.kernels and not fmt.columns:
        print_data("")
        print_data(table(KERNEL_HEADINGS, kernel_rows(view.kernels)))
        if view.size > len(view.kernels):
            print_status(f"the first {len(view.kernels)} of {view.size} kernels; --all-kernels shows all")


def _own_sessions(client: Client) -> list[SessionRowView]:
    """The caller's sessions that have not ended; those that wait first, so that none starts meanwhile."""
    rows = client.sessions.rows(mine=True, status=[state.lower() for state in STATES if state not in FINAL])
    return sorted(rows, key=lambda row: row.status.upper() != PENDING)


def _stop_all(client: Client, server: ActionOptions, names: Sequence[str], *, forced: bool) -> int:
    """Stop every session, thousands in a request; the first failure determines the exit code."""
    if len(names) == 1:
        return _stop_one(client, server, names[0], forced=forced)
    status = OK
    for start in range(0, len(names), TOGETHER):
        some = names[start : start + TOGETHER]
        try:
            stopped = _stop_some(client, server, some, forced=forced)
        except ClientProblem as problem:
            print_error(problem, as_object=server.json)
            print_status(f"it is not known whether {_counted(some)} {'ends' if len(some) == 1 else 'end'}; stop again")
            stopped = exit_code_of(problem)
        status = status or stopped
    return status


def _stop_some(client: Client, server: ActionOptions, names: Sequence[str], *, forced: bool) -> int:
    """Stop sessions in one request, and print what became of each. Raises ClientProblem."""
    status = OK
    for name, item in zip(names, client.sessions.stop_many(names, forced=forced), strict=False):
        if item.problem is None:
            server.report(item, f"{item.name}  {(item.status or '').upper()}")
        elif item.problem.code == ARRAY_NAMED:
            stopped = _stop_one(client, server, name, forced=forced)
            status = status or stopped
        else:
            problem = api_problem(item.problem)
            print_error(problem, as_object=server.json)
            status = status or exit_code_of(problem)
    return status


def _stop_one(client: Client, server: ActionOptions, name: str, *, forced: bool) -> int:
    try:
        session = partial(client.sessions.stop, name, forced=forced)
        _report(server, session_or_array(session, partial(client.arrays.stop, name, forced=forced)))
    except ClientProblem as problem:
        print_error(problem, as_object=server.json)
        return exit_code_of(problem)
    return OK


def session_or_array(session: Callable[[], SessionView], array: Callable[[], ArrayView]) -> Listed:
    """The result for a session; if its name is that of an array, for the array."""
    try:
        return session()
    except ApiProblem as problem:
        if problem.code != ARRAY_NAMED:
            raise
        return array()


def _wait_array(client: Client, name: str, target: str, *, timeout_s: float | None) -> ArrayView:
    if target != ENDED:
        raise InvalidSetting(f"{name} is an array, which is waited for until ENDED", hint=f"leave out --for {target}")
    return client.arrays.wait(name, timeout=timeout_s)


def _report(server: ActionOptions, view: Listed) -> None:
    if isinstance(view, ArrayView):
        more = f": {counts_text(view)}"
    else:
        more = f"  held by {', '.join(view.gates)}" if view.gates and not is_final(view) else ""
    server.report(view, f"{view.name}  {view.status.upper()}{more}")


def _show_array(view: ArrayView, output: OutputOptions) -> None:
    show_one(view, array_fields(view, utc=output.utc), output.format(), name=view.name)


def _counted(names: Sequence[str]) -> str:
    return f"session {names[0]}" if len(names) == 1 else f"{len(names)} sessions"


def _required(names: Sequence[str], verb: str, *, or_flag: str = "") -> Sequence[str]:
    if not names:
        more = f", or {or_flag}" if or_flag else ""
        raise InvalidSetting("no session given", hint=f"use sokovan {verb} NAME{more}; sokovan ps lists sessions")
    return names
