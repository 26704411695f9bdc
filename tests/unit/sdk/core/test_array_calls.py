"""The requests about arrays."""

from __future__ import annotations

from sokovan.sdk.core import array_calls as calls
from sokovan.sdk.core.array_calls import ArrayListOptions


def test_one_array_is_named_in_the_path() -> None:
    assert (calls.get("sweep").method, calls.get("sweep").path) == ("GET", "/api/v1/arrays/sweep")
    stop = calls.stop("sweep", forced=True)
    assert (stop.method, stop.path, stop.query) == ("DELETE", "/api/v1/arrays/sweep", {"forced": "true"})
    assert stop.repeatable


def test_a_list_sends_only_the_filters_that_are_set() -> None:
    call = calls.listing(ArrayListOptions(status="running", mine=True), limit=9, cursor="c")
    assert (call.path, call.query) == (
        "/api/v1/arrays",
        {"status": "running", "mine": "true", "limit": "9", "cursor": "c"},
    )
