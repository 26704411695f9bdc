"""Handle of one session, for the async client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from sokovan.sdk.aio.sessions import AsyncKernels, AsyncSessions
from sokovan.sdk.core.states import ENDED, has_settled, needs_explaining, state_of, where
from sokovan.sdk.core.streams.followers import LogOptions
from sokovan.sdk.core.streams.log_lines import LineReader, LogLine
from sokovan.wire.api.sessions import SessionView

if TYPE_CHECKING:
    from sokovan.sdk.aio.execution import AsyncExecution
    from sokovan.wire.api.explanations import WhyView


class AsyncSessionHandle:
    """One session; `view` is its last known state."""

    def __init__(self, sessions: AsyncSessions, kernels: AsyncKernels, view: SessionView) -> None:
        self._sessions, self._kernels = sessions, kernels
        self.view = view

    def __repr__(self) -> str:
        return f"<AsyncSessionHandle {self.view.name} {self.view.id} {state_of(self.view)}>"

    @property
    def id(self) -> str:
        """The id, which never changes."""
        return self.view.id

    @property
    def name(self) -> str:
        """The name."""
        return self.view.name

    @property
    def labels(self) -> dict[str, str]:
        """Its labels, which never change."""
        return dict(self.view.labels)

    @property
    def status(self) -> str:
        """State, as of the last response."""  # sync: """State; sends a request."""
        return state_of(self.view)  # sync: return state_of(self.refresh())

    @property
    def where(self) -> list[str]:
        """Agents it runs on, as of the last response."""  # sync: """Agents it runs on; sends a request."""
        return where(self.view)  # sync: return where(self.refresh())

    @property
    def exit_code(self) -> int | None:
        """Exit code as of the last response, if any."""  # sync: """Exit code, if any; sends a request."""
        return self.view.exit_code  # sync: return self.refresh().exit_code

    async def refresh(self) -> SessionView:
        """Request the current state."""
        self.view = await self._sessions.get(self.id)
        return self.view

    async def wait(self, until: str = ENDED, *, timeout: float | None = None) -> SessionView:
        """Wait until it has reached a state, at most `timeout` seconds.

        Raises StillWaiting, NeverReached.
        """
        self.view = await self._sessions.wait(self.id, until, timeout=timeout)
        return self.view

    async def why(self) -> WhyView | None:
        """Explain why it does not run; None if there is nothing to explain."""
        return await self._sessions.why(self.id) if needs_explaining(await self.refresh()) else None

    async def logs(
        self, *, follow: bool = False, tail: int | None = None, kernel: int | Sequence[int] | None = None
    ) -> AsyncIterator[LogLine]:
        """Yield its output by lines, of all kernels as they come, or of one or several.

        `follow` waits for the end of the session, or of these kernels.
        """
        reader = LineReader()
        options = LogOptions(follow=follow, tail=tail, kernel=kernel).of(self.view)
        async for piece in self._sessions.logs(self.id, options):
            for line in reader.feed(piece):
                yield line
        for line in reader.close():
            yield line
        if follow and kernel is None:  # the output ends before the final state is known
            async for view in self._sessions.watch(self.id):
                self.view = view
                if has_settled(view):
                    break

    async def exec(self, command: Sequence[str], *, kernel: int = 0) -> AsyncExecution:
        """Start a command in one of its kernels."""
        return await self._kernels.exec(self.id, command, kernel=kernel)

    async def release(self, *, gate: str | None = None) -> SessionView:
        """Release it if it is held, so that it may be scheduled; or only one of its gates."""
        self.view = await self._sessions.release(self.id, gate=gate)
        return self.view

    async def stop(self, *, forced: bool = False) -> SessionView:
        """Mark it for termination."""
        self.view = await self._sessions.stop(self.id, forced=forced)
        return self.view
