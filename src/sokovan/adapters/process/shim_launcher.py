"""Starting a shim: a program of little weight that belongs to nobody."""

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
from sokovan.ports.runtime import RuntimeFailure

START_LIMIT_S = 60.0
END_LIMIT_S = 5.0
_BOOT = "from sokovan.adapters.process.shim.main import main; main()"
_IMPORT_ROOT = str(Path(sokovan.__file__).parent.parent)


def light_command(program: str) -> list[str]:
    """How to run a piece of Python with nothing loaded but what it imports."""
    reach = "import sys; sys.path.append(sys.argv[1]); "
    return [sys.executable, "-I", "-S", "-X", "utf8", "-c", reach + program, _IMPORT_ROOT]


def run_shim(plan: dict[str, Any], lock: int) -> None:
    """Start a shim and wait until its kernel runs; raises RuntimeFailure.

    The shim holds `lock` as we do, until it has written down that the kernel runs.
    """
    with subprocess.Popen(  # noqa: S603  # our own interpreter and a constant
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
            told, trouble = process.communicate(json.dumps(plan).encode(), timeout=START_LIMIT_S)
        except BaseException:
            # The first process is ours until it is waited for, so its group can be nobody else's.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            # A killed process holds `lock` until the kernel has closed its files: the end of its output shows that.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=END_LIMIT_S)
            raise
    require_started(told, trouble)


def require_started(told: bytes, trouble: bytes) -> None:
    """Raise RuntimeFailure unless the shim has said that its kernel runs."""
    answer = json.loads(told or b"{}")
    if "done" not in answer:
        detail = answer.get("error") or trouble.decode(errors="replace").strip()[-2000:] or "its shim ended"
        raise RuntimeFailure(f"the kernel could not be started: {detail}")
