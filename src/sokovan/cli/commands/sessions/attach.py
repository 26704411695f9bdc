"""Follows a session to its end: states, output, exit code and Ctrl-C."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sokovan.cli import formatting
from sokovan.cli.commands.sessions.interrupts import SignalledToStop, stop_signals
from sokovan.cli.commands.sessions.logs import follow_log, print_log
from sokovan.cli.commands.sessions.session_tables import placed
from sokovan.cli.exit_codes import FAILED, INTERRUPTED, NOT_FOUND_MARK
from sokovan.cli.output import print_status
from sokovan.cli.prompts import ask, is_interactive
from sokovan.sdk.core.states import has_run, has_settled, is_final, state_of, where
from sokovan.sdk.core.streams.followers import LogOptions, LogPiece
from sokovan.sdk.errors import ClientProblem, StillWaiting
from sokovan.wire.api.sessions import PENDING_TIMEOUT, SessionBody, SessionView

if TYPE_CHECKING:
    from sokovan.sdk.sync.client import Client
    from sokovan.wire.api.explanations import WhyView

# Pending reasons that waiting does not resolve: an attached session is cancelled at once.
UNSATISFIABLE = frozenset({"NEVER_FITS", "NO_LABEL_MATCH", "NO_RUNTIME_MATCH", "TOPOLOGY_IMPOSSIBLE"})
# The label of agents that can mount a folder at another path.
MOUNTS = "sokovan.mounts="
# Quota reasons: either used up for now, or lower than the request.
LIMITS = frozenset({"QUOTA_KEYPAIR", "QUOTA_USER", "QUOTA_GROUP", "QUOTA_DOMAIN"})

# Reasons for which the exit codes 137 and 143 need an explanation.
EXPLAINED_EXITS = frozenset({"out-of-memory", "time-limit"})


class CannotBePlaced(ClientProblem):
    """No agent can ever hold the session; it was cancelled."""

    code = "never-fits"
    hint = "request less, or submit it with -d to wait for new agents"


class WaitedTooLong(ClientProblem):
    """The session was pending longer than its scaling group allows."""

    code = PENDING_TIMEOUT
    hint = "request less, or submit it again; sokovan scaling-group show prints the pending timeout"


class DidNotRun(ClientProblem):
    """The session ended before its command ran."""

    code = "did-not-run"


class NoProgram(DidNotRun):
    """The program of the command does not exist in the session's environment."""

    hint = "check its name and the PATH of the session, or use an image that has it"


