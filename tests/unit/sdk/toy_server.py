"""A server of canned answers, behind the HTTP client's own transport."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import httpx2
import msgspec

from sokovan.sdk.endpoint import ServerEndpoint

ENDPOINT = ServerEndpoint("http://sokovan.test", "sk-AK.secret")
Answer = httpx2.Response | Exception
JSON = "application/json"


class ToyServer:
    """Gives one answer after the other, and remembers what was asked."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.asked: list[httpx2.Request] = []

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        """The next answer; an exception is raised as the network would."""
        request.read()
        self.asked.append(request)
        found = self._answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    async def answer_later(self, request: httpx2.Request) -> httpx2.Response:
        """The same for the async client."""
        await request.aread()
        return self.answer(request)

    def transport(self) -> httpx2.MockTransport:
        """For the sync client."""
        return httpx2.MockTransport(self.answer)

    def async_transport(self) -> httpx2.MockTransport:
        """For the async client."""
        handler: Callable[[httpx2.Request], Any] = self.answer_later
        return httpx2.MockTransport(handler)

    @property
    def lines(self) -> list[str]:
        """What was asked, as METHOD PATH?QUERY."""
        return [f"{one.method} {one.url.raw_path.decode()}" for one in self.asked]


def ok(body: object, *, status: int = 200) -> httpx2.Response:
    """A good answer."""
    return httpx2.Response(status, content=msgspec.json.encode(body), headers={"Content-Type": JSON})


def problem(status: int, code: str, *, headers: dict[str, str] | None = None, **more: Any) -> httpx2.Response:
    """A bad one."""
    body = {"type": f"urn:{code}", "title": "T", "status": status, "detail": f"about {code}", "code": code, **more}
    content = msgspec.json.encode({"hint": f"mend {code}", **body})
    return httpx2.Response(
        status, content=content, headers={"Content-Type": "application/problem+json", **(headers or {})}
    )


def stream(*events: tuple[str, object] | str) -> httpx2.Response:
    """A stream of events; a text is sent as it is."""
    parts: Iterable[bytes] = [
        one.encode()
        if isinstance(one, str)
        else b"event: %s\ndata: %s\n\n" % (one[0].encode(), msgspec.json.encode(one[1]))
        for one in events
    ]
    return httpx2.Response(200, content=b"".join(parts), headers={"Content-Type": "text/event-stream"})


class StillClock:
    """Surroundings in which waiting takes no time, and is written down."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []
        self.keys = 0

    def now_s(self) -> float:
        """The time so far."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.waits.append(seconds)
        self.now += seconds

    async def async_sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.sleep(seconds)

    def jitter(self) -> float:
        """Always the same."""
        return 1.0

    def new_key(self) -> str:
        """Counted, so that tests can name them."""
        self.keys += 1
        return f"key-{self.keys}"
