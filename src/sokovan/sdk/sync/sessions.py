# Generated from sdk/aio/sessions.py by `make docs`; do not edit.
"""Sessions and their kernels, for the sync client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Unpack

from sokovan.sdk.core import session_calls
from sokovan.sdk.core.paging import Paging
from sokovan.sdk.core.retries import READS, STREAMS, OnRetry
from sokovan.sdk.core.session_calls import TOGETHER, SessionListOptions, SessionOrderOptions
from sokovan.sdk.core.states import ENDED, checked_state, reached, still_waiting
from sokovan.sdk.core.streams.followers import LogFollower, LogOptions, LogPiece, SessionFollower
from sokovan.sdk.errors import StillWaiting
from sokovan.sdk.sync.connection import Connection
from sokovan.wire.api.batches import BatchItemView, StopItemView
from sokovan.wire.api.sessions import (
    HistoryView,
    KernelView,
    LogChunk,
    SessionBody,
    SessionCountsView,
    SessionRowView,
    SessionSpecView,
    SessionView,
)

if TYPE_CHECKING:
    from sokovan.sdk.core.exec_frames import Terminal
    from sokovan.sdk.sync.execution import Execution
    from sokovan.wire.api.explanations import PlanView, SessionMetricsView, WaitingView, WhyView


class Sessions:
    """Operations on sessions; a `ref` is an id, a name, or a unique prefix of one."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def submit(self, body: SessionBody, *, key: str | None = None) -> SessionView:
        """Submit a session; a repeated idempotency key returns the same session."""
        return self._connection.send(session_calls.submit(body, key=key or self._connection.environment.new_key()))

    def submit_many(self, bodies: Iterable[SessionBody], *, key: str | None = None) -> list[BatchItemView]:
        """Submit many sessions, thousands in a request; their outcomes, in order.

        Each is accepted or refused for itself: a refused one has a `problem`. A repeated
        idempotency key with the same sessions returns those that exist.
        """
        key = key or self._connection.environment.new_key()
        waiting, items = iter(bodies), list[BatchItemView]()
        while chunk := list(islice(waiting, TOGETHER)):
            call = session_calls.submit_many(chunk, key=session_calls.part_key(key, len(items)))
            items += (self._connection.send(call)).items
        return items

    def stop_many(self, refs: Iterable[str], *, forced: bool = False) -> list[StopItemView]:
        """Mark many sessions for termination, thousands in a request; in order.

        Each is judged for itself: one that is refused, as is the name of an array, has a
        `problem`. May be repeated.
        """
        waiting, items = iter(refs), list[StopItemView]()
        while chunk := list(islice(waiting, TOGETHER)):
            items += (self._connection.send(session_calls.stop_many(chunk, forced=forced))).items
        return items

    def plan(self, body: SessionBody) -> PlanView:
        """Dry run: the decision the scheduler would make for a session."""
        return self._connection.send(session_calls.plan(body))

    def get(self, ref: str) -> SessionView:
        """One session."""
        return self._connection.send(session_calls.get(ref))

    def list(self, *, limit: int | None = None, **filters: Unpack[SessionOrderOptions]) -> Iterator[SessionView]:
        """List sessions, by default newest first; pages are fetched as they are consumed.

        Filters, such as `label="team=vision"` or `status=["running", "pending"]`, are those
        of SessionOrderOptions.
        """
        listing = partial(session_calls.listing, filters)
        return self._connection.pages(Paging(listing, limit=limit))

    def rows(self, *, limit: int | None = None, **filters: Unpack[SessionOrderOptions]) -> Iterator[SessionRowView]:
        """List sessions like `list`, with what fits in one line of each."""
        return self._connection.pages(Paging(partial(session_calls.rows, filters), limit=limit))

    def counts(self, by: str = "status", **filters: Unpack[SessionListOptions]) -> SessionCountsView:
        """Count sessions by `status`, `queue`, `user`, `group` or `scaling_group`.

        The most frequent values come first.
        """
        return self._connection.send(session_calls.counts(filters, by=by))

    def watch(self, ref: str, *, timeout: float | None = None) -> Iterator[SessionView]:
        """Yield the session now and after each change, until it is in a final state.

        `timeout` is in seconds.
        """
        return self._connection.follow(SessionFollower(ref), timeout_s=timeout)

    def wait(self, ref: str, until: str = ENDED, *, timeout: float | None = None) -> SessionView:
        """Wait until it has reached a state, at most `timeout` seconds.

        Raises StillWaiting, NeverReached.
        """
        target, view = checked_state(until), None
        try:
            for view in self.watch(ref, timeout=timeout):
                if reached(view, target):
                    return view
        except StillWaiting:
            raise still_waiting(ref, view, timeout) from None
        raise StillWaiting(f"the stream of {ref} ended before it was {target}")

    def stop(self, ref: str, *, forced: bool = False) -> SessionView:
        """Mark a session for termination; does not wait for its end."""
        return self._connection.send(session_calls.stop(ref, forced=forced))

    def cancel(self, ref: str) -> SessionView:
        """Cancel a session that is still pending."""
        return self._connection.send(session_calls.cancel(ref))

    def release(self, ref: str, *, gate: str | None = None) -> SessionView:
        """Release a held session, so that it may be scheduled; or only one of its gates."""
        return self._connection.send(session_calls.release(ref, gate=gate))

    def why(self, ref: str, *, evict: bool = False) -> WhyView:
        """Explain the state of a session, with suggestions.

        `evict` lists the sessions that would be evicted for it, as a dry run.
        """
        return self._connection.send(session_calls.why(ref, evict=evict))

    def waiting(self) -> WaitingView:
        """Pending sessions, grouped by reason."""
        return self._connection.send(session_calls.waiting())

    def history(self, ref: str) -> HistoryView:
        """State history of a session and its kernels, all pages of it."""
        page = self._connection.send(session_calls.history(ref))
        lines, ref = page.lines, page.session
        while page.next is not None:
            page = self._connection.send(session_calls.history(ref, cursor=page.next))
            lines += page.lines
        return HistoryView(session=ref, lines=lines)

    def spec(self, ref: str) -> SessionSpecView:
        """The request that submits a session again, and what to give with it.

        Secret variables are named, without their values.
        """
        return self._connection.send(session_calls.spec(ref))

    def logs(
        self, ref: str, options: LogOptions | None = None, *, on_retry: OnRetry | None = None
    ) -> Iterator[LogPiece]:
        """Yield the output of a session's kernels in chunks."""
        options = options or LogOptions()
        if options.needs_size:
            view = self.get(ref)
            ref, options = view.id, options.of(view)
        rule = STREAMS if options.follow else READS
        with closing(self._connection.follow(LogFollower(ref, options), rule=rule, on_retry=on_retry)) as pieces:
            yield from pieces


