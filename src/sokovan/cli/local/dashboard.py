"""Opens the dashboard of a server on this machine once it is ready."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence

from sokovan.cli.exit_codes import OK

DASHBOARD = (sys.executable, "-P", "-m", "sokovan", "dashboard")


class Opening:
    """Prints lines; the first ones come when the server is ready, and start a program.

    It opens the dashboard in another process, because this one serves its requests.
    """

    def __init__(self, echo: Callable[[str], None], *, program: Sequence[str]) -> None:
        self._echo, self._program = echo, program
        self._started: subprocess.Popen[bytes] | None = None

    def __call__(self, line: str) -> None:
        """Print lines."""
        self._echo(line)
        if self._started is None:
            self._started = subprocess.Popen(self._program)  # noqa: S603  # an argv list, built here

    def wait(self) -> int:
        """The exit code of the program; 0 if it was never started."""
        return OK if self._started is None else self._started.wait()


def opened(*, wanted: bool) -> int:
    """Open the dashboard of a server that is ready, if that is wanted."""
    if not wanted:
        return OK
    from sokovan.cli.commands.serving.dashboard import dashboard  # noqa: PLC0415  # used only here

    return dashboard()
