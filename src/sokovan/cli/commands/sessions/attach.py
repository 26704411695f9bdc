"""A session that somebody waits for: its states, its output, its end, and Ctrl-C."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sokovan.cli import formatting
from sokovan.cli.commands.sessions.logs import followed, print_log
from sokovan.cli.commands.sessions.session_tables import placed
from sokovan.cli.exit_codes import FAILED, INTERRUPTED
from sokovan.cli.output import print_status
from sokovan.cli.prompts import ask, is_interactive
from sokovan.sdk.core.followers import LogOptions, LogPiece
from sokovan.sdk.core.states import has_run, has_settled, is_final, state_of
from sokovan.sdk.errors import ClientProblem, StillWaiting
from sokovan.wire.api.sessions import SessionBody, SessionView

if TYPE_CHECKING:
    from sokovan.sdk.sync.client import Client
    from sokovan.wire.api.explanations import WhyView

# Reasons that no waiting helps against: whoever sits and waits is told at once.
UNSATISFIABLE = frozenset({"NEVER_FITS", "NO_LABEL_MATCH", "TOPOLOGY_IMPOSSIBLE"})
# The label that a machine needs for a folder that is to appear elsewhere than it is.
MOUNTS = "sokovan.mounts="
# Limits that are full for a while, or below what is asked for.
LIMITS = frozenset({"QUOTA_KEYPAIR", "QUOTA_USER", "QUOTA_GROUP", "QUOTA_DOMAIN"})

# Exit codes of 137 and 143 alone do not tell this.
ENDED_FOR = frozenset({"out-of-memory", "time-limit"})
PENDING_TIMEOUT = "pending-timeout"


class CannotBePlaced(ClientProblem):
    """No machine there is could ever hold the session; it was taken back."""

    code = "never-fits"
    hint = "ask for less, or let it wait for new machines with -d"


class WaitedTooLong(ClientProblem):
    """A session waited for longer than its pool lets sessions wait."""

    code = PENDING_TIMEOUT
    hint = "ask for less, or submit it again; sokovan scaling-group show tells how long a pool lets sessions wait"


class DidNotRun(ClientProblem):
    """A session ended before its command could run."""

    code = "did-not-run"


class AttachedSession:
    """One session, followed from its submission to its end."""

    def __init__(self, client: Client, *, timeout_s: float | None = None) -> None:
        self._client = client
        self._patience_s = timeout_s
        self._report = ""
        self._asked: str | None = None
        self._seen: dict[int, int] = {}
        self._stopping = False

    def run(self, body: SessionBody) -> int:
        """Submit it and stay with it; its exit code is ours."""
        view = self._client.sessions.submit(body)
        while True:
            try:
                return self._ended(self._followed(view))
            except KeyboardInterrupt:
                status = self._interrupted(view)
                if status is not None:
                    return status
            except StillWaiting:
                self._take_back(view)
                raise StillWaiting(
                    f"{view.name} had not started after {self._patience_s:g} s, and was taken back",
                    hint="wait longer with --timeout, or let it wait with -d",
                ) from None

    def _followed(self, view: SessionView) -> SessionView:
        """The session at its end."""
        while not is_final(view):
            view = self._started(view)
            if has_run(view):
                print_log(self._output(view), prefixed=view.size > 1)
                view = self._until_end(view)
        return view

    def _started(self, view: SessionView) -> SessionView:
        """The session once it runs, or at its end; every change is a line."""
        now = view
        for now in self._client.sessions.watch(view.id, timeout_s=self._patience_s):
            self._tell(now)
            if has_run(now) or is_final(now):
                break
            if state_of(now) == "PENDING" and not self._stopping:
                self._give_up_hopeless(now)
        return now

    def _give_up_hopeless(self, view: SessionView) -> None:
        """Take back what no waiting helps, and say why."""
        told, hint = view.reason_detail or view.reason, ""
        if view.reason in LIMITS:
            why = self._why(view)
            if why is None or why.verdict != "CHANGE":
                return
            told, hint = why.summary, "ask for less, or ask an administrator to raise the limit"
        elif view.reason not in UNSATISFIABLE:
            return
        elif MOUNTS in (told or ""):
            hint = "no machine there has a sandbox: mount it where it is (SOURCE:SOURCE), or install bubblewrap"
        self._take_back(view)
        raise CannotBePlaced(f"{view.name} cannot be placed: {told}", hint=hint)

    def _why(self, view: SessionView) -> WhyView | None:
        """Whether a limit is merely full, or too low for it: only the explanation tells."""
        if self._asked == view.reason_detail:
            return None
        self._asked = view.reason_detail
        with contextlib.suppress(ClientProblem):
            return self._client.sessions.why(view.id)
        return None

    def _output(self, view: SessionView) -> Iterator[LogPiece]:
        """What it says; after an interruption from where it was read to."""
        for piece in followed(self._client.sessions, view.id, LogOptions(follow=True, seen=dict(self._seen)).of(view)):
            self._seen[piece.kernel] = piece.offset + len(piece.content)
            yield piece

    def _until_end(self, view: SessionView) -> SessionView:
        """The session once it has ended, or once it waits again."""
        now = view
        for now in self._client.sessions.watch(view.id):
            if has_settled(now):
                break
        return now

    def _tell(self, view: SessionView) -> None:
        state = state_of(view)
        if state == "PENDING":
            line = f"{view.name}  PENDING  {view.reason_detail or view.reason or ''}".rstrip()
        elif state == "RUNNING":
            line = f"{view.name}  RUNNING  {placed(view)}"
        elif state == "PULLING":
            line = f"{view.name}  PULLING  {view.reason_detail or ''}".rstrip()
        else:
            line = f"{view.name}  {state}"
        if line != self._report:
            print_status(line)
        self._report = line

    def _ended(self, view: SessionView) -> int:
        code = view.exit_code
        took = formatting.between(view.scheduled_at, view.ended_at)
        if self._stopping:
            print_status(f"{view.name}  stopped")
            return INTERRUPTED
        if code is None:
            raise _never_ran(view)
        told = f": {_cause(view)}" if view.reason in ENDED_FOR else ""
        print_status(f"{view.name}  finished, exit {code}{took}{told}")
        return code if 0 <= code < 256 else FAILED

    def _interrupted(self, view: SessionView) -> int | None:
        """What Ctrl-C means: ask where somebody can answer, else end the session. None: go on."""
        if self._stopping:
            print_status(f"{view.name} was told to stop and ends by itself; see sokovan session show {view.name}")
            return INTERRUPTED
        answer = "s"
        if is_interactive():
            try:
                answer = ask(f"\n{view.name}: [d]etach, [s]top, [c]ontinue? ")[:1]
            except KeyboardInterrupt:  # whoever wants to be gone at once is not to lose the session
                print_status("")
                answer = "d"
        if answer == "c":
            return None
        if answer == "d":
            print_status(f"{view.name} goes on; see sokovan logs -f {view.name}")
            return INTERRUPTED
        print_status(f"stopping {view.name}; Ctrl-C again leaves it to itself")
        self._stopping = True
        self._client.sessions.stop(view.id)
        return None

    def _take_back(self, view: SessionView) -> None:
        with contextlib.suppress(ClientProblem):
            self._client.sessions.stop(view.id)


def _cause(view: SessionView) -> str:
    """What ended it, where its exit code does not tell."""
    if view.reason == "time-limit":
        return f"its time limit ended it; {view.reason_detail or 'it ran for that long'}"
    return view.reason_detail or view.reason or ""


def _never_ran(view: SessionView) -> ClientProblem:
    told = view.reason_detail or view.reason or state_of(view)
    if view.reason == PENDING_TIMEOUT:
        return WaitedTooLong(f"{view.name} was taken back: {told}")
    hint = f"sokovan session history {view.name} tells how far it came"
    return DidNotRun(f"{view.name} is {state_of(view)} and has no exit code: {told}", hint=hint)
