"""The link to one manager, reconnected for as long as the agent runs.

Outgoing data is bounded: one answer per open request, and one heartbeat, built when it
is sent. A manager that reads slowly receives fewer heartbeats, not stale ones.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from sokovan.domain.errors import InvalidInput
from sokovan.ports.environment import Clock
from sokovan.wire.frames import (
    LINK_PATH,
    Frame,
    Heartbeat,
    Hello,
    Reply,
    Request,
    RequestFailed,
    Response,
    Welcome,
)
from sokovan.wire.link_codec import FRAME_BYTES_MAX, MalformedFrame, decode, encode
from sokovan.wire.link_session import (
    AgentEnd,
    LinkEnded,
    LinkEstablished,
    LinkOverloaded,
    ReportRequested,
    RequestReceived,
)

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
OPEN_S = 10.0
# Longer than a manager takes to admit an agent while many others link: a retry begins with a new handshake.
HELLO_S = 30.0
# Both grow up to this many times: a manager that is late with many agents is not asked to begin anew with each of them.
PATIENCE_MAX = 8
# The longest delay that a manager may ask for.
RETRY_MOST_S = 60.0
SEND_S = 10.0
REASON_MAX = 500
# Code of an answer that does not fit into a frame.
TOO_LARGE = "answer-too-large"
# Changes within this time share a heartbeat.
HEARTBEAT_GAP_MS = 10
# A link that was open for at least this long counts as successful.
STABLE_AFTER_MS = 5_000


class UnsafeAddress(InvalidInput):
    """An address of a manager that would send a credential unencrypted."""

    code = "unsafe-address"
    hint = "use wss:// with the manager's certificate; ws:// is for managers on this machine only"


@dataclass(frozen=True, slots=True)
class ManagerAddress:
    """The address of a manager, and the agent's credential.

    `url` is ws(s)://host:port; ws to another machine needs `plaintext`, an explicit
    decision. `proxy` is the address of an HTTP proxy. `server_name` is the name in the
    manager's certificate, if it is not the host. An agent with a certificate has no token.
    """

    url: str
    token: str = field(repr=False)
    tls: ssl.SSLContext | None = None
    plaintext: bool = False
    proxy: str | None = None
    server_name: str = ""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in {"ws", "wss"} or not parts.hostname:
            raise UnsafeAddress(f"{self.url!r} is not the address of a manager", hint="write it as wss://host:port")
        if parts.scheme == "ws" and parts.hostname not in LOOPBACK and not self.plaintext:
            raise UnsafeAddress(f"{self.url!r} would send the agent's credential unencrypted")


def dialled(address: ManagerAddress, path: str, *, open_s: float = OPEN_S) -> connect:
    """A connection to a manager, as a context; raises OSError, WebSocketException."""
    named: dict[str, Any] = {"server_hostname": address.server_name} if address.server_name else {}
    return connect(
        address.url.rstrip("/") + path,
        additional_headers={"Authorization": f"Bearer {address.token}"} if address.token else None,
        user_agent_header="sokovan-agent",
        ssl=address.tls,
        proxy=address.proxy,
        compression=None,
        max_size=FRAME_BYTES_MAX,
        open_timeout=open_s,
        close_timeout=1,
        **named,
    )


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff from `first_s` to `most_s`, with jitter of up to a half.

    Without jitter all agents of a cluster would reconnect at the same moment.
    `welcomed_most_s` limits the delay for a manager that accepted the last connection.
    """

    first_s: float = 0.2
    most_s: float = 30.0
    welcomed_most_s: float = 5.0

    def delay_s(self, failures: int, *, jitter: float, welcomed: bool = False) -> float:
        """The delay after this many failures in a row; `jitter` is in [0, 1).

        >>> Backoff(first_s=1, most_s=10).delay_s(2, jitter=1.0)
        4.0
        """
        most_s = min(self.most_s, self.welcomed_most_s) if welcomed else self.most_s
        return min(most_s, self.first_s * 2.0 ** min(failures, 32)) * (0.5 + jitter / 2)