class Kernels:
    """Operations on single kernels, which are numbered from 0."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self, ref: str) -> list[KernelView]:
        """All kernels of a session, read page by page."""
        found: list[KernelView] = []
        paging: Paging[KernelView] = Paging(partial(session_calls.kernels, ref))
        while not paging.is_over():
            found += paging.accept(self._connection.send(paging.call()))
        return found

    def log(
        self, ref: str, kernel: int = 0, *, offset: int = 0, limit: int | None = None, tail: int | None = None
    ) -> LogChunk:
        """Read a range of the output of one kernel."""
        return self._connection.send(session_calls.log(ref, kernel, offset=offset, limit=limit, tail=tail))

    def metrics(self, ref: str, kernels: Sequence[int] = ()) -> SessionMetricsView:
        """Measure CPU time, memory and processes of kernels, by default of the first 64.

        A kernel that cannot be measured has an `error`.
        """
        return self._connection.send(session_calls.metrics(ref, kernels))

    def exec(self, ref: str, command: Sequence[str], *, kernel: int = 0, terminal: Terminal | None = None) -> Execution:
        """Start a command in a running kernel."""
        from sokovan.sdk.sync.execution import execute  # noqa: PLC0415  # websockets loads only here

        return execute(self._connection.endpoint, ref, command, kernel=kernel, terminal=terminal)

    def connect(self, ref: str, port: str | int, *, kernel: int = 0) -> Execution:
        """Connect to a leased port of a running kernel, by its name or number.

        Iterate over what the port sends, and write to it.
        """
        from sokovan.sdk.sync.execution import connect_port  # noqa: PLC0415  # websockets loads only here

        return connect_port(self._connection.endpoint, ref, str(port), kernel=kernel)
