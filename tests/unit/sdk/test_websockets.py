"""WebSocket options and connection errors."""

from __future__ import annotations

import json

import pytest
from websockets.datastructures import Headers
from websockets.exceptions import InvalidStatus
from websockets.http11 import Response

from sokovan.sdk.endpoint import ServerEndpoint
from sokovan.sdk.errors import NotFound, UnexpectedAnswer, Unreachable
from sokovan.sdk.websockets import connecting, refusal, socket_options


def test_the_servers_problem_is_ours() -> None:
    body = {"type": "", "title": "", "status": 404, "detail": "no session 'x'", "code": "not-found"}
    headers = Headers({"CONTENT-TYPE": "application/problem+json"})
    found = refusal(InvalidStatus(Response(404, "Not Found", headers, json.dumps(body).encode())))
    assert isinstance(found, NotFound)
    assert found.message == "no session 'x'"


def test_a_response_of_another_server_is_recognized() -> None:
    assert isinstance(refusal(InvalidStatus(Response(502, "Bad", Headers(), b""))), UnexpectedAnswer)


def test_a_network_error_names_the_address() -> None:
    endpoint = ServerEndpoint("http://x", "t")
    with pytest.raises(Unreachable, match=r"to http://x is lost: \[Errno 111\]"), connecting(endpoint):
        raise ConnectionRefusedError(111, "refused")
    with pytest.raises(UnexpectedAnswer), connecting(endpoint):
        raise InvalidStatus(Response(502, "Bad", Headers(), b""))


def test_a_socket_carries_the_key_and_goes_through_no_proxy() -> None:
    options = socket_options(ServerEndpoint("http://x", "t"))
    assert options["additional_headers"]["Authorization"] == "Bearer t"
    assert options["proxy"] is None
