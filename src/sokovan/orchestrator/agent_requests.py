"""Requests to agents that run concurrently with the coordinator's cycles.

An agent may take seconds to answer, or never answer; a cycle does not wait for it. A
cycle starts the requests it needs, waits briefly for quick replies, and goes on. Late
replies wake the next cycle. Every request is idempotent, so that it can be repeated.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field
from enum import StrEnum, auto
from heapq import heappop, heappush
from itertools import count
from typing import Any, NamedTuple

from sokovan.domain.errors import SokovanError
from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.retry import RetryDelay
from sokovan.orchestrator.request_deadlines import RequestDeadlines
from sokovan.ports.environment import Clock

# A request whose effect was not reported is repeated after this.
REPEAT_S = 10.0
# Requests of one kind that begin in a round: users take turns.
REQUESTS_PER_ROUND = 1_000
# How long after its end an unused backoff is kept.
_STALE_MS = 600_000


class AgentRequestKey(NamedTuple):
    """Identifies a request; at most one request of a key is under way."""

    kind: str
    agent_id: AgentId
    subject: str
    attempt: int = 0


class Notify(StrEnum):
    """Which replies of a request are kept for the caller."""

    ALL = auto()
    FAILURES = auto()
    NOTHING = auto()


@dataclass(frozen=True, slots=True)
class AgentReply:
    """The outcome of a request: the returned value, or the error."""

    key: AgentRequestKey
    value: Any = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class AgentRequestLimits:
    """Limits on concurrent requests, and timeouts.

    `concurrent_max` leaves room beside several agents that hang. `settle_s` is how long a
    cycle waits for replies.
    """

    concurrent_max: int = 256
    per_agent: int = 16
    timeout_s: float = 15.0
    settle_s: float = 0.05
    retry: RetryDelay = field(default_factory=RetryDelay)


@dataclass(slots=True)
class _Hold:
    until_ms: int
    failures: int = 0


class RequestBackoff:
    """Decides when a request may be sent again: after a failure, after success.

    A large session has thousands of holds, and a cycle looks at those that end or may be
    retried, never at all.
    """

    def __init__(self, clock: Clock, retry: RetryDelay) -> None:
        self._clock, self._retry = clock, retry
        self._holds: dict[AgentRequestKey, _Hold] = {}
        self._failed: dict[AgentId, set[AgentRequestKey]] = {}
        # By their ends; a hold that was replaced, removed or ended early is skipped when its turn comes.
        self._ahead: list[tuple[int, int, AgentRequestKey, _Hold]] = []
        self._ended: deque[tuple[AgentRequestKey, _Hold]] = deque()
        self._numbers = count()

    def due(self, key: AgentRequestKey) -> bool:
        """Whether the request may be sent now."""
        hold = self._holds.get(key)
        return hold is None or hold.until_ms <= self._clock.monotonic_ms()

    def failures(self, key: AgentRequestKey) -> int:
        """The number of failures in a row."""
        hold = self._holds.get(key)
        return 0 if hold is None else hold.failures

    def failed(self, key: AgentRequestKey) -> None:
        """Back off after a failure, longer each time."""
        failures = self.failures(key) + 1
        self._put(key, _Hold(self._clock.monotonic_ms() + self._retry.delay_ms(failures), failures))

    def hold(self, key: AgentRequestKey, seconds: float) -> None:
        """Do not send the request again within `seconds`."""
        self._put(key, _Hold(self._clock.monotonic_ms() + round(seconds * 1000)))

    def retry_now(self, key: AgentRequestKey) -> None:
        """Allow the request at once."""
        hold = self._holds.pop(key, None)
        if hold is not None and hold.failures:
            self._no_failure(key)

    def retry_all(self, agents: Collection[AgentId]) -> None:
        """Allow all requests to agents that restarted: they know of none."""
        for key in [key for key in self._holds if key.agent_id in agents]:
            self.retry_now(key)

    def retry_failed(self, agents: Collection[AgentId]) -> None:
        """Allow failed requests to agents that sent a heartbeat."""
        now_ms = self._clock.monotonic_ms()
        for agent_id in self._failed.keys() & set(agents):
            for key in self._failed[agent_id]:
                self._holds[key].until_ms = now_ms

    def next_due_s(self) -> float | None:
        """Seconds until the first backoff ends; None if there is none."""
        now_ms = self._clock.monotonic_ms()
        self._advance(now_ms)
        return (self._ahead[0][0] - now_ms) / 1000 if self._ahead else None

    def clear(self) -> None:
        """Forget everything."""
        for known in (self._holds, self._failed, self._ahead, self._ended):
            known.clear()

    def _put(self, key: AgentRequestKey, hold: _Hold) -> None:
        self.retry_now(key)
        self._holds[key] = hold
        if hold.failures:
            self._failed.setdefault(key.agent_id, set()).add(key)
        heappush(self._ahead, (hold.until_ms, next(self._numbers), key, hold))
        self._advance(self._clock.monotonic_ms())

    def _advance(self, now_ms: int) -> None:
        """Pass the holds that have ended; remove those that ended long ago, with their failures."""
        while self._ahead and not self._is_ahead(self._ahead[0], now_ms):
            _, _, key, hold = heappop(self._ahead)
            if self._holds.get(key) is hold:
                self._ended.append((key, hold))
        while self._ended and self._ended[0][1].until_ms + _STALE_MS <= now_ms:
            key, hold = self._ended.popleft()
            if self._holds.get(key) is hold:
                self.retry_now(key)

    def _is_ahead(self, entry: tuple[int, int, AgentRequestKey, _Hold], now_ms: int) -> bool:
        _, _, key, hold = entry
        return hold.until_ms > now_ms and self._holds.get(key) is hold

    def _no_failure(self, key: AgentRequestKey) -> None:
        failed = self._failed[key.agent_id]
        failed.discard(key)
        if not failed:
            del self._failed[key.agent_id]


class AgentRequests:
    """The requests of one coordinator; `wake` is called for late replies."""

    def __init__(
        self, clock: Clock, *, wake: Callable[[], Awaitable[None]], limits: AgentRequestLimits | None = None
    ) -> None:
        self._clock, self._wake = clock, wake
        self.limits = limits or AgentRequestLimits()
        self.backoff = RequestBackoff(clock, self.limits.retry)
        self._semaphore = asyncio.Semaphore(self.limits.concurrent_max)
        self._agent_semaphores: dict[AgentId, asyncio.Semaphore] = {}
        self._deadlines = RequestDeadlines(clock, self.limits.timeout_s)
        self._under_way: dict[AgentRequestKey, asyncio.Task[None]] = {}
        # Those that no cycle has waited for yet.
        self._new: dict[AgentRequestKey, asyncio.Task[None]] = {}
        self._replies: dict[str, list[AgentReply]] = {}
        self._settling = 0

    def begin(
        self,
        key: AgentRequestKey,
        work: Callable[[], Awaitable[Any]],
        *,
        notify: Notify = Notify.ALL,
        hold_s: float = 0.0,
    ) -> bool:
        """Start a request unless it is under way or backs off; whether it was started.

        After success it is held for `hold_s`.
        """
        if not self.may_begin(key):
            return False
        self._under_way[key] = self._new[key] = asyncio.ensure_future(self._run(key, work, notify, hold_s))
        return True

    def may_begin(self, key: AgentRequestKey) -> bool:
        """Whether `begin` would start a request with this key."""
        return key not in self._under_way and self.backoff.due(key)

    async def settle(self, *kinds: str) -> None:
        """Wait up to `settle_s` for replies to new requests of these kinds.

        Each is waited for once: a cycle does not wait again for the many of a large session.
        """
        new = [key for key in self._new if key.kind in kinds]
        waiting = [self._new.pop(key) for key in new]
        if not waiting:
            return
        self._settling += 1
        done = asyncio.ensure_future(asyncio.wait(waiting))
        timer = asyncio.ensure_future(self._clock.sleep(self.limits.settle_s))
        try:
            await asyncio.wait({done, timer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._settling -= 1
            for task in (done, timer):
                task.cancel()

    def take(self, kind: str, *, leave: Callable[[AgentReply], bool] = lambda _reply: False) -> list[AgentReply]:
        """Remove and return the replies of this kind, in order, but those to `leave`."""
        replies = self._replies.pop(kind, [])
        left = [reply for reply in replies if leave(reply)]
        if left:
            self._replies[kind] = left
            replies = [reply for reply in replies if not leave(reply)]
        return replies

    def put_back(self, replies: Iterable[AgentReply]) -> None:
        """Return replies that were taken, for the next `take`."""
        for reply in replies:
            self._replies.setdefault(reply.key.kind, []).append(reply)

    @property
    def waiting(self) -> int:
        """The number of replies not taken yet."""
        return sum(len(replies) for replies in self._replies.values())

    @property
    def under_way(self) -> int:
        """The number of requests without a reply."""
        return len(self._under_way)

    async def close(self) -> None:
        """Cancel the requests under way, and forget everything."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._under_way.clear()
        self._new.clear()
        self._replies.clear()
        self.backoff.clear()
        self._agent_semaphores.clear()

    async def _run(
        self, key: AgentRequestKey, work: Callable[[], Awaitable[Any]], notify: Notify, hold_s: float
    ) -> None:
        per_agent = self._agent_semaphores.setdefault(key.agent_id, asyncio.Semaphore(self.limits.per_agent))
        try:
            # The agent's own semaphore first: requests to a slow agent must not use up the shared one.
            async with per_agent, self._semaphore:
                reply = await self._send(key, work)
        finally:
            self._under_way.pop(key, None)
            self._new.pop(key, None)
        if reply.error is None and hold_s > 0:
            self.backoff.hold(key, hold_s)
        if notify is Notify.NOTHING or (notify is Notify.FAILURES and reply.error is None):
            return
        self._replies.setdefault(key.kind, []).append(reply)
        if not self._settling:
            await self._wake()

    async def _send(self, key: AgentRequestKey, work: Callable[[], Awaitable[Any]]) -> AgentReply:
        try:
            value = await self._deadlines.awaited(work())
        except Exception as error:  # noqa: BLE001  # the caller decides what the error means
            self.backoff.failed(key)
            return AgentReply(key, error=error)
        self.backoff.retry_now(key)
        return AgentReply(key, value)


def code_and_detail(error: Exception) -> tuple[str, str]:
    """The code and message of an error, for histories."""
    if isinstance(error, SokovanError):
        return error.code, error.message
    return "internal", f"{type(error).__name__}: {error}"
