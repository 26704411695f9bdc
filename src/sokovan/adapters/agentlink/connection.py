"""The manager's end of one link: sends requests, receives answers and heartbeats."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sokovan.adapters.agentlink.duplex import Duplex
from sokovan.ports.environment import Clock
from sokovan.wire.bundles import bundles_of, requests_of
from sokovan.wire.frames import (
    Command,
    Frame,
    Heartbeat,
    Hello,
    HelloRefused,
    ReportNow,
    Request,
    RequestBundle,
    RequestFailed,
    Response,
    Welcome,
)
from sokovan.wire.link_codec import MalformedFrame, decode, encode
from sokovan.wire.link_session import (
    IN_FLIGHT_MAX,
    HeartbeatReceived,
    HelloReceived,
    LinkEnded,
    LinkPhase,
    ManagerEnd,
    ManagerEvent,
    RequestSettled,
)

WATCH_S, WATCH_LEAST_S = 0.5, 0.001
# A wait that takes longer than this shows that the event loop was busy.
LATE_MS = 250


@dataclass(frozen=True, slots=True)
class LinkLimits:
    """Timeouts and limits of links.

    A link ends after `heartbeats_missed` heartbeat periods without a frame, or without the
    answer to a ping. At most `unadmitted_max` links may wait for admission.
    """

    hello_s: float = 30.0
    admission_s: float = 20.0
    send_s: float = 10.0
    request_s: float = 10.0
    heartbeats_missed: int = 3
    in_flight_max: int = IN_FLIGHT_MAX
    unadmitted_max: int = 4096


class LinkWatch:
    """Ends links whose time has passed: one task for all links of a manager.

    One for each would wake twice a second, which takes more time than the heartbeats.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._links: dict[AgentConnection, None] = {}
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def over(self, link: AgentConnection) -> Iterator[None]:
        """Watch a link until left."""
        self._links[link] = None
        if self._task is None:
            self._task = asyncio.ensure_future(self._watch())
        try:
            yield
        finally:
            del self._links[link]
            if not self._links:
                self._task.cancel()
                self._task = None

    async def _watch(self) -> None:
        while True:
            began_ms = self._clock.monotonic_ms()
            due_ms = min(link.next_due_ms for link in self._links)
            wait_s = min(WATCH_S, max(WATCH_LEAST_S, (due_ms - began_ms) / 1000))
            await self._clock.sleep(wait_s)
            now_ms = self._clock.monotonic_ms()
            late_ms = now_ms - began_ms - round(wait_s * 1000)
            for link in list(self._links):
                # If the event loop was busy, frames may have arrived that it has not read.
                link.expire(now_ms, late_ms=late_ms if late_ms > LATE_MS else 0)


