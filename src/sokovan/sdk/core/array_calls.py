"""Requests for job arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from sokovan.sdk.core.calls import PAGE_MAX, Call, api_path, filters_query, query
from sokovan.wire.api.arrays import ArrayPage, ArrayView


class ArrayListOptions(TypedDict, total=False):
    """Filters of a list: arrays with a session that has these properties."""

    status: str | Sequence[str] | None
    queue: str | None
    scaling_group: str | None
    user: str | None
    group: str | None
    label: str | Sequence[str] | None
    mine: bool
    q: str | None


def listing(options: ArrayListOptions, *, limit: int = PAGE_MAX, cursor: str | None = None) -> Call[ArrayPage]:
    """Get one page of arrays, newest first. Raises InvalidSetting."""
    parameters = filters_query("arrays", options, ArrayListOptions, limit=limit, cursor=cursor)
    return Call(method="GET", path=api_path("arrays"), answer=ArrayPage, query=parameters)


def get(ref: str) -> Call[ArrayView]:
    """Get one array by id, name, or a unique prefix of one."""
    return Call(method="GET", path=api_path("arrays", ref), answer=ArrayView)


def stop(ref: str, *, forced: bool = False) -> Call[ArrayView]:
    """Mark all sessions of an array for termination; idempotent."""
    return Call(method="DELETE", path=api_path("arrays", ref), answer=ArrayView, query=query({"forced": forced}))


def release(ref: str, *, gate: str | None = None) -> Call[ArrayView]:
    """Release all held sessions of an array, or one gate of them; idempotent."""
    return Call(method="POST", path=api_path("arrays", ref, "release"), answer=ArrayView, query=query({"gate": gate}))
