"""What it means when the server does not open a socket."""

from __future__ import annotations

import json

from websockets.datastructures import Headers
from websockets.exceptions import InvalidStatus
from websockets.http11 import Response

from sokovan.sdk.errors import NotFound, UnexpectedAnswer
from sokovan.sdk.upgrades import refusal


def test_the_servers_problem_is_ours() -> None:
    body = {"type": "", "title": "", "status": 404, "detail": "no session 'x'", "code": "not-found"}
    headers = Headers({"CONTENT-TYPE": "application/problem+json"})
    found = refusal(InvalidStatus(Response(404, "Not Found", headers, json.dumps(body).encode())))
    assert isinstance(found, NotFound)
    assert found.message == "no session 'x'"


def test_an_answer_of_somebody_else_is_told_apart() -> None:
    assert isinstance(refusal(InvalidStatus(Response(502, "Bad", Headers(), b""))), UnexpectedAnswer)
