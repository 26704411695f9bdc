"""Connection of the async client: sends requests and retries those that are safe."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
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
from sokovan.sdk.http.aio import AsyncHttp, AsyncTransport
from sokovan.sdk.request_log import RequestLine

T = TypeVar("T")


class AsyncConnection:
    """HTTP connection to one server; may be shared by several tasks."""

    def __init__(
        self,
        endpoint: ServerEndpoint,
        *,
        transport: AsyncTransport | None = None,
        rule: RetryRule | None = None,
        environment: ClientEnvironment | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.environment = environment or SystemEnvironment()
        self._rule = rule or RetryRule()
        # A proxy cannot reach the loopback address.
        self._http = AsyncHttp(endpoint.url, proxies=not endpoint.is_loopback, ca=endpoint.ca, transport=transport)

    async def close(self) -> None:
        """Close the sockets."""
        await self._http.close()

    async def send(self, call: Call[T]) -> T:
        """Send a request and decode its response; retry where that is safe."""
        attempts = Attempts(self._rule, self.environment)
        while True:
            try:
                return await self._send_once(call)
            except ClientProblem as problem:
                wait_s = attempts.wait_s(problem, repeatable=call.repeatable)
            await self.environment.async_sleep(wait_s)

    async def pages(self, paging: Paging[T]) -> AsyncIterator[T]:
        """Yield the items of a list, fetching pages as they are consumed."""
        while not paging.is_over():
            for item in paging.accept(await self.send(paging.call())):
                yield item

    async def follow(
        self,
        follower: StreamFollower[T],
        *,
        timeout_s: float | None = None,
        rule: RetryRule = STREAMS,
        on_retry: OnRetry | None = None,
    ) -> AsyncGenerator[T, None]:
        """Yield the items of a stream, reconnecting, until its end or the timeout."""
        deadline = CallDeadline(timeout_s, self.environment)
        attempts = Attempts(rule, self.environment, on_retry=on_retry)
        while True:
            try:
                async for event in self._events(follower, deadline):
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
            await self.environment.async_sleep(attempts.wait_s(problem))

    async def _send_once(self, call: Call[T]) -> T:
        exchange = self._http.exchange(self.endpoint.request(call))
        with reaching(self.endpoint), RequestLine(call, self.environment) as line:
            async with exchange as response:
                content = await response.aread()
            line.responded(response.status_code, response.headers)
        return interpret(call, status=response.status_code, headers=response.headers, content=content)

    async def _events(self, follower: StreamFollower[T], deadline: CallDeadline) -> AsyncIterator[ServerEvent]:
        """The events of one connection; stops when another read could pass the deadline."""
        call, reader = follower.call(), EventReader()
        request = self.endpoint.stream(call, deadline.left_s())
        stream = self._http.exchange(request)
        with reaching(self.endpoint), RequestLine(call, self.environment) as line:
            async with stream as response:
                status, headers = response.status_code, response.headers
                line.responded(status, headers)
                if status != 200:
                    raise problem_of(status=status, headers=headers, content=await response.aread())
                async for text in response.aiter_text():
                    for event in reader.feed(text):
                        yield event
                    if outlasts(request, deadline.left_s()):
                        return
