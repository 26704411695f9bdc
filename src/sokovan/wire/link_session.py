"""Both ends of one link as state machines without clock, socket or task.

Frames go in, events and frames come out; the caller passes the time. The manager sends
requests and the agent answers them: answers are matched by number, at most
`in_flight_max` requests are open, and duplicate, late or unsolicited answers are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, auto
from typing import TypeAlias

from sokovan.wire.bundles import requests_of
from sokovan.wire.frames import (
    Command,
    Frame,
    Heartbeat,
    Hello,
    HelloRefused,
    Reply,
    ReportNow,
    Request,
    RequestBundle,
    RequestFailed,
    Response,
    Welcome,
)

IN_FLIGHT_MAX = 256
BUSY = "busy"


class LinkPhase(StrEnum):
    """The lifecycle of a link."""

    NEW = auto()
    AWAITING_WELCOME = auto()  # the Hello was sent, but not answered
    OPEN = auto()
    CLOSED = auto()


class LinkNotOpen(Exception):
    """A frame cannot be sent: the link is not open."""


class LinkBusy(Exception):
    """The limit of open requests on a link is reached."""


@dataclass(frozen=True, slots=True)
class HelloReceived:
    """The agent has sent its Hello: welcome or refuse it."""

    hello: Hello


@dataclass(frozen=True, slots=True)
class LinkEstablished:
    """The manager has accepted the agent."""

    welcome: Welcome


@dataclass(frozen=True, slots=True)
class HeartbeatReceived:
    """A heartbeat has arrived."""

    heartbeat: Heartbeat


@dataclass(frozen=True, slots=True)
class RequestSettled:
    """A request was answered, or timed out if `outcome` is None."""

    number: int
    outcome: Response | RequestFailed | None


@dataclass(frozen=True, slots=True)
class RequestReceived:
    """A request has arrived that must be answered."""

    request: Request


@dataclass(frozen=True, slots=True)
class LinkOverloaded:
    """A request was not accepted because too many are open; send `problem`."""

    problem: RequestFailed


@dataclass(frozen=True, slots=True)
class ReportRequested:
    """The manager requests a heartbeat now."""


@dataclass(frozen=True, slots=True)
class LinkEnded:
    """The link has ended: disconnect."""

    reason: str
    refusal: HelloRefused | None = None


ManagerEvent: TypeAlias = HelloReceived | HeartbeatReceived | RequestSettled | LinkEnded
AgentEvent: TypeAlias = LinkEstablished | RequestReceived | LinkOverloaded | ReportRequested | LinkEnded


class ManagerEnd:
    """The manager's end of a link."""

    def __init__(self, *, now_ms: int, hello_timeout_ms: int, in_flight_max: int = IN_FLIGHT_MAX) -> None:
        self.phase = LinkPhase.NEW
        self._number = 0
        self._in_flight_max = in_flight_max
        self._due_ms: dict[int, int] = {}
        self._idle_deadline_ms = now_ms + hello_timeout_ms
        self._idle_timeout_ms = hello_timeout_ms

    @property
    def next_due_ms(self) -> int:
        """When to call `expire`, if no frame arrives before."""
        return min([self._idle_deadline_ms, *self._due_ms.values()])

    def received(self, frame: Frame, *, now_ms: int) -> tuple[ManagerEvent, ...]:
        """The events of a received frame."""
        if self.phase is LinkPhase.CLOSED:
            return ()
        self._idle_deadline_ms = now_ms + self._idle_timeout_ms
        match self.phase, frame:
            case LinkPhase.NEW, Hello():
                self.phase = LinkPhase.AWAITING_WELCOME
                return (HelloReceived(frame),)
            case LinkPhase.OPEN, Heartbeat():
                return (HeartbeatReceived(frame),)
            case LinkPhase.OPEN, Response() | RequestFailed():
                # Otherwise the answer is a duplicate, or too late.
                known = self._due_ms.pop(frame.number, None) is not None
                return (RequestSettled(frame.number, frame),) if known else ()
        return self.close(f"unexpected {type(frame).__name__} on a link in phase {self.phase}")

    def welcome(self, welcome: Welcome, *, now_ms: int, timeout_ms: int) -> Frame:
        """Open the link; it ends after `timeout_ms` without a frame."""
        self._expect(LinkPhase.AWAITING_WELCOME)
        self.phase = LinkPhase.OPEN
        self._idle_timeout_ms = timeout_ms
        self._idle_deadline_ms = now_ms + timeout_ms
        return welcome

    def refuse(self, refusal: HelloRefused) -> Frame:
        """End the link with a refusal."""
        self.close(refusal.code)
        return refusal

    def request(self, command: Command, *, incarnation: int, now_ms: int, allowed_ms: int) -> Request:
        """A request to send. Raises LinkNotOpen, LinkBusy."""
        self._expect(LinkPhase.OPEN)
        if len(self._due_ms) >= self._in_flight_max:
            raise LinkBusy(f"{self._in_flight_max} requests are open")
        self._number += 1
        self._due_ms[self._number] = now_ms + allowed_ms
        return Request(number=self._number, incarnation=incarnation, allowed_ms=allowed_ms, command=command)

    def abandon(self, number: int) -> None:
        """Drop a request whose answer is no longer needed."""
        self._due_ms.pop(number, None)

    def postpone(self, milliseconds: int) -> None:
        """Extend all deadlines by the time in which the manager read no frames."""
        self._idle_deadline_ms += milliseconds
        self._due_ms = {number: due_ms + milliseconds for number, due_ms in self._due_ms.items()}

    def expire(self, *, now_ms: int) -> tuple[ManagerEvent, ...]:
        """Requests that have timed out, and the end of a link without frames."""
        if self.phase is LinkPhase.CLOSED:
            return ()
        if self.phase is LinkPhase.AWAITING_WELCOME:  # the manager has to answer
            return ()
        if now_ms >= self._idle_deadline_ms:
            return self.close("timeout: no frame from the agent")
        late = [number for number, due_ms in self._due_ms.items() if now_ms >= due_ms]
        for number in late:
            del self._due_ms[number]
        return tuple(RequestSettled(number, None) for number in late)

    def close(self, reason: str) -> tuple[ManagerEvent, ...]:
        """End the link; open requests are settled without an answer."""
        self.phase = LinkPhase.CLOSED
        unanswered, self._due_ms = self._due_ms, {}
        return (*(RequestSettled(number, None) for number in unanswered), LinkEnded(reason))

    def _expect(self, phase: LinkPhase) -> None:
        if self.phase is not phase:
            raise LinkNotOpen(f"the link is in phase {self.phase}, not {phase}")


