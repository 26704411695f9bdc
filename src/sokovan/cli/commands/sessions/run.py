"""`sokovan run`: run a command in a new session."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from sokovan.cli.arguments.parameters import Parameter
from sokovan.cli.commands.options import DEFAULT_ACTION, ActionOptions
from sokovan.cli.commands.sessions.attach import AttachedSession
from sokovan.cli.commands.sessions.session_options import NO_FLAGS, RequestedSession, SessionFlags
from sokovan.cli.commands.sessions.session_tables import counts_text
from sokovan.cli.commands.uploads import folder_of, with_folder
from sokovan.cli.errors import ClientFailure
from sokovan.cli.exit_codes import FAILED, OK, USAGE, WAITING, exit_code_of
from sokovan.cli.output import as_json, print_data, print_status
from sokovan.sdk.core.durations import seconds
from sokovan.sdk.errors import ClientProblem, InvalidSetting, ServerFailed
from sokovan.wire.plain_codec import plain

if TYPE_CHECKING:
    from sokovan.sdk.sync.client import Client
    from sokovan.sdk.sync.sessions import Sessions
    from sokovan.wire.api.sessions import SessionBody, SessionView

NAME_TAKEN = "name-taken"


def run(
    *command: str,
    flags: SessionFlags = NO_FLAGS,
    detach: Annotated[bool, Parameter(name=["--detach", "-d"], negative=())] = False,
    timeout: str | None = None,
    server: ActionOptions = DEFAULT_ACTION,
) -> int:
    """Run a command in a new session and wait for it.

    Prints the output of the command and exits with its exit code, or with: 2
    usage error, 5 name taken, 6 the session cannot be placed or had not started
    at --timeout (it is cancelled), 125 sokovan itself failed, 127 program not
    found. With --array, waits until all sessions have ended, and exits with 0 if
    all succeeded; Ctrl-C leaves them running. With --detach, prints the session
    name and exits with the usual codes; see sokovan help exit-codes.

    For example:
      sokovan run -- python -c "print('hello')"
      sokovan run -n ddp --size 4 --gpus 8 --topology hard:rack -- python train.py
      sokovan run -d -f train.sokovan.yaml
      sokovan run --array 0-999%50 -- python sweep.py
      sokovan run --workdir ~/project --env SEED=1 -- python train.py

    Parameters
    ----------
    command
        Command and arguments, after --. Not interpreted by a shell.
    detach
        Print the session name and exit; the session keeps running.
    timeout
        Cancel the session if it has not started in time: 90s, 10m.
    """
    timeout_s = None if timeout is None else seconds(timeout, what="--timeout")
    if server.json and not detach:
        raise InvalidSetting("--json requires -d: without it, the output is that of the command", hint="add -d")
    requests = flags.requests(command, server.settings())
    if len(requests) > 1 and not detach:
        raise InvalidSetting(f"{flags.file} contains {len(requests)} sessions", hint="submit them with -d")
    body = requests[0].body
    if not body.command and not body.groups and body.type == "batch":
        raise InvalidSetting("no command given", hint="put it after --: sokovan run -- python train.py")
    try:
        with server.client() as client:
            requests = [
                replace(
                    each,
                    body=with_folder(
                        each.body, client, upload=flags.upload, workdir=flags.workdir, beside=folder_of(flags.file)
                    ),
                )
                for each in requests
            ]
            if detach:
                for view in submit_all(client.sessions, requests):
                    print_data(as_json(plain(view)) if server.json else shown_name(view))
                return OK
            with requests[0].locating_errors():
                if body.array is not None:
                    return _run_array(client, requests[0].body)
                return AttachedSession(client, timeout_s=timeout_s).run(requests[0].body)
    except ClientProblem as problem:
        # Errors in the request keep their exit code; everything else is a failure of sokovan, not of the command.
        if detach or problem.code == NAME_TAKEN or exit_code_of(problem) in {USAGE, WAITING}:
            raise
        raise ClientFailure(problem) from problem


def shown_name(view: SessionView) -> str:
    """The name of what was submitted: of the session, or of its array."""
    return view.name if view.array is None else view.array.name


def _run_array(client: Client, body: SessionBody) -> int:
    """Submit an array and wait for all of its sessions."""
    first = client.sessions.submit(body)
    array = client.arrays.get(shown_name(first) if first.array is None else first.array.id)
    print_status(f"{array.name}: {array.size} sessions; their output: sokovan logs '{array.name}[INDEX]'")
    ended = client.arrays.wait(array.id)
    print_status(f"{ended.name}: {counts_text(ended)}")
    return OK if ended.result == "success" else FAILED


def submit_all(sessions: Sessions, requests: Sequence[RequestedSession]) -> Iterator[SessionView]:
    """Submit sessions one by one; several only if the server would accept all of them."""
    if len(requests) > 1:
        _check_all(sessions, requests)
    names: list[str] = []
    for request in requests:
        try:
            with request.locating_errors():
                view = sessions.submit(request.body)
        except ClientProblem as problem:
            if names:
                problem.hint = f"{', '.join(names)} had been submitted; this session and those after it were not"
            raise
        names.append(shown_name(view))
        yield view


def _check_all(sessions: Sessions, requests: Sequence[RequestedSession]) -> None:
    """Make a dry run of each request. Raises the server's errors."""
    earlier: set[str] = set()
    for request in requests:
        name = request.body.name or ""
        if name in earlier:
            raise InvalidSetting(f"two sessions have the name {name}", hint="use distinct names, or leave them out")
        # Dependencies on earlier sessions of the same file do not exist on the server yet.
        alone = replace(request.body, depends_on=[ref for ref in request.body.depends_on if ref not in earlier])
        # A failed dry run says nothing about the session.
        with request.locating_errors(), contextlib.suppress(ServerFailed):
            sessions.plan(alone)
        earlier |= {name} - {""}
