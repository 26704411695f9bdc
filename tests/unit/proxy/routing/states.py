"""Endpoints and pools for tests of decisions."""

from __future__ import annotations

from typing import Any

from sokovan.proxy.routing.choice import RevisionPool
from sokovan.proxy.routing.endpoint_state import EndpointState
from sokovan.wire.serving.route_table import EndpointEntry, RouteEntry


def endpoint(number: int, *, outstanding: int = 0, limit: int = 64, **changes: Any) -> EndpointState:
    values: dict[str, Any] = {
        "endpoint_id": f"k{number:03}.1", "revision": 1, "host": "127.0.0.1", "port": 20_000 + number,
        "state": "ACTIVE", **changes,
    }  # fmt: skip
    state = EndpointState(EndpointEntry(**values), concurrency_max=limit)
    state.outstanding = outstanding
    return state


def pool(*endpoints: EndpointState, revision: int = 1, weight: int = 1000) -> RevisionPool:
    return RevisionPool(revision, weight, list(endpoints))


def route(*endpoints: EndpointState, **changes: Any) -> RouteEntry:
    values: dict[str, Any] = {
        "deployment_id": "d1", "name": "chat", "project": "p", "owner": "u",
        "endpoints": tuple(one.entry for one in endpoints), **changes,
    }  # fmt: skip
    return RouteEntry(**values)
