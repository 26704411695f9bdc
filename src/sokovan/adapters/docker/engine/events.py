"""The events of an engine: containers that have ended."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from sokovan.adapters.docker.engine.client import EngineClient, EngineRefusal, EngineUnavailable
from sokovan.ports.environment import Clock

RETRY_S = 1.0


@dataclass(slots=True)
class EngineEvents:
    """Waits for ends of containers with one label.

    It also returns after each connection, since one may have ended before.
    """

    engine: EngineClient
    label: str
    clock: Clock
    _open: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)
    _pieces: AsyncIterator[bytes] | None = None

    async def next(self) -> None:
        """Return when a container may have ended since the last call."""
        try:
            if self._pieces is not None:
                await anext(self._pieces)
                return
            wanted = {"type": ["container"], "event": ["die"], "label": [self.label]}
            stream = self.engine.stream("GET", "/events", query={"filters": json.dumps(wanted)})
            self._pieces = await self._open.enter_async_context(stream)
        except (EngineUnavailable, EngineRefusal, StopAsyncIteration):
            self._pieces = None
            with contextlib.suppress(EngineUnavailable):
                await self._open.aclose()
            self._open = contextlib.AsyncExitStack()
            await self.clock.sleep(RETRY_S)
