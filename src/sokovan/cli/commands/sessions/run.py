"""`sokovan run`: a command in a session of its own, as if it ran here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sokovan.cli.commands.options import DEFAULT_ACTION, ActionOptions
from sokovan.cli.commands.sessions.attach import AttachedSession
from sokovan.cli.commands.sessions.session_options import NO_FLAGS, RequestedSession, SessionFlags
from sokovan.cli.errors import ClientFailure
from sokovan.cli.exit_codes import OK, USAGE, WAITING, exit_code_of
from sokovan.cli.output import as_json, print_data
from sokovan.cli.rendering import plain
from sokovan.sdk.core.durations import seconds
from sokovan.sdk.errors import ClientProblem, InvalidSetting, ServerFailed

if TYPE_CHECKING:
    from sokovan.sdk.sync.sessions import Sessions
    from sokovan.wire.api.sessions import SessionView

NAME_TAKEN = "name-taken"


def run(
    *command: str,
    wish: SessionFlags = NO_FLAGS,
    detach: Annotated[bool, Parameter(name=["--detach", "-d"], negative=())] = False,
    timeout: str | None = None,
    server: ActionOptions = DEFAULT_ACTION,
) -> int:
    """Run a command in a session and wait for it.

    Its output is our output, its exit status is ours. 125: sokovan itself failed. 127: there is no such program. 2: the
    command line or the file is wrong. 5: the name is taken. 6: it cannot be placed, or still waits at --timeout; it is
    taken back then. With --detach the name is printed and the exit status is that of every other command.

    For example:
      sokovan run -- python -c "print('hello')"
      sokovan run --name ddp --size 4 --gpus 8 --topology hard:rack -- python train.py
      sokovan run -d -f train.sokovan.yaml
      sokovan run --mount $PWD:$PWD:rw --env SEED=1 --time-limit 4h -- python $PWD/train.py

    Parameters
    ----------
    command
        The command and its words, after --. No shell reads them.
    detach
        Do not wait: print the name and leave it to run.
    timeout
        Give up if it has not started by then: 90s, 10m.
    """
    timeout_s = None if timeout is None else seconds(timeout, what="--timeout")
    if server.json and not detach:
        raise InvalidSetting("--json goes with -d: the output is that of the command", hint="leave it out, or say -d")
    asked = wish.asked(command, server.settings())
    if len(asked) > 1 and not detach:
        raise InvalidSetting(f"{wish.file} holds {len(asked)} sessions", hint="start them with -d")
    body = asked[0].body
    if not body.command and not body.groups and body.type == "batch":
        raise InvalidSetting("there is no command to run", hint="write it after --: sokovan run -- python train.py")
    try:
        with server.client() as client:
            if detach:
                for view in submitted(client.sessions, asked):
                    print_data(as_json(plain(view)) if server.json else view.name)
                return OK
            with asked[0].shown():
                return AttachedSession(client, timeout_s=timeout_s).run(body)
    except ClientProblem as problem:
        # What the server cannot take as it is was written here, by whoever called us.
        if detach or problem.code == NAME_TAKEN or exit_code_of(problem) in {USAGE, WAITING}:
            raise
        raise ClientFailure(problem) from problem


def submitted(sessions: Sessions, asked: Sequence[RequestedSession]) -> Iterator[SessionView]:
    """Sessions as they are taken; none is unless the server would take all."""
    if len(asked) > 1:
        _check_all(sessions, asked)
    names: list[str] = []
    for one in asked:
        try:
            with one.shown():
                view = sessions.submit(one.body)
        except ClientProblem as problem:
            if names:
                problem.hint = f"{', '.join(names)} had been submitted before; this one and what follows were not"
            raise
        names.append(view.name)
        yield view


def _check_all(sessions: Sessions, asked: Sequence[RequestedSession]) -> None:
    """Ask for a dry run of each. Raises what the server would say."""
    earlier: set[str] = set()
    for one in asked:
        name = one.body.name or ""
        if name in earlier:
            raise InvalidSetting(f"two sessions are called {name}", hint="give each a name of its own, or none")
        # One may wait for another of the same file, which is not there yet.
        alone = replace(one.body, depends_on=[ref for ref in one.body.depends_on if ref not in earlier])
        # A dry run that cannot be had says nothing against the session.
        with one.shown(), contextlib.suppress(ServerFailed):
            sessions.plan(alone)
        earlier |= {name} - {""}