@dataclass(slots=True)
class LinkAttempt:
    """The result of a dial: when the link opened, or why it did not.

    `late` is that the manager did not answer in time; `retry_s` is the delay that it asks for,
    if it does.
    """

    opened_ms: int | None = None
    final: bool = False
    late: bool = False
    retry_s: float = 0.0


class Reconnects:
    """Counts failed connections to one manager and gives the next delay.

    A welcome resets the failures. Links that break soon after it are counted separately,
    so that a crashing manager is not flooded. `patience` is how many times as long as usual
    the manager may take to answer: twice as long after each time that it was late.
    """

    def __init__(self, backoff: Backoff) -> None:
        self.backoff = backoff
        self.patience = 1
        self._failed = 0
        self._short_lived = 0

    def note(self, attempt: LinkAttempt) -> None:
        """Take into account whether the manager was late."""
        if attempt.late:
            self.patience = min(PATIENCE_MAX, 2 * self.patience)
        elif attempt.opened_ms is not None:
            self.patience = 1

    def delay_s(self, lasted_ms: int | None, *, jitter: float) -> float:
        """The delay after a link that lasted this long; None if it never opened."""
        if lasted_ms is None:
            self._failed += 1
            return self.backoff.delay_s(self._failed - 1, jitter=jitter)
        self._failed, self._short_lived = 0, 0 if lasted_ms >= STABLE_AFTER_MS else self._short_lived + 1
        return self.backoff.delay_s(max(0, self._short_lived - 1), jitter=jitter, welcomed=True)


class LinkHandler(Protocol):
    """The agent, as seen by its links."""

    def hello(self) -> Hello:
        """The first frame of a link."""

    def heartbeat(self) -> Heartbeat:
        """The current kernels, images and load."""

    def opened(self, link: ManagerLink, welcome: Welcome) -> None:
        """A manager has accepted the agent."""

    def requested(self, link: ManagerLink, request: Request) -> None:
        """Handle a request of a manager."""

    def closed(self, link: ManagerLink) -> None:
        """The link was closed; it reconnects."""

    def log(self, line: str) -> None:
        """Log a line for the operator."""


