"""Address of the server, and the HTTP requests of both clients."""

from __future__ import annotations

import pytest

from sokovan.sdk.core import session_calls
from sokovan.sdk.endpoint import STREAM_TIMEOUT_S, ServerEndpoint, outlasts, reaching
from sokovan.sdk.errors import InvalidSetting, Unreachable
from sokovan.sdk.http.requests import HttpFailure
from sokovan.wire.api.sessions import SessionBody


def test_the_key_is_in_no_printed_form() -> None:
    assert "secret" not in repr(ServerEndpoint("http://x", "secret"))


def test_a_body_is_json_and_headers_are_kept() -> None:
    call = session_calls.submit(SessionBody(command=["x"]), key="k")
    request = ServerEndpoint("http://x", "t").request(call)
    assert (request.method, request.target, request.content) == ("POST", "/api/v1/sessions", b'{"command":["x"]}')
    assert request.headers["Idempotency-Key"] == "k"
    assert request.headers["Content-Type"] == request.headers["Accept"] == "application/json"
    assert request.headers["Authorization"] == "Bearer t"


@pytest.mark.parametrize("key", ["a\nb", "naïve", "a\x00"])
def test_what_no_header_may_have_is_refused_without_its_value(key: str) -> None:
    call = session_calls.submit(SessionBody(command=["x"]), key="k")
    with pytest.raises(InvalidSetting, match="Authorization") as refused:
        ServerEndpoint("http://x", key).request(call)
    assert key not in str(refused.value)


def test_the_key_of_a_part_is_as_long_as_a_key_may_be() -> None:
    assert session_calls.part_key("k", 400) == "k-400"
    keys = {session_calls.part_key("k" * 127, first) for first in (0, 1, 2)}
    assert len(keys) == 3
    assert max(map(len, keys)) <= 128


def test_a_query_is_escaped() -> None:
    call = session_calls.listing({"label": "a=b c"})
    assert ServerEndpoint("http://x", "t").request(call).target == "/api/v1/sessions?label=a%3Db+c&limit=100"


def test_a_read_of_a_stream_never_reaches_past_the_deadline() -> None:
    endpoint, call = ServerEndpoint("http://x", "t"), session_calls.watch("a")
    assert endpoint.stream(call).read_s == STREAM_TIMEOUT_S
    assert endpoint.stream(call, 3.0).read_s == endpoint.stream(call, 3.0).connect_s == 3.0
    assert not outlasts(endpoint.stream(call, 3.0), 2.9)
    assert outlasts(endpoint.stream(call, 3.0), 1.0)
    assert not outlasts(endpoint.stream(call), None)


def test_sockets_have_the_same_address() -> None:
    assert ServerEndpoint("https://x:1", "t").socket_url == "wss://x:1"


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (HttpFailure(OSError("refused"), sent=False), "cannot be reached: refused"),
        (HttpFailure(TimeoutError(), sent=False, slow=True), "did not respond in time"),
        (HttpFailure(EOFError(), sent=True), "cannot be reached: EOFError"),
    ],
)
def test_a_failure_says_whether_the_request_may_have_arrived(failure: HttpFailure, message: str) -> None:
    with pytest.raises(Unreachable, match=message) as caught, reaching(ServerEndpoint("http://x", "t")):
        raise failure
    assert caught.value.sent is failure.sent
