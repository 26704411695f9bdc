"""A link to one manager, dialled again for as long as the agent lives.

What goes out is bounded: an answer for each open request, and one heartbeat, which is
made when it is sent. A manager that reads slowly gets fewer heartbeats, not old ones.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from sokovan.agent.link.backoff import Backoff, Redialling
from sokovan.domain.errors import InvalidInput
from sokovan.ports.environment import Clock
from sokovan.wire.frames import LINK_PATH, Frame, Heartbeat, Hello, HelloRefused, Reply, Request, Welcome
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
SEND_S = 10.0
WORDS_MAX = 500
# Changes that come close together share a heartbeat.
HEARTBEAT_GAP_MS = 10


class UnsafeAddress(InvalidInput):
    """A manager's address over which a credential would travel in the clear."""

    code = "unsafe-address"
    hint = "use wss:// with the manager's certificate; ws:// is for managers on this machine only"


@dataclass(frozen=True, slots=True)
class ManagerAddress:
    """Where a manager is, and the credential it takes.

    `url` is ws(s)://host:port; ws to another machine needs `plaintext`, a decision
    that somebody has to write down. `proxy` is the address of an HTTP proxy.
    """

    url: str
    token: str = field(repr=False)
    tls: ssl.SSLContext | None = None
    plaintext: bool = False
    proxy: str | None = None

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in {"ws", "wss"} or not parts.hostname:
            raise UnsafeAddress(f"{self.url!r} is not the address of a manager", hint="write it as wss://host:port")
        if parts.scheme == "ws" and parts.hostname not in LOOPBACK and not self.plaintext:
            raise UnsafeAddress(f"{self.url!r} would carry the agent's credential in the clear")


def dialled(address: ManagerAddress, path: str) -> connect:
    """A socket to a manager, to be entered; raises OSError, WebSocketException."""
    return connect(
        address.url.rstrip("/") + path,
        additional_headers={"Authorization": f"Bearer {address.token}"},
        user_agent_header="sokovan-agent",
        ssl=address.tls,
        proxy=address.proxy,
        compression=None,
        max_size=FRAME_BYTES_MAX,
        open_timeout=OPEN_S,
        close_timeout=1,
    )


class LinkHandler(Protocol):
    """The agent, as its links see it."""

    def hello(self) -> Hello:
        """What to begin with."""

    def heartbeat(self) -> Heartbeat:
        """What runs now."""

    def opened(self, link: ManagerLink, welcome: Welcome) -> None:
        """A manager has welcomed the agent."""

    def asked(self, link: ManagerLink, request: Request) -> None:
        """A manager wants something."""

    def closed(self, link: ManagerLink) -> None:
        """The link is over; it will be dialled again."""

    def tell(self, line: str) -> None:
        """Something that people may want to know."""


class ManagerLink:
    """One manager, kept in touch with.

    `number` is the duty's own, one for each time that the link opens.
    """

    def __init__(
        self, address: ManagerAddress, duty: LinkHandler, clock: Clock, *, chance: Callable[[], float]
    ) -> None:
        self.number = 0
        self.address, self._duty, self._clock, self._chance = address, duty, clock, chance
        self._session = AgentEnd()
        self._answers: deque[Frame] = deque()
        self._beat_wanted = False
        self._beat_s = 0.0
        self._wake = asyncio.Event()

    async def run(self, *, backoff: Backoff | None = None) -> None:
        """Dial, talk, and dial again, for ever."""
        redialling = Redialling(backoff or Backoff())
        while True:
            opened_ms, refusal = await self._one_link()
            lasted_ms = self._clock.monotonic_ms() - opened_ms if opened_ms is not None else None
            pause_s = redialling.pause_s(lasted_ms, chance=self._chance())
            final = refusal is not None and refusal.final
            await self._clock.sleep(redialling.backoff.most_s if final else pause_s)

    def answer(self, number: int, reply: Reply) -> None:
        """Answer a request, if somebody still waits for it."""
        self._queue(self._session.answer(number, reply, now_ms=self._clock.monotonic_ms()))

    def problem(self, number: int, code: str, message: str) -> None:
        """Say why a request is not done, if somebody still waits for it."""
        self._queue(self._session.problem(number, code, message, now_ms=self._clock.monotonic_ms()))

    def beat(self) -> None:
        """Send a heartbeat soon."""
        self._beat_wanted = True
        self._wake.set()

    async def _one_link(self) -> tuple[int | None, HelloRefused | None]:
        """From dialling to the end; when it opened, and how it was refused."""
        self._session, self._answers, self._beat_wanted = AgentEnd(), deque(), False
        opened_ms: int | None = None
        try:
            async with dialled(self.address, LINK_PATH) as socket:
                ended = await self._greet(socket)
                if ended is not None:
                    self._duty.tell(f"{self.address.url} refuses this agent: {ended.reason}")
                    return None, ended.refusal
                opened_ms = self._clock.monotonic_ms()
                try:
                    await self._talk(socket)
                finally:
                    self._duty.closed(self)
        except InvalidStatus as refused:
            words = refused.response.body.decode(errors="replace").strip()[:WORDS_MAX]
            self._duty.tell(f"{self.address.url} refuses this agent: {words or refused}")
        except (OSError, TimeoutError, WebSocketException, MalformedFrame) as problem:
            self._duty.tell(f"{self.address.url}: {str(problem) or type(problem).__name__}")
        return opened_ms, None

    async def _greet(self, socket: ClientConnection) -> LinkEnded | None:
        async with asyncio.timeout(OPEN_S):
            await socket.send(encode(self._session.greet(self._duty.hello())))
            [event] = self._heard(await socket.recv(decode=False))
        if isinstance(event, LinkEstablished):
            self._beat_s = event.welcome.heartbeat_s
            self._duty.opened(self, event.welcome)
            return None
        return event if isinstance(event, LinkEnded) else LinkEnded(f"an unexpected {type(event).__name__}")

    async def _talk(self, socket: ClientConnection) -> None:
        both = {asyncio.ensure_future(self._listen(socket)), asyncio.ensure_future(self._speak(socket))}
        try:
            done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)

    async def _listen(self, socket: ClientConnection) -> None:
        while True:
            try:
                content = await socket.recv(decode=False)
            except ConnectionClosed:
                return
            for event in self._heard(content):
                match event:
                    case RequestReceived():
                        self._duty.asked(self, event.request)
                    case LinkOverloaded():
                        self._queue(event.problem)
                    case ReportRequested():
                        self.beat()
                    case LinkEnded():
                        self._duty.tell(f"{self.address.url}: {event.reason}")
                        return
                    case _:
                        pass

    def _heard(self, content: bytes) -> tuple[object, ...]:
        return self._session.received(decode(content), now_ms=self._clock.monotonic_ms())

    async def _speak(self, socket: ClientConnection) -> None:
        last_ms = self._clock.monotonic_ms()
        while True:
            while self._answers:
                await self._send(socket, self._answers.popleft())
            now_ms = self._clock.monotonic_ms()
            due_ms = last_ms + (HEARTBEAT_GAP_MS if self._beat_wanted else round(self._beat_s * 1000))
            if now_ms >= due_ms:
                self._beat_wanted, last_ms = False, now_ms
                await self._send(socket, self._duty.heartbeat())
                continue
            await self._woken((due_ms - now_ms) / 1000)

    async def _send(self, socket: ClientConnection, frame: Frame) -> None:
        async with asyncio.timeout(SEND_S):
            await socket.send(encode(frame))

    async def _woken(self, seconds: float) -> None:
        """Return when there is something to send, or after so long."""
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
