"""Both ends of one link as state machines without clock, socket or task.

Frames go in, events and frames come out; time is a number that the caller passes. The
manager asks and the agent answers: an answer is matched by its number, at most
`in_flight_max` requests are open, and what comes twice, late or unasked is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, auto
from typing import TypeAlias

from sokovan.wire.frames import (
    Ask,
    Frame,
    Heartbeat,
    Hello,
    HelloRefused,
    Reply,
    ReportNow,
    Request,
    RequestFailed,
    Response,
    Welcome,
)

IN_FLIGHT_MAX = 256
BUSY = "busy"


class LinkPhase(StrEnum):
    """Where a link is in its life."""

    NEW = auto()
    GREETED = auto()  # the Hello is out, the answer is not
    OPEN = auto()
    CLOSED = auto()


class LinkNotOpen(Exception):
    """Something was to be sent on a link that is not open."""


class LinkBusy(Exception):
    """As many requests are open on a link as there may be."""


@dataclass(frozen=True, slots=True)
class HelloReceived:
    """The agent has said Hello: welcome or refuse it."""

    hello: Hello


@dataclass(frozen=True, slots=True)
class LinkEstablished:
    """The manager has welcomed the agent."""

    welcome: Welcome


@dataclass(frozen=True, slots=True)
class HeartbeatReceived:
    """A heartbeat has come."""

    heartbeat: Heartbeat


@dataclass(frozen=True, slots=True)
class RequestSettled:
    """A request of ours has its answer; None: it did not come in time."""

    number: int
    outcome: Response | RequestFailed | None


@dataclass(frozen=True, slots=True)
class RequestReceived:
    """A request has come that must be answered."""

    request: Request


@dataclass(frozen=True, slots=True)
class LinkOverloaded:
    """A request was not taken, for too many are open; send this."""

    problem: RequestFailed


@dataclass(frozen=True, slots=True)
class ReportRequested:
    """The manager wants a heartbeat now."""


@dataclass(frozen=True, slots=True)
class LinkEnded:
    """The link is over: hang up."""

    reason: str
    refusal: HelloRefused | None = None


ManagerEvent: TypeAlias = HelloReceived | HeartbeatReceived | RequestSettled | LinkEnded
AgentEvent: TypeAlias = LinkEstablished | RequestReceived | LinkOverloaded | ReportRequested | LinkEnded


class ManagerEnd:
    """The manager's end of a link."""

    def __init__(self, *, now_ms: int, greeting_ms: int, in_flight_max: int = IN_FLIGHT_MAX) -> None:
        self.phase = LinkPhase.NEW
        self._number = 0
        self._in_flight_max = in_flight_max
        self._due_ms: dict[int, int] = {}
        self._silent_at_ms = now_ms + greeting_ms
        self._silence_ms = greeting_ms

    @property
    def in_flight(self) -> int:
        """How many requests wait for their answer."""
        return len(self._due_ms)

    @property
    def next_due_ms(self) -> int:
        """When `expire` has something to do, if nothing comes before."""
        return min([self._silent_at_ms, *self._due_ms.values()])

    def received(self, frame: Frame, *, now_ms: int) -> tuple[ManagerEvent, ...]:
        """What a frame means."""
        if self.phase is LinkPhase.CLOSED:
            return ()
        self._silent_at_ms = now_ms + self._silence_ms
        match self.phase, frame:
            case LinkPhase.NEW, Hello():
                self.phase = LinkPhase.GREETED
                return (HelloReceived(frame),)
            case LinkPhase.OPEN, Heartbeat():
                return (HeartbeatReceived(frame),)
            case LinkPhase.OPEN, Response() | RequestFailed():
                # One that nobody waits for came twice, or too late.
                known = self._due_ms.pop(frame.number, None) is not None
                return (RequestSettled(frame.number, frame),) if known else ()
        return self.close(f"a {type(frame).__name__} is out of place on a link that is {self.phase}")

    def welcome(self, welcome: Welcome, *, now_ms: int, silence_ms: int) -> Frame:
        """Open the link; it ends by itself after `silence_ms` without a frame."""
        self._expect(LinkPhase.GREETED)
        self.phase = LinkPhase.OPEN
        self._silence_ms = silence_ms
        self._silent_at_ms = now_ms + silence_ms
        return welcome

    def refuse(self, refusal: HelloRefused) -> Frame:
        """End the link with a word why."""
        self.close(refusal.code)
        return refusal

    def ask(self, ask: Ask, *, incarnation: int, now_ms: int, allowed_ms: int) -> Request:
        """A request to send. Raises LinkNotOpen, LinkBusy."""
        self._expect(LinkPhase.OPEN)
        if len(self._due_ms) >= self._in_flight_max:
            raise LinkBusy(f"{self._in_flight_max} requests are open")
        self._number += 1
        self._due_ms[self._number] = now_ms + allowed_ms
        return Request(number=self._number, incarnation=incarnation, allowed_ms=allowed_ms, ask=ask)

    def abandon(self, number: int) -> None:
        """Nobody waits for this answer any more."""
        self._due_ms.pop(number, None)

    def expire(self, *, now_ms: int) -> tuple[ManagerEvent, ...]:
        """What is too late now."""
        if self.phase is LinkPhase.CLOSED:
            return ()
        if self.phase is LinkPhase.GREETED:  # it is our turn to speak
            return ()
        if now_ms >= self._silent_at_ms:
            return self.close("the agent was silent for too long")
        late = [number for number, due_ms in self._due_ms.items() if now_ms >= due_ms]
        for number in late:
            del self._due_ms[number]
        return tuple(RequestSettled(number, None) for number in late)

    def close(self, reason: str) -> tuple[ManagerEvent, ...]:
        """End the link; every open request is settled without an answer."""
        self.phase = LinkPhase.CLOSED
        unanswered, self._due_ms = self._due_ms, {}
        return (*(RequestSettled(number, None) for number in unanswered), LinkEnded(reason))

    def _expect(self, phase: LinkPhase) -> None:
        if self.phase is not phase:
            raise LinkNotOpen(f"the link is {self.phase}, not {phase}")


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
            raise LinkNotOpen(f"the link is {self.phase}; a Hello is said once")
        self.phase = LinkPhase.GREETED
        return hello

    def received(self, frame: Frame, *, now_ms: int) -> tuple[AgentEvent, ...]:
        """What a frame means."""
        match self.phase, frame:
            case LinkPhase.CLOSED, _:
                return ()
            case LinkPhase.GREETED, Welcome():
                self.phase = LinkPhase.OPEN
                return (LinkEstablished(frame),)
            case LinkPhase.GREETED, HelloRefused():
                self.phase = LinkPhase.CLOSED
                return (LinkEnded(frame.message, frame),)
            case LinkPhase.OPEN, Request():
                return self._asked(frame, now_ms)
            case LinkPhase.OPEN, ReportNow():
                return (ReportRequested(),)
        return self._end(f"a {type(frame).__name__} is out of place on a link that is {self.phase}")

    def answer(self, number: int, reply: Reply, *, now_ms: int) -> Frame | None:
        """The frame that answers a request; None if nobody waits for it any more."""
        return Response(number, reply) if self._still_open(number, now_ms) else None

    def problem(self, number: int, code: str, message: str, *, now_ms: int) -> Frame | None:
        """The frame that says why not; None if nobody waits for it any more."""
        return RequestFailed(number, code, message) if self._still_open(number, now_ms) else None

    def _asked(self, request: Request, now_ms: int) -> tuple[AgentEvent, ...]:
        if request.number <= self._last:  # numbers rise, so this one came before
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
