"""Starts `sokovan up` in the background and waits until it is ready."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sokovan.domain.errors import SokovanError
from sokovan.entrypoints.embedded.data_folder import PRIVATE_FILE, DataFolder, server_of
from sokovan.sdk.environment import ClientEnvironment

OUTPUT, LOG = "up.out", "sokovan.log"
TAIL_LINES, TAIL_BYTES = 20, 16_384
READY_LIMIT_S = 90.0
STEP_S = 0.05


class ServerNotStarted(SokovanError):
    """The server in the background ended, or was not ready in time."""

    code = "not-started"
    hint = "its output above says why; sokovan doctor checks this machine"

    def __init__(self, message: str, tail: str) -> None:
        self.tail = tail
        super().__init__(message)


def program(words: Sequence[str]) -> list[str]:
    """The command line that runs `sokovan up` with this interpreter."""
    # -P: modules in the working directory are not imported.
    return [sys.executable, "-P", "-m", "sokovan", "up", *words]


def start_detached(words: Sequence[str], root: Path, *, wait: ClientEnvironment) -> Mapping[str, Any]:
    """Start a server and wait until it is ready. Raises ServerNotStarted.

    Returns its address file. It runs in a session of its own, so that it outlives the
    terminal; its output goes to a file of the data folder.
    """
    output = DataFolder(root).root / "logs" / OUTPUT
    output.touch(PRIVATE_FILE)
    before = output.stat().st_size
    with output.open("ab") as stream:
        process = subprocess.Popen(  # noqa: S603  # an argv list, built here
            program(words),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            cwd=root,
            start_new_session=True,
        )
    for _ in range(round(READY_LIMIT_S / STEP_S)):
        wait.sleep(STEP_S)
        found = server_of(root)
        if found is not None:
            return found
        if process.poll():  # with exit code 0 it found another server, which is about to be ready
            raise ServerNotStarted(f"the server did not start (exit code {process.returncode})", _tail(output, before))
    process.terminate()
    raise ServerNotStarted(f"the server was not ready after {READY_LIMIT_S:g} s and was stopped", _tail(output, before))


def _tail(path: Path, offset: int) -> str:
    """The last lines that were written after an offset."""
    with path.open("rb") as stream:
        stream.seek(max(offset, path.stat().st_size - TAIL_BYTES))
        text = stream.read(TAIL_BYTES).decode(errors="replace")
    return "\n".join(text.splitlines()[-TAIL_LINES:])
