"""Requests to agents, run beside the rounds that want them.

An agent may take seconds to answer, or never answer; nobody else waits for that.
A round begins what it needs, waits a moment for quick answers, and goes on. Late
answers wake the next round. Each request may be repeated without harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum, auto
from typing import Any

from sokovan.domain.errors import SokovanError
from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.retry import RetryPolicy
from sokovan.orchestrator.handler import within
from sokovan.orchestrator.request_backoff import AgentRequestKey, RequestBackoff
from sokovan.ports.environment import Clock


class Notify(StrEnum):
    """Which answers somebody waits for."""

    ALL = auto()
    FAILURES = auto()
    NOTHING = auto()


@dataclass(frozen=True, slots=True)
class AgentReply:
    """What came of a request: a word, or the error that it ended with."""

    key: AgentRequestKey
    word: Any = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class AgentRequestLimits:
    """How many requests may be under way, and how long anything waits for them.

    Most of those at a time only wait, so there is room beside several agents that hang.
    """

    at_a_time: int = 256
    per_agent: int = 16
    deadline_s: float = 15.0
    patience_s: float = 0.05
    retry: RetryPolicy = field(default_factory=RetryPolicy)


class AgentRequests:
    """The requests of one coordinator. `wake` is called for answers that come late."""

    def __init__(
        self, clock: Clock, *, wake: Callable[[], Awaitable[None]], limits: AgentRequestLimits | None = None
    ) -> None:
        self._clock, self._wake = clock, wake
        self.limits = limits or AgentRequestLimits()
        self._gate = asyncio.Semaphore(self.limits.at_a_time)
        self._gates: dict[AgentId, asyncio.Semaphore] = {}
        self._under_way: dict[AgentRequestKey, asyncio.Task[None]] = {}
        self._answers: dict[str, list[AgentReply]] = {}
        self.pauses = RequestBackoff(clock, self.limits.retry)
        self._settling = 0

    def begin(
        self,
        key: AgentRequestKey,
        work: Callable[[], Awaitable[Any]],
        *,
        tell: Notify = Notify.ALL,
        rest_s: float = 0.0,
    ) -> bool:
        """Run a request, unless it is under way or pauses; whether it was begun.

        After success it pauses for `rest_s`.
        """
        if key in self._under_way or not self.pauses.due(key):
            return False
        self._under_way[key] = asyncio.ensure_future(self._run(key, work, tell, rest_s))
        return True

    async def settle(self) -> None:
        """Wait a moment for answers to what is under way."""
        waiting = list(self._under_way.values())
        if not waiting:
            return
        self._settling += 1
        done = asyncio.ensure_future(asyncio.wait(waiting))
        timer = asyncio.ensure_future(self._clock.sleep(self.limits.patience_s))
        try:
            await asyncio.wait({done, timer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._settling -= 1
            for task in (done, timer):
                task.cancel()

    def take(self, kind: str) -> list[AgentReply]:
        """The answers of this kind that nobody has taken yet, in order."""
        return self._answers.pop(kind, [])

    @property
    def waiting(self) -> int:
        """How many answers nobody has taken yet."""
        return sum(len(answers) for answers in self._answers.values())

    @property
    def under_way(self) -> int:
        """How many requests have no answer yet."""
        return len(self._under_way)

    async def close(self) -> None:
        """Give up what is under way, and forget everything."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._under_way.clear()
        self._answers.clear()
        self.pauses.clear()
        self._gates.clear()

    async def _run(self, key: AgentRequestKey, work: Callable[[], Awaitable[Any]], tell: Notify, rest_s: float) -> None:
        gate = self._gates.setdefault(key.agent_id, asyncio.Semaphore(self.limits.per_agent))
        try:
            # An agent's own gate first: those who wait for a slow agent must not keep others from theirs.
            async with gate, self._gate:
                answer = await self._answer(key, work)
        finally:
            self._under_way.pop(key, None)
        if answer.error is None and rest_s > 0:
            self.pauses.rest(key, rest_s)
        if tell is Notify.NOTHING or (tell is Notify.FAILURES and answer.error is None):
            return
        self._answers.setdefault(key.kind, []).append(answer)
        if not self._settling:
            await self._wake()

    async def _answer(self, key: AgentRequestKey, work: Callable[[], Awaitable[Any]]) -> AgentReply:
        try:
            word = await within(work(), self.limits.deadline_s, clock=self._clock)
        except Exception as error:  # noqa: BLE001  # whoever takes the answer decides what the error means
            self.pauses.failed(key)
            return AgentReply(key, error=error)
        self.pauses.hurry(key)
        return AgentReply(key, word)


def said(error: Exception) -> tuple[str, str]:
    """A code and words for an error, as histories have them."""
    if isinstance(error, SokovanError):
        return error.code, error.message
    return "internal", f"{type(error).__name__}: {error}"
