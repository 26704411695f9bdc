"""Bodies of inference calls: what is read, and that the rest stays as it is."""

from __future__ import annotations

import json

import pytest

from sokovan.proxy.http.error_bodies import ProxyRefusal
from sokovan.proxy.inference_call import InferenceCall, body_for, read_call

CHAT = b"/v1/chat/completions"


def call(body: bytes, path: bytes = CHAT) -> InferenceCall:
    found = read_call(path, body)
    assert isinstance(found, InferenceCall)
    return found


@pytest.mark.parametrize("field", ["messages", "prompt", "input"])
def test_the_prompt_of_every_kind_of_call_is_hashed(field: str) -> None:
    body = json.dumps({"model": "m", field: "x" * 2_000}).encode()

    assert len(call(body).chain) == 3


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        (b'{"model":"m"}', 1_024),
        (b'{"model":"m","max_tokens":7}', 7),
        (b'{"model":"m","max_completion_tokens":8,"max_tokens":7}', 8),
        (b'{"model":"m","max_output_tokens":9}', 9),
        (b'{"model":"m","max_tokens":-5}', 1),
    ],
)
def test_tokens_are_reserved_by_the_limit_of_the_call_and_its_prompt(body: bytes, tokens: int) -> None:
    assert call(body).tokens_max == tokens + len(body) // 4


@pytest.mark.parametrize(
    ("body", "path", "adds"),
    [
        (b'{"model":"m"}', CHAT, False),
        (b'{"model":"m","stream":true}', CHAT, True),
        (b'{"model":"m","stream":true}', b"/v1/responses", False),
        (b'{"model":"m","stream":true,"stream_options":{"include_usage":true}}', CHAT, False),
        (b'{"model":"m","stream":true,"stream_options":{"include_usage":false,"x":1}}', CHAT, True),
        (b'{"model":"m","stream":true,"stream_options":null}', CHAT, True),
    ],
)
def test_usage_is_asked_for_where_the_client_does_not(body: bytes, path: bytes, adds: bool) -> None:
    found = call(body, path)
    sent = json.loads(body_for(found, body, ""))

    assert found.adds_usage is adds
    if adds:
        assert sent["stream_options"]["include_usage"] is True
    else:
        assert sent == json.loads(body)


def test_only_the_model_is_rewritten() -> None:
    body = b'{"model":"m","temperature":0.10,"seed":12345678901234567890,"text":"\\u00e4"}'

    assert body_for(call(body), body, "up/stream") == (
        b'{"model":"up/stream","temperature":0.10,"seed":12345678901234567890,"text":"\\u00e4"}'
    )
    assert body_for(call(body), body, "") is body


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"model":null}', b'{"model":"m","stream":"yes"}', b"\xff"])
def test_a_body_that_is_no_call_is_refused(body: bytes) -> None:
    found = read_call(CHAT, body)

    assert isinstance(found, ProxyRefusal)
    assert found.status == 400


@pytest.mark.parametrize(
    ("body", "path", "asks"),
    [
        (b'{"model":"m","stream":true}', CHAT, True),
        (b'{"model":"m","stream":true,"n":1,"stream_options":{"include_usage":true}}', CHAT, True),
        (b'{"model":"m"}', CHAT, False),
        (b'{"model":"m","stream":true}', b"/v1/responses", False),
        (b'{"model":"m","stream":true,"n":2}', CHAT, False),
        (b'{"model":"m","stream":true,"prompt":["a","b"]}', b"/v1/completions", False),
        (b'{"model":"m","stream":true,"stream_options":{"continuous_usage_stats":true}}', CHAT, False),
        (b'{"model":"m","stream":true,"timings_per_token":true}', CHAT, False),
    ],
)
def test_usage_of_each_event_is_asked_for_where_one_answer_is_streamed(body: bytes, path: bytes, asks: bool) -> None:
    found = call(body, path)
    given = json.loads(body)
    usage = json.loads(body_for(found, body, "", "usage"))
    timings = json.loads(body_for(found, body, "", "timings"))

    assert found.may_add_event_usage is asks
    if asks:
        assert usage["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
        assert timings["timings_per_token"] is True
        assert "continuous_usage_stats" not in timings["stream_options"]
    else:
        assert usage.get("stream_options", {}).get("continuous_usage_stats") == given.get("stream_options", {}).get(
            "continuous_usage_stats"
        )
        assert timings.get("timings_per_token") == given.get("timings_per_token")
