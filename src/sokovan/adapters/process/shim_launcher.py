"""Starts a shim in a minimal interpreter, detached from the agent."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import sokovan
from sokovan.adapters.process.shim.children import PATH_FAILED
from sokovan.adapters.process.shim.main import PROGRAM_FAILED, SANDBOX_FAILED
from sokovan.ports.runtime import PathUnavailable, ProgramNotFound, RuntimeFailure, SandboxFailed

START_LIMIT_S = 60.0
END_LIMIT_S = 5.0
_BOOT = "from sokovan.adapters.process.shim.main import main; main()"
_FAILURES = {SANDBOX_FAILED: SandboxFailed, PROGRAM_FAILED: ProgramNotFound, PATH_FAILED: PathUnavailable}
_IMPORT_ROOT = str(Path(sokovan.__file__).parent.parent)


def light_command(program: str) -> list[str]:
    """A command line that runs Python code with as few imports as possible."""
    set_path = "import sys; sys.path.append(sys.argv[1]); "
    return [sys.executable, "-I", "-S", "-X", "utf8", "-c", set_path + program, _IMPORT_ROOT]


def run_shim(plan: dict[str, Any], lock: int) -> dict[str, Any]:
    """Start a shim, wait until its kernel runs and return its record.

    Raises RuntimeFailure.

    The shim shares `lock` until it has recorded that the kernel runs.
    """
    with subprocess.Popen(  # noqa: S603  # this interpreter and a constant
        light_command(_BOOT),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        env={},
        pass_fds=(lock,),
        start_new_session=True,
    ) as process:
        try:
            answer_text, errors = process.communicate(json.dumps(plan).encode(), timeout=START_LIMIT_S)
        except BaseException:
            # The process was not waited for, so that its group id cannot be reused yet.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            # A killed process holds `lock` until the system has closed its files: the end of its output shows that.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=END_LIMIT_S)
            raise
    return started_record(answer_text, errors)


def started_record(answer_text: bytes, errors: bytes) -> dict[str, Any]:
    """The record of a shim whose kernel runs; raises RuntimeFailure if it does not."""
    answer = json.loads(answer_text or b"{}")
    if "done" not in answer:
        detail = answer.get("error") or errors.decode(errors="replace").strip()[-2000:] or "its shim ended"
        failure = _FAILURES.get(answer.get("code", ""), RuntimeFailure)
        raise failure(f"the kernel could not be started: {detail}")
    return dict(answer.get("record") or {})