class AgentEnd:
    """The agent's end of a link."""

    def __init__(self, *, in_flight_max: int = IN_FLIGHT_MAX) -> None:
        self.phase = LinkPhase.NEW
        self._last = 0
        self._in_flight_max = in_flight_max
        self._due_ms: dict[int, int] = {}

    def greet(self, hello: Hello) -> Frame:
        """The first frame to send."""
        if self.phase is not LinkPhase.NEW:
            raise LinkNotOpen(f"the link is in phase {self.phase}; the Hello is sent once")
        self.phase = LinkPhase.AWAITING_WELCOME
        return hello

    def received(self, frame: Frame, *, now_ms: int) -> tuple[AgentEvent, ...]:
        """The events of a received frame."""
        match self.phase, frame:
            case LinkPhase.CLOSED, _:
                return ()
            case LinkPhase.AWAITING_WELCOME, Welcome():
                self.phase = LinkPhase.OPEN
                return (LinkEstablished(frame),)
            case LinkPhase.AWAITING_WELCOME, HelloRefused():
                self.phase = LinkPhase.CLOSED
                return (LinkEnded(frame.message, frame),)
            case LinkPhase.OPEN, Request():
                return self._accept(frame, now_ms)
            case LinkPhase.OPEN, RequestBundle():
                return tuple(event for request in requests_of(frame) for event in self._accept(request, now_ms))
            case LinkPhase.OPEN, ReportNow():
                return (ReportRequested(),)
        return self._end(f"unexpected {type(frame).__name__} on a link in phase {self.phase}")

    def answer(self, number: int, reply: Reply, *, now_ms: int) -> Frame | None:
        """The answer to a request; None if it has timed out."""
        return Response(number, reply) if self._still_open(number, now_ms) else None

    def problem(self, number: int, code: str, message: str, *, now_ms: int) -> Frame | None:
        """The refusal of a request; None if it has timed out."""
        return RequestFailed(number, code, message) if self._still_open(number, now_ms) else None

    def _accept(self, request: Request, now_ms: int) -> tuple[AgentEvent, ...]:
        if request.number <= self._last:  # numbers increase, so this is a duplicate
            return ()
        self._last = request.number
        if len(self._due_ms) >= self._in_flight_max:
            self._due_ms = {number: due_ms for number, due_ms in self._due_ms.items() if due_ms > now_ms}
        if len(self._due_ms) >= self._in_flight_max:
            return (LinkOverloaded(RequestFailed(request.number, BUSY, f"{self._in_flight_max} requests are open")),)
        self._due_ms[request.number] = now_ms + request.allowed_ms
        return (RequestReceived(request),)

    def _still_open(self, number: int, now_ms: int) -> bool:
        due_ms = self._due_ms.pop(number, None)
        return self.phase is LinkPhase.OPEN and due_ms is not None and now_ms < due_ms

    def _end(self, reason: str) -> tuple[AgentEvent, ...]:
        self.phase = LinkPhase.CLOSED
        self._due_ms = {}
        return (LinkEnded(reason),)
