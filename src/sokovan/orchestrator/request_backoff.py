"""When a request to an agent may be repeated: after a failure, after success."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.retry import RetryPolicy
from sokovan.ports.environment import Clock

# How long after its time a pause is remembered that nobody has asked about.
_STALE_MS = 600_000


class AgentRequestKey(NamedTuple):
    """One request: what kind, to whom, about what. At most one of a key is under way."""

    kind: str
    agent_id: AgentId
    subject: str
    attempt: int = 0


@dataclass(slots=True)
class _Pause:
    until_ms: int
    failures: int = 0


class RequestBackoff:
    """The requests that are not made again before their time."""

    def __init__(self, clock: Clock, retry: RetryPolicy) -> None:
        self._clock, self._retry = clock, retry
        self._pauses: dict[AgentRequestKey, _Pause] = {}

    def due(self, key: AgentRequestKey) -> bool:
        """Whether nothing speaks against asking now."""
        pause = self._pauses.get(key)
        return pause is None or pause.until_ms <= self._clock.monotonic_ms()

    def failures(self, key: AgentRequestKey) -> int:
        """How often in a row it failed."""
        pause = self._pauses.get(key)
        return 0 if pause is None else pause.failures

    def failed(self, key: AgentRequestKey) -> None:
        """It failed once more: pause, longer each time."""
        failures = self.failures(key) + 1
        self._pauses[key] = _Pause(self._clock.monotonic_ms() + self._retry.delay_ms(failures), failures)

    def rest(self, key: AgentRequestKey, seconds: float) -> None:
        """Do not ask again before `seconds` have passed."""
        self._pauses[key] = _Pause(self._clock.monotonic_ms() + round(seconds * 1000))

    def hurry(self, key: AgentRequestKey) -> None:
        """Something changed: ask again at once."""
        self._pauses.pop(key, None)

    def hurry_all(self, agents: Collection[AgentId]) -> None:
        """Agents have begun anew: what they were told before counts for nothing."""
        self._pauses = {key: pause for key, pause in self._pauses.items() if key.agent_id not in agents}

    def hurry_failed(self, heard: Collection[AgentId]) -> None:
        """Agents were heard: ask them again at once about what they did not answer."""
        for key, pause in self._pauses.items():
            if pause.failures and key.agent_id in heard:
                pause.until_ms = self._clock.monotonic_ms()

    def next_due_s(self) -> float | None:
        """How long until the first pause ends; None if nothing pauses."""
        now_ms = self._clock.monotonic_ms()
        self._pauses = {key: pause for key, pause in self._pauses.items() if pause.until_ms + _STALE_MS > now_ms}
        ahead = [pause.until_ms for pause in self._pauses.values() if pause.until_ms > now_ms]
        return (min(ahead) - now_ms) / 1000 if ahead else None

    def clear(self) -> None:
        """Forget everything."""
        self._pauses.clear()
