# Generated from sdk/aio/connection.py by `make docs`; do not edit.
"""Connection of the sync client: sends requests and retries those that are safe."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TypeVar

from sokovan.sdk.core.calls import Call
from sokovan.sdk.core.paging import Paging
from sokovan.sdk.core.responses import interpret, problem_of
from sokovan.sdk.core.retries import STREAMS, Attempts, CallDeadline, OnRetry, RetryRule
from sokovan.sdk.core.streams.followers import StreamFollower
from sokovan.sdk.core.streams.server_events import EventReader, ServerEvent
from sokovan.sdk.endpoint import ServerEndpoint, outlasts, reaching
from sokovan.sdk.environment import ClientEnvironment, SystemEnvironment
from sokovan.sdk.errors import ClientProblem, Unreachable
from sokovan.sdk.http.sync import Http, Transport
from sokovan.sdk.request_log import RequestLine

T = TypeVar("T")


class Connection:
    """HTTP connection to one server; may be shared by several threads."""

    def __init__(
        self,
        endpoint: ServerEndpoint,
        *,
        transport: Transport | None = None,
        rule: RetryRule | None = None,
        environment: ClientEnvironment | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.environment = environment or SystemEnvironment()
        self._rule = rule or RetryRule()
        # A proxy cannot reach the loopback address.
        self._http = Http(endpoint.url, proxies=not endpoint.is_loopback, ca=endpoint.ca, transport=transport)

    def close(self) -> None:
        """Close the sockets."""
        self._http.close()

    def send(self, call: Call[T]) -> T:
        """Send a request and decode its response; retry where that is safe."""
        attempts = Attempts(self._rule, self.environment)
        while True:
            try:
                return self._send_once(call)
            except ClientProblem as problem:
                wait_s = attempts.wait_s(problem, repeatable=call.repeatable)
            self.environment.sleep(wait_s)

    def pages(self, paging: Paging[T]) -> Iterator[T]:
        """Yield the items of a list, fetching pages as they are consumed."""
        while not paging.is_over():
            yield from paging.accept(self.send(paging.call()))

    def follow(
        self,
        follower: StreamFollower[T],
        *,
        timeout_s: float | None = None,
        rule: RetryRule = STREAMS,
        on_retry: OnRetry | None = None,
    ) -> Generator[T, None, None]:
        """Yield the items of a stream, reconnecting, until its end or the timeout."""
        deadline = CallDeadline(timeout_s, self.environment)
        attempts = Attempts(rule, self.environment, on_retry=on_retry)
        while True:
            try:
                for event in self._events(follower, deadline):
                    item = follower.accept(event)
                    if item is not None or event.is_keep_alive:
                        attempts.succeeded()
                    if item is not None:
                        yield item
                if follower.is_over():
                    return
                problem: ClientProblem = Unreachable(f"the server at {self.endpoint.url} closed a stream too early")
            except ClientProblem as error:
                problem = error
            deadline.check()
            self.environment.sleep(attempts.wait_s(problem))

    def _send_once(self, call: Call[T]) -> T:
        exchange = self._http.exchange(self.endpoint.request(call))
        with reaching(self.endpoint), RequestLine(call, self.environment) as line:
            with exchange as response:
                content = response.read()
            line.responded(response.status_code, response.headers)
        return interpret(call, status=response.status_code, headers=response.headers, content=content)

    def _events(self, follower: StreamFollower[T], deadline: CallDeadline) -> Iterator[ServerEvent]:
        """The events of one connection; stops when another read could pass the deadline."""
        call, reader = follower.call(), EventReader()
        request = self.endpoint.stream(call, deadline.left_s())
        stream = self._http.exchange(request)
        with reaching(self.endpoint), RequestLine(call, self.environment) as line, stream as response:
            status, headers = response.status_code, response.headers
            line.responded(status, headers)
            if status != 200:
                raise problem_of(status=status, headers=headers, content=response.read())
            for text in response.iter_text():
                yield from reader.feed(text)
                if outlasts(request, deadline.left_s()):
                    return
