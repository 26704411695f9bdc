"""The requests that an engine has, from its metrics in Prometheus's text format.

Each engine has names of its own for them. A replica of several processes has one line for
each; they are added.
"""

from __future__ import annotations

import re
from typing import NamedTuple

# More than any engine has; a larger number is a mistake.
COUNT_MAX = 1_000_000
# The engine's own count of its requests is used while it is younger than this.
SAMPLE_AGE_MAX_MS = 2_000

# vLLM, SGLang, TGI, llama.cpp, NIM, and the toy engine.
_RUNNING = frozenset({
    b"vllm:num_requests_running", b"sglang:num_running_reqs", b"tgi_batch_current_size",
    b"llamacpp:requests_processing", b"num_requests_running", b"toy_requests_running",
})  # fmt: skip
_WAITING = frozenset({
    b"vllm:num_requests_waiting", b"sglang:num_queue_reqs", b"tgi_queue_size", b"llamacpp:requests_deferred",
    b"num_requests_waiting", b"toy_requests_waiting",
})  # fmt: skip
# Labels may contain anything but the end of a line; the number ends the line, or a time follows it.
_LINE = re.compile(
    rb"^(" + b"|".join(map(re.escape, sorted(_RUNNING | _WAITING))) + rb")(?:\{[^\n]*\})?[ \t]++([0-9][0-9.eE+]*+)",
    re.MULTILINE,
)


class EngineCounts(NamedTuple):
    """The requests that an engine works on, and those in its queue."""

    running: int
    waiting: int


class EngineLoad:
    """The load of an engine as it said itself, for a short time.

    `others` are requests that this proxy does not have.
    """

    __slots__ = ("_others", "_sampled_ms", "_waiting")

    def __init__(self) -> None:
        self._others = self._waiting = 0
        self._sampled_ms = -SAMPLE_AGE_MAX_MS

    def sampled(self, now_ms: int, counts: EngineCounts, *, own: int) -> None:
        """Take over the counts of an engine, of whose requests so many are this proxy's."""
        self._others, self._waiting = max(0, counts.running + counts.waiting - own), counts.waiting
        self._sampled_ms = now_ms

    def others(self, now_ms: int) -> int:
        """The requests of others; none if the engine has not said so lately."""
        return self._others if now_ms - self._sampled_ms < SAMPLE_AGE_MAX_MS else 0

    def waiting(self, now_ms: int) -> int:
        """The requests in its own queue; none if it has not said so lately."""
        return self._waiting if now_ms - self._sampled_ms < SAMPLE_AGE_MAX_MS else 0


def engine_counts(metrics: bytes) -> EngineCounts | None:
    """The counts in the metrics of an engine; None if it does not say both."""
    running = waiting = 0
    found: set[bytes] = set()
    for name, text in _LINE.findall(metrics):
        try:
            number = float(text)
        except ValueError:
            return None
        if number > COUNT_MAX:
            return None
        if name in _RUNNING:
            running += int(number)
        else:
            waiting += int(number)
        found.add(name)
    return EngineCounts(running, waiting) if found & _RUNNING and found & _WAITING else None
