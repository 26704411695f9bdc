"""`sokovan up` that samples its own stacks: `python -m benchmarks.sampled_server FILE OPTION...`.

A thread looks at the stacks of all other threads every few milliseconds, and adds the
processor time that each has used since the last look to the stage that it is in.
SIGUSR1 makes the process write what was counted so far to FILE. The stage of a stack is
that of its innermost frame with one, so that a statement counts for the stage that runs it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

from benchmarks.embedded_server import wait
from sokovan.adapters.sql import sqlite_driver
from sokovan.cli.main import run as run_command

EVERY_S = 0.004
# Linux: the clock of one thread's processor time.
_THREAD_CLOCK = 6
# Longer prefixes first: the first one that matches names the stage.
STAGES = {
    "sokovan.api.access": "authenticate",
    "sokovan.api.middleware": "authenticate",
    "sokovan.orchestrator.sessions.intake": "validate",
    "sokovan.api.routes": "answer",
    "sokovan.api": "answer",
    "sokovan.adapters.sql.snapshots": "snapshot",
    "sokovan.adapters.sql.allocation": "allocate",
    "sokovan.adapters.sql.repositories.verdicts": "publish",
    "sokovan.adapters.sql.outbox": "publish",
    "sokovan.adapters.sql.repositories.sessions.enqueueing": "store",
    "sokovan.scheduling": "decide",
    "sokovan.adapters.agentlink": "send",
    "sokovan.orchestrator.agent_requests": "send",
    "sokovan.agent": "agent",
    "sokovan.adapters.process": "agent",
    "sokovan.orchestrator.sessions.agent_reports": "report",
    "sokovan.orchestrator.agent_registry": "report",
    "sokovan.orchestrator": "move",
    "sokovan.entrypoints.embedded.event_publisher": "publish",
    "sokovan.adapters.inprocess.events": "publish",
    "sokovan.entrypoints.embedded.loop_proxy": "hop",
    "h11": "parse",
    "httptools": "parse",
}
# For stacks without a stage: time of the driver, of the web server and of the event loop itself.
FALLBACKS = {
    "aiosqlite": "commit",
    "sokovan.adapters.sql": "store",
    "uvicorn": "parse",
    "starlette": "parse",
    "asyncio": "event loop",
}


class Counts:
    """What was counted since the start."""

    def __init__(self) -> None:
        self.stages: Counter[str] = Counter()
        self.statements: Counter[str] = Counter()
        self.rows_written = 0
        self.rows_read = 0
        self._used: dict[int, int] = {}

    def sample(self) -> None:
        """Add the processor time of each thread since the last sample to its stage."""
        frames = sys._current_frames()
        for thread in threading.enumerate():
            used = _processor_ns(thread.native_id or 0)
            more = used - self._used.get(thread.native_id or 0, 0)
            self._used[thread.native_id or 0] = used
            if more > 0:
                own = thread is threading.current_thread()
                self.stages["sampling" if own else stage_of(frames.get(thread.ident or 0))] += more

    def write(self, file: Path) -> None:
        """Write all counts, so that a reader sees a whole file."""
        times = os.times()
        content = {
            "cpu_s": times.user + times.system,
            "children_cpu_s": times.children_user + times.children_system,
            "stages": self.stages,
            "statements": self.statements,
            "rows_written": self.rows_written,
            "rows_read": self.rows_read,
        }
        draft = file.with_suffix(".new")
        draft.write_text(json.dumps(content), encoding="utf-8")
        draft.replace(file)


def _processor_ns(thread: int) -> int:
    """The processor time of a thread by its system id; 0 if it has ended."""
    clock_id = (~thread << 3) | _THREAD_CLOCK
    try:
        return time.clock_gettime_ns(clock_id)  # noqa: TID251  # a benchmark reads the clock
    except OSError:
        return 0


def stage_of(frame: FrameType | None) -> str:
    """The stage of the innermost frame that has one."""
    modules = []
    while frame is not None:
        modules.append(frame.f_globals.get("__name__", ""))
        frame = frame.f_back
    for stages in (STAGES, FALLBACKS):
        for module in modules:
            stage = _stage_of_module(module, stages)
            if stage:
                return stage
    return "other"


def _stage_of_module(module: str, stages: dict[str, str]) -> str:
    return next((stage for prefix, stage in stages.items() if module.startswith(prefix)), "")


def _count_statements(counts: Counts) -> None:
    @event.listens_for(Engine, "before_cursor_execute")
    def statement(_connection: Any, _cursor: Any, sql: str, *_: Any) -> None:
        counts.statements[" ".join(sql.split(maxsplit=3)[:3])] += 1

    run = sqlite_driver._run

    def counted(*arguments: Any) -> Any:
        result = run(*arguments)
        counts.rows_written += max(result.rowcount, 0)
        counts.rows_read += len(result.rows)
        return result

    sqlite_driver._run = counted  # type: ignore[assignment]


def _sample(counts: Counts) -> None:
    while True:
        counts.sample()
        wait(EVERY_S)


def start(file: Path, options: list[str]) -> int:
    """Run `sokovan up` with these options until it is stopped."""
    counts = Counts()
    _count_statements(counts)
    signal.signal(signal.SIGUSR1, lambda *_: counts.write(file))
    sys.setswitchinterval(EVERY_S / 2)
    threading.Thread(target=_sample, args=(counts,), daemon=True).start()
    return run_command(["up", *options])


if __name__ == "__main__":
    sys.exit(start(Path(sys.argv[1]), sys.argv[2:]))
