"""The copies of output that are under way, one for each running container."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from sokovan.adapters.docker.engine.client import NOT_FOUND, EngineClient, EngineRefusal, EngineUnavailable
from sokovan.adapters.docker.kernel_records import Record
from sokovan.adapters.docker.log_copy import LogCopy
from sokovan.adapters.process.layout import KernelLayout

# How long an observation waits for the last output of a container that has ended.
DRAIN_S = 2.0
LOG_BYTES_MAX = 64 << 20


@dataclass(slots=True)
class LogCopies:
    """Copies output in the background.

    A copy that fails is begun again at the next observation.
    """

    engine: EngineClient
    layout: KernelLayout
    _tasks: dict[str, asyncio.Task[bool]] = field(default_factory=dict)

    def follow(self, name: str, launch: Record, state: Record) -> None:
        """Copy the output of a container, unless that is under way or complete."""
        task = self._tasks.get(name)
        if task is None or (task.done() and not (not task.cancelled() and task.result())):
            bytes_max = int(launch.get("log_bytes_max") or LOG_BYTES_MAX)
            copy = LogCopy(self.engine, str(state["container"]), self.layout.kernels / name, bytes_max)
            self._tasks[name] = asyncio.ensure_future(_copied(copy))

    async def drained(self, name: str) -> bool:
        """Wait a while for the last output; whether all of it was copied."""
        task = self._tasks.get(name)
        if task is None:
            return False
        await asyncio.wait({task}, timeout=DRAIN_S)
        return task.done() and not task.cancelled() and task.result()

    def forget(self, name: str) -> None:
        """End the copy of a kernel's output."""
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()

    def close(self) -> None:
        """End all copies; the next agent goes on with them."""
        for name in list(self._tasks):
            self.forget(name)


async def _copied(copy: LogCopy) -> bool:
    """Whether everything was copied, or the container is gone."""
    try:
        await copy.run()
    except EngineRefusal as problem:
        return problem.status == NOT_FOUND
    except (EngineUnavailable, OSError, ValueError):
        return False
    return True
