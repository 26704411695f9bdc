"""`sokovan run`: a command in a session of its own, as if it ran here."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from sokovan.cli.commands.attached import Attached
from sokovan.cli.commands.options import ON_SERVER, Server
from sokovan.cli.commands.wishes import NOTHING_SAID, Wish
from sokovan.cli.exit_codes import OK, USAGE, WAITING, exit_code_of
from sokovan.cli.output import say
from sokovan.cli.problems import OurFailure
from sokovan.sdk.core.durations import seconds
from sokovan.sdk.errors import ClientProblem, InvalidSetting


def run(
    *command: str,
    wish: Wish = NOTHING_SAID,
    detach: Annotated[bool, Parameter(name=["--detach", "-d"], negative=())] = False,
    timeout: str | None = None,
    server: Server = ON_SERVER,
) -> int:
    """Run a command in a session and wait for it.

    Its output is our output, its exit status is ours. 125: sokovan itself failed. 2: the command line or the file is
    wrong. 6: it cannot be placed, or still waits at --timeout; it is taken back then. With --detach the name is printed
    and the exit status is that of every other command.

    For example:
      sokovan run -- python -c "print('hello')"
      sokovan run --name ddp --size 4 --gpus 8 --topology hard:rack -- python train.py
      sokovan run -d -f train.sokovan.yaml
      sokovan run --mount $PWD:/work:rw --env SEED=1 --time-limit 4h -- python /work/train.py

    Parameters
    ----------
    command
        The command and its words, after --. No shell reads them.
    detach
        Do not wait: print the name and leave it to run.
    timeout
        Give up if it has not started by then: 90s, 10m.
    """
    patience_s = None if timeout is None else seconds(timeout, what="--timeout")
    bodies = wish.bodies(command, server.settings())
    if len(bodies) > 1 and not detach:
        raise InvalidSetting(f"{wish.file} holds {len(bodies)} sessions", hint="start them with -d")
    if not bodies[0].command and not bodies[0].groups and bodies[0].type == "batch":
        raise InvalidSetting("there is no command to run", hint="write it after --: sokovan run -- python train.py")
    try:
        with server.client() as client:
            if detach:
                for body in bodies:
                    say(client.sessions.submit(body).name)
                return OK
            return Attached(client, patience_s=patience_s).run(bodies[0])
    except ClientProblem as problem:
        # What the server cannot take as it is was written here, by whoever called us.
        if detach or exit_code_of(problem) in {USAGE, WAITING}:
            raise
        raise OurFailure(problem) from problem
