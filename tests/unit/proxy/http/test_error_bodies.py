"""Refusals have OpenAI's form, so that its clients raise the right error."""

from __future__ import annotations

import json

import pytest

from sokovan.proxy.http.error_bodies import ProxyRefusal


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, "authentication_error"), (404, "not_found_error"), (429, "rate_limit_error"), (503, "server_error")],
)
def test_a_refusal_has_message_type_and_code(status: int, kind: str) -> None:
    refusal = ProxyRefusal(status, "some-code", "what happened", param="model")

    assert json.loads(refusal.body()) == {
        "error": {"message": "what happened", "type": kind, "param": "model", "code": "some-code"}
    }


def test_a_refusal_says_when_to_try_again() -> None:
    response = ProxyRefusal(503, "queue-full", "later", retry_after_s=7).response(keep_alive=True)

    assert b"\r\nretry-after: 7\r\n" in response


def test_a_refusal_of_head_has_no_body() -> None:
    response = ProxyRefusal(404, "x", "y").response(keep_alive=False, without_body=True)

    assert response.endswith(b"connection: close\r\n\r\n")


def test_a_stream_that_has_begun_ends_with_an_error_event() -> None:
    event = ProxyRefusal(502, "replica-failed", "it failed").event()

    assert json.loads(event.removeprefix(b"data: ")) == json.loads(
        ProxyRefusal(502, "replica-failed", "it failed").body()
    )
    assert event.endswith(b"\n\n")
