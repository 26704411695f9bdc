"""Limits per client: request rate, failures, body size, JSON depth."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest

from sokovan.api.access.request_limits import (
    JSON_DEPTH_MAX,
    NAMES_MAX,
    Buckets,
    LimitedBody,
    require_length,
    require_shallow,
)
from sokovan.api.errors import BodyTooLarge, TooManyRequests
from sokovan.domain.problems import InvalidRequest
from sokovan.testing.clock import VirtualClock


async def test_a_bucket_gives_its_burst_at_once_and_then_as_time_passes() -> None:
    clock = VirtualClock()
    buckets = Buckets(clock, per_s=2, burst=3)
    assert [buckets.take("k") for _ in range(4)] == [0, 0, 0, 0.5]
    await clock.advance(0.5)
    assert buckets.take("k") == 0
    assert buckets.take("k") > 0
    await clock.advance(3600)
    assert [buckets.take("k") for _ in range(4)] == [0, 0, 0, 0.5]


def test_every_name_has_a_bucket_of_its_own() -> None:
    buckets = Buckets(VirtualClock(), per_s=1, burst=1)
    assert (buckets.take("a"), buckets.take("b")) == (0, 0)
    assert buckets.take("a") > 0


def test_a_client_over_the_limit_gets_a_retry_time() -> None:
    buckets = Buckets(VirtualClock(), per_s=0.1, burst=1)
    buckets.require("k", what="requests")
    with pytest.raises(TooManyRequests) as refused:
        buckets.require("k", what="requests")
    assert refused.value.wait_s == pytest.approx(10)


def test_the_names_that_are_remembered_are_bounded() -> None:
    buckets = Buckets(VirtualClock(), per_s=1, burst=1)
    for number in range(NAMES_MAX + 10):
        buckets.take(str(number))
    assert len(buckets._left) == NAMES_MAX


async def test_a_body_is_read_up_to_its_limit_and_no_further() -> None:
    parts = iter([b"x" * 6, b"x" * 4, b"x"])

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": next(parts), "more_body": True}

    body = LimitedBody(receive, 10)
    assert len((await body())["body"]) + len((await body())["body"]) == 10
    with pytest.raises(BodyTooLarge):
        await body()


async def test_what_is_no_part_of_a_body_is_passed_on() -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    assert await LimitedBody(receive, 1)() == {"type": "http.disconnect"}


def test_a_length_that_is_said_is_believed_where_it_is_too_much() -> None:
    require_length(None, limit=10)
    require_length(b"10", limit=10)
    require_length(b"nonsense", limit=10)
    with pytest.raises(BodyTooLarge):
        require_length(b"11", limit=10)


def test_json_may_be_as_deep_as_the_limit() -> None:
    require_shallow(b"[" * JSON_DEPTH_MAX + b"]" * JSON_DEPTH_MAX)
    require_shallow(json.dumps([{"a": [1]}] * 100).encode())


@pytest.mark.parametrize(
    "body",
    [
        b"[" * (JSON_DEPTH_MAX + 1) + b"]" * (JSON_DEPTH_MAX + 1),
        b'{"a":' * 40 + b"1" + b"}" * 40,
        b"[" * 500_000,
        b'["\\"' + b"[" * 5 + b'",' + b"[" * 40,
    ],
)
def test_json_that_is_deeper_is_refused_before_it_is_parsed(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match="nested deeper"):
        require_shallow(body)


@pytest.mark.parametrize(
    "part",
    [b'\\"', b'"', b'"\\', b"\\", b'"[', b'["', b'[\\"', b'[],"\\'],
    ids=lambda part: part.decode(),
)
def test_a_large_body_of_anything_is_looked_at_once(part: bytes) -> None:
    # Looking at it once for each quote would take hours at this size.
    body = b"[" * JSON_DEPTH_MAX + part * ((1 << 20) // len(part))
    with suppress(InvalidRequest):
        require_shallow(body)


def test_a_text_without_an_end_is_left_to_the_parser() -> None:
    require_shallow(b"[" * JSON_DEPTH_MAX + b'"' + b"[" * 100)


def test_brackets_in_texts_do_not_count() -> None:
    require_shallow(json.dumps({"command": ["echo", '[[[{{{"\\' * 50]}).encode())


async def test_a_bucket_says_whether_it_is_empty_without_being_taken_from() -> None:
    clock = VirtualClock()
    buckets = Buckets(clock, per_s=1, burst=1)
    assert not buckets.is_empty("a")
    assert not buckets.is_empty("a")
    buckets.take("a")
    assert buckets.is_empty("a")
    await clock.advance(1)
    assert not buckets.is_empty("a")
