"""Many sessions in one request over HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sokovan.api.access.request_limits import Buckets
from sokovan.api.streaming import request_lines
from sokovan.wire.api.batches import LINES_MEDIA
from tests.unit.api.api_harness import ApiHarness, member

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH = member("north")
BODY: dict[str, Any] = {"command": ["true"], "resources": {"cpu": 1, "mem": "1Gi"}}


async def sent(api: ApiHarness, *bodies: dict[str, Any] | bytes, key: str = "", status: int = 200) -> dict[str, Any]:
    """The outcome of a batch with these lines."""
    lines = [body if isinstance(body, bytes) else json.dumps(body).encode() for body in bodies]
    headers = {"content-type": LINES_MEDIA, **({"idempotency-key": key} if key else {})}
    answer = await api.call("POST", "/sessions:batch", content=b"\n".join(lines), user=NORTH, headers=headers)
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.slow
async def test_each_line_is_a_session_and_a_bad_one_is_refused_alone(api: ApiHarness) -> None:
    bad: list[dict[str, Any] | bytes] = [
        {**BODY, "sise": 2},
        b"{",
        {**BODY, "name": "batch-a"},
        {**BODY, "array": "0-9"},
        {**BODY, "upload": "0" * 64},
        b'{"command": ["' + b"x" * (1 << 20) + b'"]}',
    ]
    outcome = await sent(api, {**BODY, "name": "batch-a"}, *bad, {**BODY, "name": "batch-b"})
    assert (outcome["accepted"], outcome["refused"]) == (2, 6)
    codes = [item["problem"] and item["problem"]["code"] for item in outcome["items"]]
    invalid = "invalid-request"
    assert codes == [None, invalid, invalid, "name-taken", invalid, "not-found", "body-too-large", None]
    first, last = outcome["items"][0], outcome["items"][-1]
    assert (first["name"], first["fresh"], last["name"]) == ("batch-a", True, "batch-b")
    shown = (await api.get(f"/sessions/{last['session']}", user=NORTH)).json()
    assert (shown["name"], shown["status"]) == ("batch-b", "pending")


@pytest.mark.slow
async def test_the_same_key_returns_the_same_sessions(api: ApiHarness) -> None:
    first = await sent(api, BODY, {**BODY, "size": 2}, key="k1")
    again = await sent(api, BODY, {**BODY, "size": 2}, key="k1")
    assert [one["session"] for one in first["items"]] == [one["session"] for one in again["items"]]
    assert [one["fresh"] for one in again["items"]] == [False, False]
    other = await sent(api, {**BODY, "size": 3}, {**BODY, "size": 2}, key="k1")
    assert other["items"][0]["problem"]["code"] == "idempotency-conflict"
    assert other["items"][1]["session"] == first["items"][1]["session"]


async def test_lines_beyond_the_limit_are_counted_and_not_stored(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_lines, "SESSIONS_MAX", 5)
    monkeypatch.setattr(request_lines, "TOGETHER", 2)
    outcome = await sent(api, *[BODY] * 8)
    assert (outcome["accepted"], outcome["refused"], len(outcome["items"])) == (5, 1, 6)
    assert "8 lines" in json.dumps(outcome["items"][-1]["problem"])


async def test_an_empty_batch_stores_nothing(api: ApiHarness) -> None:
    assert await sent(api, b"", b"  ") == {"items": [], "accepted": 0, "refused": 0}


async def test_another_media_type_is_refused(api: ApiHarness) -> None:
    answer = await api.call("POST", "/sessions:batch", json=[BODY], user=NORTH)
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported-media-type")


async def test_the_lines_of_a_user_are_counted_and_more_are_read_more_slowly(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []

    def take(_buckets: Buckets, _user: str, count: int = 1) -> float:
        taken.append(count)
        return 0.001 if taken.count(3) == 1 and count == 3 else 0.0

    monkeypatch.setattr(Buckets, "take", take)
    assert (await sent(api, BODY, BODY, BODY))["accepted"] == 3
    assert taken.count(3) == 2, "it has waited, and tried again"