class AttachedSession:
    """A session that is followed until it ends."""

    def __init__(self, client: Client, *, timeout_s: float | None = None) -> None:
        self._client = client
        self._timeout_s = timeout_s
        self._last_line = ""
        self._explained: str | None = None
        self._seen: dict[int, int] = {}
        self._stopping = False
        self._memory_note = ""
        self._seen_running = False
        self._failed_starts = 0
        self._attempt = 1

    def run(self, body: SessionBody) -> int:
        """Submit the session and follow it; return its exit code."""
        if not {"mem", "memory"} & body.resources.keys():
            self._memory_note = " (mem by default; --mem changes it)"
        view = self._client.sessions.submit(body)
        with stop_signals():
            return self._run_to_end(view)

    def _run_to_end(self, view: SessionView) -> int:
        while True:
            try:
                return self._ended(self._follow(view))
            except KeyboardInterrupt as interrupt:
                status = self._interrupted(view, is_prompted=not isinstance(interrupt, SignalledToStop))
                if status is not None:
                    return status
            except StillWaiting:
                self._cancel(view)
                raise StillWaiting(
                    f"{view.name} had not started after {self._timeout_s:g} s and was cancelled",
                    hint="increase --timeout, or submit it with -d",
                ) from None

    def _follow(self, view: SessionView) -> SessionView:
        """The session at its end."""
        while not is_final(view):
            view = self._wait_for_start(view)
            if has_run(view):
                print_log(self._output(view), prefixed=view.size > 1)
                view = self._wait_for_end(view)
        return view

    def _wait_for_start(self, view: SessionView) -> SessionView:
        """The session once it runs or has ended; prints a line for every change."""
        now = view
        for now in self._client.sessions.watch(view.id, timeout=self._timeout_s):
            self._print_state(now)
            if has_run(now) or is_final(now):
                break
            if state_of(now) == "PENDING" and not self._stopping:
                self._cancel_unsatisfiable(now)
        return now

    def _cancel_unsatisfiable(self, view: SessionView) -> None:
        """Cancel a session that can never start. Raises CannotBePlaced."""
        reason, hint = view.reason_detail or view.reason, ""
        if view.reason in LIMITS:
            why = self._why(view)
            if why is None or why.verdict != "CHANGE":
                return
            reason, hint = why.summary, "request less, or ask an administrator to raise the quota"
        elif view.reason not in UNSATISFIABLE:
            return
        elif view.booking and f"booking {view.booking}" in (reason or ""):
            hint = "request less, or name a booking with more agents"
        elif MOUNTS in (reason or ""):
            hint = "no agent has a sandbox: mount it at its own path (SOURCE:SOURCE), or install bubblewrap"
        self._cancel(view)
        raise CannotBePlaced(f"{view.name} cannot be placed: {reason}", hint=hint)

    def _why(self, view: SessionView) -> WhyView | None:
        """The explanation, requested once per reason.

        It distinguishes a quota that is used up from one that is lower than the request.
        """
        if self._explained == view.reason_detail:
            return None
        self._explained = view.reason_detail
        with contextlib.suppress(ClientProblem):
            return self._client.sessions.why(view.id)
        return None

    def _output(self, view: SessionView) -> Iterator[LogPiece]:
        """The session's output; after Ctrl-C it continues at the offset already printed."""
        options = LogOptions(follow=True, seen=dict(self._seen)).of(view)
        for piece in follow_log(self._client.sessions, view.id, options):
            self._seen[piece.kernel] = piece.offset + len(piece.content)
            yield piece

    def _wait_for_end(self, view: SessionView) -> SessionView:
        """The session once it has ended or is pending again."""
        now = view
        for now in self._client.sessions.watch(view.id):
            if has_settled(now):
                break
        return now

    def _print_state(self, view: SessionView) -> None:
        self._print_attempts(view)
        state = state_of(view)
        if state == "PENDING":
            line = f"{view.name}  PENDING  {view.reason_detail or view.reason or ''}".rstrip()
        elif state == "RUNNING" or self._ran_unseen(view):
            self._seen_running = True
            line = f"{view.name}  RUNNING  {placed(view)}, {_given(view)}{self._memory_note}"
        elif state == "PULLING":
            line = f"{view.name}  PULLING  {view.reason_detail or ''}".rstrip()
        else:
            line = f"{view.name}  {state}"
        if line != self._last_line:
            print_status(line)
        self._last_line = line

    def _ran_unseen(self, view: SessionView) -> bool:
        """Whether a short session ran between two observations, and its place was never printed."""
        return view.exit_code is not None and bool(where(view)) and not self._seen_running

    def _print_attempts(self, view: SessionView) -> None:
        """Print the failed starts since the last call, and where the next attempt is made."""
        attempts = view.retry.attempts
        for one in view.failed_starts[self._failed_starts :] if attempts > 1 else ():
            print_status(f"{view.name}  attempt {one.attempt} of {attempts} failed on {one.agent}: {one.detail}")
        self._failed_starts = len(view.failed_starts)
        if view.attempt > self._attempt and where(view) and not is_final(view):
            print_status(f"{view.name}  attempt {view.attempt} of {attempts} on {placed(view)}")
            self._attempt = view.attempt

    def _ended(self, view: SessionView) -> int:
        code = view.exit_code
        elapsed = formatting.between(view.scheduled_at, view.ended_at)
        if self._stopping:
            print_status(f"{view.name}  stopped")
            return INTERRUPTED
        if code is None:
            raise _never_ran(view)
        cause = f": {_cause(view)}" if view.reason in EXPLAINED_EXITS else ""
        print_status(f"{view.name}  finished, exit {code}{elapsed}{cause}")
        return code if 0 <= code < 256 else FAILED

    def _interrupted(self, view: SessionView, *, is_prompted: bool) -> int | None:
        """Handle Ctrl-C: prompt on a terminal, else stop the session. None: continue."""
        if self._stopping:
            print_status(f"{view.name} is stopping; see sokovan session show {view.name}")
            return INTERRUPTED
        answer = "s"
        if is_prompted and is_interactive():
            try:
                answer = ask(f"\n{view.name}: [d]etach, [s]top, [c]ontinue? ")[:1]
            except KeyboardInterrupt:  # a second Ctrl-C detaches, so that no session is lost by accident
                print_status("")
                answer = "d"
        if answer == "c":
            return None
        if answer == "d":
            print_status(f"{view.name} keeps running; see sokovan logs -f {view.name}")
            return INTERRUPTED
        self._stopping = True
        self._client.sessions.stop(view.id)  # first: a closed terminal cannot be printed to
        print_status(f"stopping {view.name}; press Ctrl-C again to detach")
        return None

    def _cancel(self, view: SessionView) -> None:
        with contextlib.suppress(ClientProblem):
            self._client.sessions.stop(view.id)


def _given(view: SessionView) -> str:
    """The slots of the session: those of each kernel if all have the same."""
    each = {formatting.amounts(kernel.slots) for kernel in view.kernels}
    if len(each) != 1:
        return f"{formatting.amounts(view.slots)} in total"
    return f"{each.pop()}{' per kernel' if view.size > 1 else ''}"


def _cause(view: SessionView) -> str:
    """The reason for an exit code that does not explain itself."""
    if view.reason == "time-limit":
        return f"time limit exceeded; {view.reason_detail or 'it was stopped'}"
    return view.reason_detail or view.reason or ""


def _never_ran(view: SessionView) -> ClientProblem:
    reason = view.reason_detail or view.reason or state_of(view)
    if view.reason == PENDING_TIMEOUT:
        return WaitedTooLong(f"{view.name} was cancelled: {reason}")
    if NOT_FOUND_MARK in reason:
        return NoProgram(f"{view.name} did not start: {reason}")
    hint = f"see sokovan session history {view.name}"
    return DidNotRun(f"{view.name} is {state_of(view)} and has no exit code: {reason}", hint=hint)
