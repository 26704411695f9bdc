"""A server with canned responses, behind the HTTP client's mock transport."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import msgspec

from sokovan.sdk.endpoint import ServerEndpoint
from sokovan.sdk.http.requests import HttpFailure, HttpRequest
from sokovan.sdk.http.sync import HttpResponse

ENDPOINT = ServerEndpoint("http://sokovan.test", "sk-AK.secret")
CannedResponse = httpx2.Response | Exception
JSON = "application/json"


class FakeServer:
    """Gives canned responses in order and records the requests."""

    def __init__(self, *responses: CannedResponse) -> None:
        self._responses = list(responses)
        self.requests: list[httpx2.Request] = []

    def respond(self, request: httpx2.Request) -> httpx2.Response:
        """The next response; an exception is raised as a network error."""
        request.read()
        self.requests.append(request)
        found = self._responses.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    async def respond_later(self, request: httpx2.Request) -> httpx2.Response:
        """The next response, for the async client."""
        await request.aread()
        return self.respond(request)

    def transport(self) -> HandlerTransport:
        """Transport of the sync client."""
        return HandlerTransport(self.respond)

    def async_transport(self) -> httpx2.MockTransport:
        """Transport of the async client."""
        handler: Callable[[httpx2.Request], Any] = self.respond_later
        return httpx2.MockTransport(handler)

    @property
    def lines(self) -> list[str]:
        """The requests, as METHOD PATH?QUERY."""
        return [f"{one.method} {one.url.raw_path.decode()}" for one in self.requests]


class HandlerTransport:
    """Transport of the sync client that asks a function instead of a server."""

    def __init__(self, handler: Callable[[httpx2.Request], httpx2.Response]) -> None:
        self._handler = handler

    @contextmanager
    def exchange(self, request: HttpRequest) -> Iterator[HttpResponse]:
        """Give the response of the function; its errors are those of the network."""
        given = httpx2.Request(
            request.method,
            ENDPOINT.url + request.target,
            headers=request.headers,
            content=request.content,
            extensions={"timeout": {"read": request.read_s}},
        )
        try:
            response = self._handler(given)
        except httpx2.RequestError as error:
            unsent = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
            raise HttpFailure(error, sent=not unsent) from error
        yield response

    def close(self) -> None:
        """There is nothing to close."""


def ok(body: object, *, status: int = 200) -> httpx2.Response:
    """A successful response."""
    return httpx2.Response(status, content=msgspec.json.encode(body), headers={"Content-Type": JSON})


def problem(status: int, code: str, *, headers: dict[str, str] | None = None, **more: Any) -> httpx2.Response:
    """A problem response."""
    body = {"type": f"urn:{code}", "title": "T", "status": status, "detail": f"about {code}", "code": code, **more}
    content = msgspec.json.encode({"hint": f"fix {code}", **body})
    return httpx2.Response(
        status, content=content, headers={"Content-Type": "application/problem+json", **(headers or {})}
    )


def stream(*events: tuple[str, object] | str) -> httpx2.Response:
    """A stream of events; strings are sent unchanged."""
    parts: Iterable[bytes] = [
        one.encode()
        if isinstance(one, str)
        else b"event: %s\ndata: %s\n\n" % (one[0].encode(), msgspec.json.encode(one[1]))
        for one in events
    ]
    return httpx2.Response(200, content=b"".join(parts), headers={"Content-Type": "text/event-stream"})


class FakeClock:
    """A client environment in which sleeping takes no time and is recorded."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []
        self.keys = 0

    def now_s(self) -> float:
        """The fake time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Advance the time."""
        self.waits.append(seconds)
        self.now += seconds

    async def async_sleep(self, seconds: float) -> None:
        """Advance the time."""
        self.sleep(seconds)

    def jitter(self) -> float:
        """A constant."""
        return 1.0

    def new_key(self) -> str:
        """Numbered keys."""
        self.keys += 1
        return f"key-{self.keys}"
