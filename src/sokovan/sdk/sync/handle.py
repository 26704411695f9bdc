# Generated from sdk/aio/handle.py by `make docs`; do not edit.
"""Handle of one session, for the sync client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sokovan.sdk.core.states import ENDED, has_settled, needs_explaining, state_of, where
from sokovan.sdk.core.streams.followers import LogOptions
from sokovan.sdk.core.streams.log_lines import LineReader, LogLine
from sokovan.sdk.sync.sessions import Kernels, Sessions
from sokovan.wire.api.sessions import SessionView

if TYPE_CHECKING:
    from sokovan.sdk.sync.execution import Execution
    from sokovan.wire.api.explanations import WhyView


class SessionHandle:
    """One session; `view` is its last known state."""

    def __init__(self, sessions: Sessions, kernels: Kernels, view: SessionView) -> None:
        self._sessions, self._kernels = sessions, kernels
        self.view = view

    def __repr__(self) -> str:
        return f"<SessionHandle {self.view.name} {self.view.id} {state_of(self.view)}>"

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
        """State; sends a request."""
        return state_of(self.refresh())

    @property
    def where(self) -> list[str]:
        """Agents it runs on; sends a request."""
        return where(self.refresh())

    @property
    def exit_code(self) -> int | None:
        """Exit code, if any; sends a request."""
        return self.refresh().exit_code

    def refresh(self) -> SessionView:
        """Request the current state."""
        self.view = self._sessions.get(self.id)
        return self.view

    def wait(self, until: str = ENDED, *, timeout: float | None = None) -> SessionView:
        """Wait until it has reached a state, at most `timeout` seconds.

        Raises StillWaiting, NeverReached.
        """
        self.view = self._sessions.wait(self.id, until, timeout=timeout)
        return self.view

    def why(self) -> WhyView | None:
        """Explain why it does not run; None if there is nothing to explain."""
        return self._sessions.why(self.id) if needs_explaining(self.refresh()) else None

    def logs(
        self, *, follow: bool = False, tail: int | None = None, kernel: int | Sequence[int] | None = None
    ) -> Iterator[LogLine]:
        """Yield its output by lines, of all kernels as they come, or of one or several.

        `follow` waits for the end of the session, or of these kernels.
        """
        reader = LineReader()
        options = LogOptions(follow=follow, tail=tail, kernel=kernel).of(self.view)
        for piece in self._sessions.logs(self.id, options):
            for line in reader.feed(piece):
                yield line
        for line in reader.close():
            yield line
        if follow and kernel is None:  # the output ends before the final state is known
            for view in self._sessions.watch(self.id):
                self.view = view
                if has_settled(view):
                    break

    def exec(self, command: Sequence[str], *, kernel: int = 0) -> Execution:
        """Start a command in one of its kernels."""
        return self._kernels.exec(self.id, command, kernel=kernel)

    def release(self, *, gate: str | None = None) -> SessionView:
        """Release it if it is held, so that it may be scheduled; or only one of its gates."""
        self.view = self._sessions.release(self.id, gate=gate)
        return self.view

    def stop(self, *, forced: bool = False) -> SessionView:
        """Mark it for termination."""
        self.view = self._sessions.stop(self.id, forced=forced)
        return self.view
