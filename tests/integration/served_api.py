"""The API on a real port, in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import Any, Self

import uvicorn

from sokovan.api.app import close_streams
from sokovan.entrypoints.web.listener import bound_listener
from tests.unit.api.api_harness import ApiHarness, api_harness

START_S = 180.0


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers, which belong to the main thread."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class ServedApi:
    """An API that answers at `url`; `submit` runs something on its event loop."""

    def __init__(self, **settings: Any) -> None:
        self._settings = settings
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: _Server | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self.api: ApiHarness | None = None
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(START_S), "the API did not start"
        return self

    def __exit__(self, *details: object) -> None:
        assert self._server is not None
        self._server.should_exit = True
        self._thread.join(START_S)
        assert not self._thread.is_alive()

    def run(self, work: Any) -> Any:
        """Do something with the little API, over there."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work(self.api), self._loop).result(START_S)

    async def _serve(self) -> None:
        async with api_harness(**self._settings) as api:
            listener = bound_listener("127.0.0.1", 0)
            self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            self.api, self._loop = api, asyncio.get_running_loop()
            # The little API runs its own streams; a second lifespan would do so twice.
            config = uvicorn.Config(api.app, log_config=None, access_log=False, lifespan="off")
            self._server = _Server(config)
            serving = asyncio.create_task(self._server.serve(sockets=[listener]))
            self._ready.set()
            await serving
            close_streams(api.app)