class ManagerLink:
    """The link to one manager.

    `number` is set by the handler, anew for each opening.
    """

    def __init__(
        self, address: ManagerAddress, handler: LinkHandler, clock: Clock, *, jitter: Callable[[], float]
    ) -> None:
        self.number = 0
        self.address, self._handler, self._clock, self._jitter = address, handler, clock, jitter
        self._session = AgentEnd()
        self._answers: deque[Frame] = deque()
        self._heartbeat_due = False
        self._heartbeat_s = 0.0
        self._wake = asyncio.Event()

    async def run(self, *, backoff: Backoff | None = None) -> None:
        """Connect and reconnect until cancelled."""
        reconnects = Reconnects(backoff or Backoff())
        while True:
            attempt = await self._serve_link(reconnects.patience)
            reconnects.note(attempt)
            opened_ms, jitter = attempt.opened_ms, self._jitter()
            lasted_ms = self._clock.monotonic_ms() - opened_ms if opened_ms is not None else None
            delay_s = reconnects.delay_s(lasted_ms, jitter=jitter)
            if attempt.retry_s:
                delay_s = attempt.retry_s * (0.5 + jitter)
            await self._clock.sleep(reconnects.backoff.most_s if attempt.final else delay_s)

    def answer(self, number: int, reply: Reply) -> None:
        """Answer a request, unless it has timed out."""
        self._queue(self._session.answer(number, reply, now_ms=self._clock.monotonic_ms()))

    def problem(self, number: int, code: str, message: str) -> None:
        """Refuse a request, unless it has timed out."""
        self._queue(self._session.problem(number, code, message, now_ms=self._clock.monotonic_ms()))

    def send_heartbeat(self) -> None:
        """Send a heartbeat soon."""
        self._heartbeat_due = True
        self._wake.set()

    async def _serve_link(self, patience: int) -> LinkAttempt:
        """One connection, from its dial to its end."""
        self._session, self._answers, self._heartbeat_due = AgentEnd(), deque(), False
        attempt = LinkAttempt()
        try:
            async with dialled(self.address, LINK_PATH, open_s=patience * OPEN_S) as socket:
                ended = await self._exchange_hello(socket, patience * HELLO_S)
                if ended is not None:
                    self._handler.log(f"{self.address.url} refuses this agent: {ended.reason}")
                    attempt.final = ended.refusal is not None and ended.refusal.final
                    return attempt
                attempt.opened_ms = self._clock.monotonic_ms()
                try:
                    await self._exchange_frames(socket)
                finally:
                    self._handler.closed(self)
        except InvalidStatus as refused:
            reason = refused.response.body.decode(errors="replace").strip()[:REASON_MAX]
            attempt.retry_s = _asked_delay_s(refused.response.headers.get("Retry-After", ""))
            self._handler.log(f"{self.address.url} refuses this agent: {reason or refused}")
        except (OSError, TimeoutError, WebSocketException, MalformedFrame) as problem:
            attempt.late = isinstance(problem, TimeoutError) and attempt.opened_ms is None
            self._handler.log(f"{self.address.url}: {str(problem) or type(problem).__name__}")
        return attempt

    async def _exchange_hello(self, socket: ClientConnection, within_s: float) -> LinkEnded | None:
        async with asyncio.timeout(within_s):
            await socket.send(encode(self._session.greet(self._handler.hello())))
            [event] = self._received(await socket.recv(decode=False))
        if isinstance(event, LinkEstablished):
            self._heartbeat_s = event.welcome.heartbeat_s
            self._handler.opened(self, event.welcome)
            return None
        return event if isinstance(event, LinkEnded) else LinkEnded(f"an unexpected {type(event).__name__}")

    async def _exchange_frames(self, socket: ClientConnection) -> None:
        tasks = {asyncio.ensure_future(self._receive_frames(socket)), asyncio.ensure_future(self._send_frames(socket))}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _receive_frames(self, socket: ClientConnection) -> None:
        while True:
            try:
                content = await socket.recv(decode=False)
            except ConnectionClosed:
                return
            for event in self._received(content):
                match event:
                    case RequestReceived():
                        self._handler.requested(self, event.request)
                    case LinkOverloaded():
                        self._queue(event.problem)
                    case ReportRequested():
                        self.send_heartbeat()
                    case LinkEnded():
                        self._handler.log(f"{self.address.url}: {event.reason}")
                        return
                    case _:
                        pass

    def _received(self, content: bytes) -> tuple[object, ...]:
        return self._session.received(decode(content), now_ms=self._clock.monotonic_ms())

    async def _send_frames(self, socket: ClientConnection) -> None:
        last_ms = self._clock.monotonic_ms()
        while True:
            while self._answers:
                await self._send(socket, self._answers.popleft())
            now_ms = self._clock.monotonic_ms()
            due_ms = last_ms + (HEARTBEAT_GAP_MS if self._heartbeat_due else round(self._heartbeat_s * 1000))
            if now_ms >= due_ms:
                self._heartbeat_due, last_ms = False, now_ms
                await self._send(socket, self._handler.heartbeat())
                continue
            await self._wait_for_work((due_ms - now_ms) / 1000)

    async def _send(self, socket: ClientConnection, frame: Frame) -> None:
        try:
            content = encode(frame)
        except MalformedFrame as problem:
            if not isinstance(frame, Response):
                raise
            content = encode(RequestFailed(frame.number, TOO_LARGE, str(problem)))  # the link outlasts one answer
        async with asyncio.timeout(SEND_S):
            await socket.send(content)

    async def _wait_for_work(self, seconds: float) -> None:
        """Return when there is something to send, or after this many seconds."""
        self._wake.clear()
        if self._answers:
            return
        signalled = asyncio.ensure_future(self._wake.wait())
        elapsed = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait({signalled, elapsed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (signalled, elapsed):
                task.cancel()

    def _queue(self, frame: Frame | None) -> None:
        if frame is not None:
            self._answers.append(frame)
            self._wake.set()


def _asked_delay_s(text: str) -> float:
    """The seconds of a Retry-After; 0 if it has none."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= len("86400")
    return min(RETRY_MOST_S, float(text)) if is_number else 0.0
