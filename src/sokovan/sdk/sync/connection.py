"""The connection of the sync client: sends calls, repeats what may be repeated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import httpx2

from sokovan.sdk.core.calls import Call
from sokovan.sdk.core.followers import StreamFollower
from sokovan.sdk.core.paging import Paging
from sokovan.sdk.core.responses import interpret, problem_of
from sokovan.sdk.core.retries import STREAMS, Attempts, CallDeadline, OnRetry, RetryRule
from sokovan.sdk.core.server_events import EventReader, ServerEvent
from sokovan.sdk.endpoint import ServerEndpoint, outlasts, reaching
from sokovan.sdk.environment import ClientEnvironment, SystemEnvironment
from sokovan.sdk.errors import ClientProblem, Unreachable
from sokovan.sdk.request_log import RequestLine

T = TypeVar("T")


class Connection:
    """One server, asked by one thread at a time or by many."""

    def __init__(
        self,
        endpoint: ServerEndpoint,
        *,
        transport: httpx2.BaseTransport | None = None,
        rule: RetryRule | None = None,
        environment: ClientEnvironment | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.environment = environment or SystemEnvironment()
        self._rule = rule or RetryRule()
        self._http = httpx2.Client(transport=transport, **endpoint.http_options())

    def close(self) -> None:
        """Let go of the sockets."""
        self._http.close()

    def send(self, call: Call[T]) -> T:
        """Send a call and read its answer; try again where that is safe."""
        attempts = Attempts(self._rule, self.environment)
        while True:
            try:
                return self._send_once(call)
            except ClientProblem as problem:
                wait_s = attempts.wait_s(problem, repeatable=call.repeatable)
            self.environment.sleep(wait_s)

    def pages(self, paging: Paging[T]) -> Iterator[T]:
        """The items of a list, page by page as they are taken."""
        while not paging.is_over():
            yield from paging.accept(self.send(paging.call()))

    def follow(
        self,
        follower: StreamFollower[T],
        *,
        timeout_s: float | None = None,
        rule: RetryRule = STREAMS,
        on_retry: OnRetry | None = None,
    ) -> Iterator[T]:
        """What a stream brings, over broken connections, until it is over or time is up."""
        deadline = CallDeadline(timeout_s, self.environment)
        attempts = Attempts(rule, self.environment, on_retry=on_retry)
        while True:
            try:
                for event in self._events(follower, deadline):
                    item = follower.accept(event)
                    if item is not None or event.is_pulse:
                        attempts.succeeded()
                    if item is not None:
                        yield item
                if follower.is_over():
                    return
                problem: ClientProblem = Unreachable(f"the server at {self.endpoint.url} ended a stream too early")
            except ClientProblem as failed:
                problem = failed
            deadline.check()
            self.environment.sleep(attempts.wait_s(problem))

    def _send_once(self, call: Call[T]) -> T:
        request = self._http.build_request(call.method, call.path, **self.endpoint.request_options(call))
        with reaching(self.endpoint), RequestLine(call, self.environment) as line:
            answer = self._http.send(request)
            line.answered(answer.status_code, answer.headers)
        return interpret(call, status=answer.status_code, headers=answer.headers, content=answer.content)

    def _events(self, follower: StreamFollower[T], deadline: CallDeadline) -> Iterator[ServerEvent]:
        """The events of one connection, which is left when a further read could pass the deadline."""
        call, reader = follower.call(), EventReader()
        options = self.endpoint.stream_options(call, deadline.left_s())
        with (
            reaching(self.endpoint),
            RequestLine(call, self.environment) as line,
            self._http.stream(call.method, call.path, **options) as answer,
        ):
            line.answered(answer.status_code, answer.headers)
            if answer.status_code != 200:
                raise problem_of(status=answer.status_code, headers=answer.headers, content=answer.read())
            for text in answer.iter_text():
                yield from reader.feed(text)
                if outlasts(options, deadline.left_s()):
                    return
