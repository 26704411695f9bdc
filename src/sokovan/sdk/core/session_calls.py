"""The requests about sessions and their kernels."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from sokovan.sdk.core.calls import PAGE_MAX, Call, api_path, query, sparse
from sokovan.wire.api.sessions import HistoryView, KernelView, LogChunk, SessionBody, SessionPage, SessionView

if TYPE_CHECKING:
    from sokovan.wire.api.explanations import PlanView, WaitingView, WhyView

KEY_HEADER = "Idempotency-Key"
SEEN_HEADER = "Last-Event-ID"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionListOptions:
    """Which sessions, in the words of the query; `status` may be several, with commas."""

    status: str | None = None
    queue: str | None = None
    scaling_group: str | None = None
    user: str | None = None
    group: str | None = None
    name: str | None = None
    mine: bool = False


def submit(body: SessionBody, *, key: str) -> Call[SessionView]:
    """Ask for a session; the key makes a repeated request the same request."""
    return Call(
        method="POST", path=api_path("sessions"), answer=SessionView, body=sparse(body), headers={KEY_HEADER: key}
    )


def plan(body: SessionBody) -> Call[PlanView]:
    """Ask what would become of a session."""
    from sokovan.wire.api.explanations import PlanView  # noqa: PLC0415  # those who only list do not pay for it

    return Call(method="POST", path=api_path("sessions", "plan"), answer=PlanView, body=sparse(body))


def listing(wanted: SessionListOptions, *, limit: int = PAGE_MAX, cursor: str | None = None) -> Call[SessionPage]:
    """One page of sessions, newest first."""
    asked = query({**asdict(wanted), "limit": limit, "cursor": cursor})
    return Call(method="GET", path=api_path("sessions"), answer=SessionPage, query=asked)


def get(ref: str) -> Call[SessionView]:
    """One session by its id, its name, or the beginning of one of them."""
    return Call(method="GET", path=api_path("sessions", ref), answer=SessionView)


def stop(ref: str, *, forced: bool = False) -> Call[SessionView]:
    """Mark a session for termination; asking twice is asking once."""
    return Call(method="DELETE", path=api_path("sessions", ref), answer=SessionView, query=query({"forced": forced}))


def cancel(ref: str) -> Call[SessionView]:
    """Take a waiting session back."""
    return Call(method="POST", path=api_path("sessions", ref, "cancel"), answer=SessionView, repeatable=False)


def why(ref: str) -> Call[WhyView]:
    """Why a session is where it is."""
    from sokovan.wire.api.explanations import WhyView  # noqa: PLC0415  # those who only list do not pay for it

    return Call(method="GET", path=api_path("sessions", ref, "why"), answer=WhyView)


def waiting() -> Call[WaitingView]:
    """All that waits, by reason."""
    from sokovan.wire.api.explanations import WaitingView  # noqa: PLC0415  # those who only list do not pay for it

    return Call(method="GET", path=api_path("sessions", "waiting"), answer=WaitingView)


def history(ref: str) -> Call[HistoryView]:
    """The story of a session."""
    return Call(method="GET", path=api_path("sessions", ref, "history"), answer=HistoryView)


def kernels(ref: str) -> Call[list[KernelView]]:
    """The kernels of a session."""
    return Call(method="GET", path=api_path("sessions", ref, "kernels"), answer=list[KernelView])


def log(ref: str, kernel: int, *, offset: int = 0, limit: int | None = None, tail: int | None = None) -> Call[LogChunk]:
    """A piece of the output of one kernel."""
    return Call(
        method="GET",
        path=api_path("sessions", ref, "kernels", str(kernel), "log"),
        answer=LogChunk,
        query=query({"offset": offset or None, "limit": limit, "tail": tail}),
    )


def watch(ref: str) -> Call[SessionView]:
    """A stream: the session now, and again after each change."""
    return Call(method="GET", path=api_path("sessions", ref, "events"), answer=SessionView)


def follow_log(
    ref: str, *, follow: bool = False, tail: int | None = None, kernel: int | None = None, seen: str = ""
) -> Call[LogChunk]:
    """A stream: the output of all kernels, or of one, after what was `seen`."""
    return Call(
        method="GET",
        path=api_path("sessions", ref, "log"),
        answer=LogChunk,
        query=query({"follow": follow, "tail": tail, "kernel": kernel}),
        headers={SEEN_HEADER: seen} if seen else {},
    )


def execution(ref: str, kernel: int) -> str:
    """The path of the socket that runs a command inside a kernel."""
    return api_path("sessions", ref, "kernels", str(kernel), "exec")
