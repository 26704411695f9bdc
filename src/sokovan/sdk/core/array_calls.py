"""Requests for job arrays."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from sokovan.sdk.core.calls import PAGE_MAX, Call, api_path, query
from sokovan.wire.api.arrays import ArrayPage, ArrayView


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayListOptions:
    """Filters of a list: arrays with a session that has these properties."""

    status: str | None = None
    queue: str | None = None
    scaling_group: str | None = None
    user: str | None = None
    group: str | None = None
    label: str | None = None
    mine: bool = False


def listing(options: ArrayListOptions, *, limit: int = PAGE_MAX, cursor: str | None = None) -> Call[ArrayPage]:
    """Get one page of arrays, newest first."""
    parameters = query({**asdict(options), "limit": limit, "cursor": cursor})
    return Call(method="GET", path=api_path("arrays"), answer=ArrayPage, query=parameters)


def get(ref: str) -> Call[ArrayView]:
    """Get one array by id, name, or a unique prefix of one."""
    return Call(method="GET", path=api_path("arrays", ref), answer=ArrayView)


def stop(ref: str, *, forced: bool = False) -> Call[ArrayView]:
    """Mark all sessions of an array for termination; idempotent."""
    return Call(method="DELETE", path=api_path("arrays", ref), answer=ArrayView, query=query({"forced": forced}))
