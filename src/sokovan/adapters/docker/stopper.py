"""Stops containers: SIGTERM, then SIGKILL after the grace period.

The intent is recorded first, so that an agent that restarts meanwhile goes on with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from dataclasses import dataclass, field

from sokovan.adapters.docker.engine.client import EngineClient, EngineRefusal, EngineUnavailable, path_of
from sokovan.adapters.docker.kernel_records import KernelRecords, Record
from sokovan.adapters.process.layout import opened
from sokovan.adapters.process.shim.notices import is_done, write_notice
from sokovan.ports.environment import Clock

PAUSE_S = 0.1
RETRY_S = 1.0


@dataclass(slots=True)
class ContainerStopper:
    """Stops the containers of one root, and follows those that are stopping."""

    engine: EngineClient
    records: KernelRecords
    clock: Clock
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def stop(self, name: str, grace_s: float, *, notice: str = "", reason: str = "") -> None:
        """Stop a kernel by the name of its folder.

        One that is unknown or has ended is left alone. `reason` is why the agent does it by
        itself, and that of the kernel's end.
        """
        state = self.records.state(name)
        if state is None or "ended_ms" in state:
            return
        if notice:
            with contextlib.suppress(OSError), opened(self.records.layout.kernels / name) as folder:
                write_notice(folder, notice)
        now_ms = self.clock.now_ms()
        deadline_ms = min(now_ms + int(grace_s * 1000), int(state.get("deadline_ms") or 2**62))
        intent = {
            "stopping_ms": state.get("stopping_ms") or now_ms,
            "deadline_ms": deadline_ms,
            "notice": bool(notice) or bool(state.get("notice")),
            "stop_reason": reason or str(state.get("stop_reason") or ""),
        }
        self.records.write_state(name, {**state, **intent})
        if grace_s > 0 and "stopping_ms" not in state:
            await self._send(str(state["container"]), signal.SIGTERM)
        elif grace_s <= 0:
            await self._send(str(state["container"]), signal.SIGKILL)
        self.follow(name, {**state, **intent})

    def follow(self, name: str, state: Record) -> None:
        """Kill a stopping kernel when its time is over, unless that is under way."""
        task = self._tasks.get(name)
        if "deadline_ms" in state and (task is None or task.done()):
            self._tasks[name] = asyncio.ensure_future(self._kill_in_time(name))

    def forget(self, name: str) -> None:
        """Drop what is kept about a kernel that has ended."""
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()

    def close(self) -> None:
        """Stop following; the next agent goes on."""
        for name in list(self._tasks):
            self.forget(name)

    async def _kill_in_time(self, name: str) -> None:
        while True:
            state = self.records.state(name)
            if state is None or "ended_ms" in state:
                return
            left_s = (int(state["deadline_ms"]) - self.clock.now_ms()) / 1000
            if left_s <= 0 or (state.get("notice") and self._is_done(name)):
                await self._send(str(state["container"]), signal.SIGKILL)
                await self.clock.sleep(RETRY_S)
            else:
                await self.clock.sleep(min(PAUSE_S, max(0.0, left_s)))

    def _is_done(self, name: str) -> bool:
        with contextlib.suppress(OSError), opened(self.records.layout.kernels / name) as folder:
            return is_done(folder)
        return False

    async def _send(self, container: str, number: signal.Signals) -> None:
        """Send a signal; what fails is tried again, or the container has ended."""
        with contextlib.suppress(EngineRefusal, EngineUnavailable):
            await self.engine.call("POST", path_of("containers", container, "kill"), query={"signal": str(int(number))})
