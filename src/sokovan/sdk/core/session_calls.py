"""Requests for sessions and their kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

from sokovan.sdk.core.calls import PAGE_MAX, SEEN_HEADER, Call, api_path, filters_query, query, sparse
from sokovan.sdk.errors import InvalidSetting
from sokovan.wire.api.batches import BATCH_PATH, LINES_MEDIA, STOP_PATH, BatchView, StopBody, StopView
from sokovan.wire.api.sessions import (
    HistoryView,
    KernelPage,
    LogChunk,
    SessionBody,
    SessionCountsView,
    SessionPage,
    SessionRowPage,
    SessionSpecView,
    SessionView,
)
from sokovan.wire.plain_codec import encoded

if TYPE_CHECKING:
    from sokovan.wire.api.explanations import PlanView, SessionMetricsView, WaitingView, WhyView

KEY_HEADER = "Idempotency-Key"
# Of an idempotency key.
KEY_MAX = 128
# Sessions per request of a batch: enough that a request costs little, and it is answered within seconds.
TOGETHER = 2_000


class SessionListOptions(TypedDict, total=False):
    """Filters of a list; of several labels a session must have all.

    `reason` is the code for which sessions are PENDING, as `waiting()` counts them.
    `since` and `until` are RFC 3339 times: sessions that had not ended, or were submitted. `q`
    are words in the name, id, user or queue, of the newest 100,000 sessions.
    """

    id: str | Sequence[str] | None
    status: str | Sequence[str] | None
    queue: str | None
    scaling_group: str | None
    user: str | None
    group: str | None
    name: str | None
    label: str | Sequence[str] | None
    mine: bool
    array: str | None
    outside_arrays: bool
    reason: str | None
    since: str | None
    until: str | None
    q: str | None


class SessionOrderOptions(SessionListOptions, total=False):
    """Filters of a list and its order.

    `newest` or `oldest` first, or by `name`, `user`, `queue`, `status`, `kernels`, `gpus` or
    `reason`; `-gpus` is the other way round. Equal ones come newest first.
    """

    sort: str | None


def submit(body: SessionBody, *, key: str) -> Call[SessionView]:
    """Submit a session; the idempotency key makes the request repeatable."""
    return Call(
        method="POST", path=api_path("sessions"), answer=SessionView, body=sparse(body), headers={KEY_HEADER: key}
    )


def part_key(key: str, first: int) -> str:
    """The idempotency key of a part of many sessions, as long as a key may be."""
    text = f"{key}-{first}"
    if len(text) <= KEY_MAX:
        return text
    from hashlib import sha256  # noqa: PLC0415  # hardly ever needed, and slow to load

    return sha256(text.encode()).hexdigest()


def submit_many(bodies: Sequence[SessionBody], *, key: str) -> Call[BatchView]:
    """Submit sessions in one request, one per line."""
    return Call(
        method="POST",
        path=BATCH_PATH,
        content=b"\n".join(encoded(sparse(body)) for body in bodies),
        headers={KEY_HEADER: key, "Content-Type": LINES_MEDIA},
        answer=BatchView,
    )


def plan(body: SessionBody) -> Call[PlanView]:
    """Dry run of a submission."""
    from sokovan.wire.api.explanations import PlanView  # noqa: PLC0415  # loads lazily

    return Call(method="POST", path=api_path("sessions", "plan"), answer=PlanView, body=sparse(body))


def listing(options: SessionListOptions, *, limit: int = PAGE_MAX, cursor: str | None = None) -> Call[SessionPage]:
    """Get one page of sessions, by default newest first. Raises InvalidSetting."""
    parameters = filters_query("sessions", options, SessionOrderOptions, limit=limit, cursor=cursor)
    return Call(method="GET", path=api_path("sessions"), answer=SessionPage, query=parameters)


def rows(options: SessionListOptions, *, limit: int = PAGE_MAX, cursor: str | None = None) -> Call[SessionRowPage]:
    """Get a page of rows of sessions, by default newest first. Raises InvalidSetting."""
    parameters = filters_query("sessions", options, SessionOrderOptions, limit=limit, cursor=cursor)
    return Call(method="GET", path=api_path("sessions", "rows"), answer=SessionRowPage, query=parameters)


def counts(options: SessionListOptions, *, by: str = "status") -> Call[SessionCountsView]:
    """Count sessions by a property. Raises InvalidSetting."""
    parameters = {**filters_query("sessions", options, SessionListOptions), "by": by}
    return Call(method="GET", path=api_path("sessions", "counts"), answer=SessionCountsView, query=parameters)


def get(ref: str) -> Call[SessionView]:
    """Get one session by id, name, or a unique prefix of one."""
    return Call(method="GET", path=api_path("sessions", ref), answer=SessionView)


def stop(ref: str, *, forced: bool = False) -> Call[SessionView]:
    """Mark a session for termination; idempotent."""
    return Call(method="DELETE", path=api_path("sessions", ref), answer=SessionView, query=query({"forced": forced}))


def stop_many(refs: Sequence[str], *, forced: bool = False) -> Call[StopView]:
    """Mark sessions for termination in one request, one per line; idempotent."""
    return Call(
        method="POST",
        path=STOP_PATH,
        content=b"\n".join(encoded(StopBody(session=ref)) for ref in refs),
        headers={"Content-Type": LINES_MEDIA},
        answer=StopView,
        query=query({"forced": forced}),
    )


def cancel(ref: str) -> Call[SessionView]:
    """Cancel a pending session."""
    return Call(method="POST", path=api_path("sessions", ref, "cancel"), answer=SessionView, repeatable=False)


def release(ref: str, *, gate: str | None = None) -> Call[SessionView]:
    """Release a held session, or one of its gates; idempotent."""
    return Call(
        method="POST", path=api_path("sessions", ref, "release"), answer=SessionView, query=query({"gate": gate})
    )


def why(ref: str, *, evict: bool = False) -> Call[WhyView]:
    """Explain the state of a session, with its victims if `evict`."""
    from sokovan.wire.api.explanations import WhyView  # noqa: PLC0415  # loads lazily

    return Call(method="GET", path=api_path("sessions", ref, "why"), answer=WhyView, query=query({"evict": evict}))


def waiting() -> Call[WaitingView]:
    """Get the pending sessions by reason."""
    from sokovan.wire.api.explanations import WaitingView  # noqa: PLC0415  # loads lazily

    return Call(method="GET", path=api_path("sessions", "waiting"), answer=WaitingView)


def history(ref: str, *, cursor: str | None = None) -> Call[HistoryView]:
    """Get one page of the state history of a session."""
    parameters = query({"limit": PAGE_MAX, "cursor": cursor})
    return Call(method="GET", path=api_path("sessions", ref, "history"), answer=HistoryView, query=parameters)


def spec(ref: str) -> Call[SessionSpecView]:
    """Get the request that submits a session again."""
    return Call(method="GET", path=api_path("sessions", ref, "spec"), answer=SessionSpecView)


def kernels(ref: str, *, limit: int = PAGE_MAX, cursor: str | None = None) -> Call[KernelPage]:
    """Get one page of the kernels of a session."""
    parameters = query({"limit": limit, "cursor": cursor})
    return Call(method="GET", path=api_path("sessions", ref, "kernels"), answer=KernelPage, query=parameters)


def metrics(ref: str, kernels: Sequence[int] = ()) -> Call[SessionMetricsView]:
    """Measure kernels of a session, by default the first 64."""
    from sokovan.wire.api.explanations import SessionMetricsView  # noqa: PLC0415  # loads lazily

    parameters = query({"kernel": ",".join(map(str, kernels)) or None})
    return Call(method="GET", path=api_path("sessions", ref, "metrics"), answer=SessionMetricsView, query=parameters)


def log(ref: str, kernel: int, *, offset: int = 0, limit: int | None = None, tail: int | None = None) -> Call[LogChunk]:
    """Read a range of the output of one kernel."""
    return Call(
        method="GET",
        path=api_path("sessions", ref, "kernels", str(kernel), "log"),
        answer=LogChunk,
        query=query({"offset": offset or None, "limit": limit, "tail": tail}),
    )


def watch(ref: str) -> Call[SessionView]:
    """Stream the session: now, and after each change."""
    return Call(method="GET", path=api_path("sessions", ref, "events"), answer=SessionView)


def follow_log(
    ref: str, *, follow: bool = False, tail: int | None = None, kernels: Sequence[int] | None = None, seen: str = ""
) -> Call[LogChunk]:
    """Stream the output of all kernels, or of some, starting after `seen`.

    Raises InvalidSetting.
    """
    if kernels is not None and not kernels:
        raise InvalidSetting("no kernels are named", hint="leave them out for all kernels")
    return Call(
        method="GET",
        path=api_path("sessions", ref, "log"),
        answer=LogChunk,
        query=query({"follow": follow, "tail": tail, "kernel": ",".join(map(str, kernels or ())) or None}),
        headers={SEEN_HEADER: seen} if seen else {},
    )


def port(ref: str, kernel: int, name: str) -> str:
    """Path of the WebSocket to a port of a kernel."""
    return api_path("sessions", ref, "kernels", str(kernel), "ports", name)


def execution(ref: str, kernel: int) -> str:
    """Path of the WebSocket that runs a command in a kernel."""
    return api_path("sessions", ref, "kernels", str(kernel), "exec")
