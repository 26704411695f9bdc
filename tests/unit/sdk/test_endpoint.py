"""Address of the server, and the HTTP options of both clients."""

from __future__ import annotations

import httpx2
import pytest

from sokovan.sdk.core import session_calls
from sokovan.sdk.endpoint import STREAM_TIMEOUT_S, ServerEndpoint, outlasts, reaching
from sokovan.sdk.errors import Unreachable
from sokovan.wire.api.sessions import SessionBody


def test_the_key_is_in_no_printed_form() -> None:
    assert "secret" not in repr(ServerEndpoint("http://x", "secret"))


def test_a_server_of_this_machine_is_never_reached_through_a_proxy() -> None:
    for url in ("http://127.0.0.1:7646", "http://localhost:1", "http://[::1]:1"):
        assert ServerEndpoint(url, "t").http_options()["trust_env"] is False
    assert ServerEndpoint("https://sokovan.example", "t").http_options()["trust_env"] is True


def test_certificates_are_verified_for_https() -> None:
    assert ServerEndpoint("https://x", "t").http_options()["verify"] is True
    assert ServerEndpoint("http://x", "t").http_options()["verify"] is False


def test_a_body_is_json_and_headers_are_kept() -> None:
    options = ServerEndpoint("http://x", "t").request_options(session_calls.submit(SessionBody(command=["x"]), key="k"))
    assert options["content"] == b'{"command":["x"]}'
    assert options["headers"] == {"Idempotency-Key": "k", "Content-Type": "application/json"}


def test_a_read_of_a_stream_never_reaches_past_the_deadline() -> None:
    endpoint, call = ServerEndpoint("http://x", "t"), session_calls.watch("a")
    assert endpoint.stream_options(call)["timeout"].read == STREAM_TIMEOUT_S
    assert endpoint.stream_options(call, 3.0)["timeout"].read == 3.0
    assert not outlasts(endpoint.stream_options(call, 3.0), 2.9)
    assert outlasts(endpoint.stream_options(call, 3.0), 1.0)
    assert not outlasts(endpoint.stream_options(call), None)


def test_sockets_have_the_same_address() -> None:
    assert ServerEndpoint("https://x:1", "t").socket_url == "wss://x:1"


@pytest.mark.parametrize(
    ("error", "sent", "message"),
    [
        (httpx2.ConnectError("refused"), False, "cannot be reached: refused"),
        (httpx2.ConnectTimeout(""), False, "did not respond in time"),
        (httpx2.ReadTimeout(""), True, "did not respond in time"),
        (httpx2.RemoteProtocolError(""), True, "cannot be reached: RemoteProtocolError"),
    ],
)
def test_a_failure_says_whether_the_request_may_have_arrived(error: Exception, *, sent: bool, message: str) -> None:
    with pytest.raises(Unreachable, match=message) as caught, reaching(ServerEndpoint("http://x", "t")):
        raise error
    assert caught.value.sent is sent
