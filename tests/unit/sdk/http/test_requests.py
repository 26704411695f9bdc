"""Failures of a request."""

from __future__ import annotations

from sokovan.sdk.http.requests import HttpFailure


def test_a_failure_without_a_text_is_named_by_its_kind() -> None:
    assert str(HttpFailure(TimeoutError(), sent=True, slow=True)) == "TimeoutError"
    assert str(HttpFailure(OSError("no route"), sent=False)) == "no route"