class AgentConnection:
    """An open link to one agent.

    Only the latest unprocessed heartbeat is kept: each contains the complete state. It is
    kept back while a ping is not answered: an agent that hears nothing is not reachable.
    """

    def __init__(self, duplex: Duplex, clock: Clock, limits: LinkLimits, watch: LinkWatch | None = None) -> None:
        self.incarnation = 0
        self.token = ""
        self.ended = ""
        self.measures = False
        self._duplex, self._clock, self._limits, self._watch = duplex, clock, limits, watch or LinkWatch(clock)
        self._session = ManagerEnd(
            now_ms=clock.monotonic_ms(),
            hello_timeout_ms=round(limits.hello_s * 1000),
            in_flight_max=limits.in_flight_max,
        )
        self._waiting: dict[int, asyncio.Future[Response | RequestFailed | None]] = {}
        self._sending = asyncio.Lock()
        self._bundles = False
        self._unsent: list[Request] = []
        self._flushing = asyncio.Lock()
        self._latest: Heartbeat | None = None
        self._heartbeat_arrived = asyncio.Event()
        self._heartbeat_s = 0.0
        self._opened, self._hears = asyncio.Event(), asyncio.Event()
        self._hears.set()
        self._ended_event = asyncio.Event()
        self._hello: asyncio.Future[Hello | None] = asyncio.get_running_loop().create_future()

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._session.phase is LinkPhase.OPEN

    @property
    def next_due_ms(self) -> int:
        """When the link or a request on it expires."""
        return self._session.next_due_ms

    def expire(self, now_ms: int, *, late_ms: int) -> None:
        """End the link if its time has passed, which is later by `late_ms`."""
        if self._session.phase is LinkPhase.CLOSED:
            return
        if late_ms:
            self._session.postpone(late_ms)
        self._apply(self._session.expire(now_ms=now_ms))

    async def run(self, serve: Callable[[], Awaitable[object]]) -> None:
        """Process frames until the link ends, with `serve` running concurrently."""
        works = (self._listen(), self._check_hearing(), serve())
        tasks = [asyncio.ensure_future(work) for work in works]
        ends = asyncio.ensure_future(self._ended_event.wait())
        try:
            with self._watch.over(self):
                await asyncio.wait({*tasks, ends}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.close("the link was closed")
            for task in (*tasks, ends):
                task.cancel()
            await asyncio.gather(*tasks, ends, return_exceptions=True)
        for task in tasks:
            if not task.cancelled():
                task.result()

    async def hello(self) -> Hello | None:
        """The agent's Hello; None if the link ended without one."""
        return await self._hello

    async def welcome(self, welcome: Welcome) -> None:
        """Open the link."""
        timeout_ms = round(self._limits.heartbeats_missed * welcome.heartbeat_s * 1000)
        frame = self._session.welcome(welcome, now_ms=self._clock.monotonic_ms(), timeout_ms=timeout_ms)
        self.incarnation, self._heartbeat_s = welcome.incarnation, welcome.heartbeat_s
        await self._send(frame)
        self._opened.set()

    async def refuse(self, refusal: HelloRefused) -> None:
        """End the link with a refusal."""
        if self._session.phase is not LinkPhase.CLOSED:
            frame = self._session.refuse(refusal)
            await self._send(frame)
        self._end(refusal.message)

    async def heartbeat(self) -> Heartbeat:
        """The latest heartbeat that was not processed yet."""
        while self._latest is None:
            self._heartbeat_arrived.clear()
            await self._heartbeat_arrived.wait()
        await self._hears.wait()
        latest, self._latest = self._latest, None
        return latest

    async def request(self, command: Command, *, incarnation: int, allowed_s: float) -> Response | RequestFailed | None:
        """Send a request; returns its answer, or None after a timeout.

        Raises LinkNotOpen, LinkBusy, MalformedFrame.
        """
        request = self._session.request(
            command, incarnation=incarnation, now_ms=self._clock.monotonic_ms(), allowed_ms=round(allowed_s * 1000)
        )
        answer: asyncio.Future[Response | RequestFailed | None] = asyncio.get_running_loop().create_future()
        self._waiting[request.number] = answer
        self._unsent.append(request)
        try:
            await self._send_requests()
            return await answer
        finally:
            self._session.abandon(request.number)
            self._waiting.pop(request.number, None)

    async def _send_requests(self) -> None:
        """Send the requests that wait: those that began in the same turn of the loop together."""
        await asyncio.sleep(0)  # yields to the others, and does not wait
        # One at a time, in the order of their numbers: an agent discards a request whose number is not above the last.
        async with self._flushing:
            requests, self._unsent, sent = self._unsent, [], 0
            try:
                for frame in bundles_of(requests) if self._bundles else requests:
                    await self._send_whole(frame)
                    sent += len(frame.requests) if isinstance(frame, RequestBundle) else 1
            finally:
                # If this was cancelled, the next in line sends the rest; the agent discards what it has already.
                self._unsent[:0] = requests[sent:]

    async def _send_whole(self, frame: Frame) -> None:
        try:
            await self._send(frame)
        except MalformedFrame as problem:  # too large
            await self._send_alone(frame, problem)

    async def _send_alone(self, frame: Frame, problem: MalformedFrame) -> None:
        """Send the requests of a frame that is too large by themselves; fails those that are."""
        for request in requests_of(frame) if isinstance(frame, RequestBundle) else ():
            try:
                await self._send(request)
            except MalformedFrame as too_large:
                self._fail(request.number, too_large)
        if isinstance(frame, Request):
            self._fail(frame.number, problem)

    def _fail(self, number: int, problem: MalformedFrame) -> None:
        waiting = self._waiting.get(number)
        if waiting is not None and not waiting.done():
            waiting.set_exception(problem)

    async def report_now(self) -> None:
        """Request a heartbeat now."""
        if self.is_open:
            await self._send(ReportNow())

    def close(self, reason: str) -> None:
        """End the link; open requests get no answer."""
        if self._session.phase is not LinkPhase.CLOSED:
            self._apply(self._session.close(reason))

    async def _listen(self) -> None:
        while self._session.phase is not LinkPhase.CLOSED:
            try:
                content = await self._duplex.receive()
            except ConnectionError as problem:
                self.close(str(problem))
                return
            if content is None:
                self.close("the agent disconnected")
                return
            try:
                self._apply(self._session.received(decode(content), now_ms=self._clock.monotonic_ms()))
            except MalformedFrame as problem:
                await self.refuse(HelloRefused(code=problem.code, message=str(problem), final=True))

    async def _check_hearing(self) -> None:
        """Ping the agent in each heartbeat period; end the link if it does not answer.

        Periods are counted, and not the time: while the event loop is busy no answer is read.
        """
        await self._opened.wait()
        while self.is_open:
            answered = asyncio.ensure_future(self._duplex.ping())
            answered.add_done_callback(self._ping_settled)
            try:
                for _ in range(self._limits.heartbeats_missed):
                    await self._clock.sleep(self._heartbeat_s)
                    if answered.done():
                        break
                    self._hears.clear()
                else:
                    self.close("the agent does not hear this manager")
                    return
            finally:
                answered.cancel()
            if answered.exception() is not None:
                self.close("the agent disconnected")

    def _ping_settled(self, ping: asyncio.Future[None]) -> None:
        if not ping.cancelled() and ping.exception() is None:
            self._hears.set()

    def _apply(self, events: Iterable[ManagerEvent]) -> None:
        for event in events:
            match event:
                case HelloReceived():
                    self._bundles = event.hello.bundles
                    self.measures = event.hello.measures
                    self._hello.set_result(event.hello)
                case HeartbeatReceived():
                    self._latest = event.heartbeat
                    self._heartbeat_arrived.set()
                case RequestSettled():
                    waiting = self._waiting.get(event.number)
                    if waiting is not None and not waiting.done():
                        waiting.set_result(event.outcome)
                case LinkEnded():
                    self._end(event.reason)

    def _end(self, reason: str) -> None:
        self.ended = self.ended or reason
        if not self._hello.done():
            self._hello.set_result(None)
        self._ended_event.set()

    async def _send(self, frame: Frame) -> None:
        content = encode(frame)
        try:
            async with asyncio.timeout(self._limits.send_s), self._sending:
                await self._duplex.send(content)
        except (ConnectionError, TimeoutError) as problem:
            self.close(str(problem) or "the agent does not read its connection")
