"""The requests about sessions."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.sdk.core import session_calls as calls
from sokovan.sdk.core.calls import Call
from sokovan.sdk.core.session_calls import SessionListOptions
from sokovan.sdk.errors import InvalidSetting
from sokovan.wire.api.sessions import SessionBody


def test_a_submission_carries_its_key_and_may_be_repeated() -> None:
    call = calls.submit(SessionBody(command=["x"]), key="k1")
    assert (call.method, call.path, call.body) == ("POST", "/api/v1/sessions", {"command": ["x"]})
    assert call.headers == {"Idempotency-Key": "k1"}
    assert call.repeatable


def test_taking_back_is_not_repeated_and_stopping_is() -> None:
    assert not calls.cancel("a").repeatable
    assert calls.stop("a").repeatable


def test_a_forced_stop_says_so() -> None:
    assert calls.stop("a").query == {}
    assert calls.stop("a", forced=True).query == {"forced": "true"}


def test_a_list_sends_only_the_filters_that_are_set() -> None:
    options = SessionListOptions(status="running", label="team=vision,nightly", mine=True)
    query = {"status": "running", "label": "team=vision,nightly", "mine": "true", "limit": "9", "cursor": "c"}
    assert calls.listing(options, limit=9, cursor="c").query == query


def test_several_values_of_a_filter_are_given_as_a_list_or_as_text() -> None:
    given = SessionListOptions(status=["running", "pending"], label=("team=vision", "nightly"))
    query = calls.listing(given).query
    assert (query["status"], query["label"]) == ("running,pending", "team=vision,nightly")


def test_an_unknown_filter_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="no filter 'lable'"):
        calls.listing({"lable": "a"})  # type: ignore[typeddict-unknown-key]  # a typing error


def test_a_log_resumes_after_the_seen_offsets() -> None:
    call = calls.follow_log("a", follow=True, kernels=(0, 2), seen="0:12")
    assert call.query == {"follow": "true", "kernel": "0,2"}
    assert call.headers == {"Last-Event-ID": "0:12"}
    assert calls.follow_log("a").headers == {}
    with pytest.raises(InvalidSetting, match="no kernels"):
        calls.follow_log("a", kernels=())


def test_every_question_has_its_path() -> None:
    paths: list[Call[Any]] = [
        calls.get("a"), calls.why("a"), calls.history("a"), calls.kernels("a"), calls.watch("a"), calls.waiting(),
        calls.spec("a"), calls.metrics("a"),
    ]  # fmt: skip
    assert [one.path.removeprefix("/api/v1/sessions/") for one in paths] == [
        "a", "a/why", "a/history", "a/kernels", "a/events", "waiting", "a/spec", "a/metrics",
    ]  # fmt: skip
    assert calls.plan(SessionBody()).path == "/api/v1/sessions/plan"
    assert calls.log("a", 2, offset=7, limit=9).query == {"offset": "7", "limit": "9"}
    assert (calls.metrics("a").query, calls.metrics("a", [1, 7]).query) == ({}, {"kernel": "1,7"})
    assert calls.execution("a", 2) == "/api/v1/sessions/a/kernels/2/exec"
