"""Decides how many replicas a deployment needs: target tracking with two windows.

The stable window follows demand; the panic window reacts to a burst. Replicas that start
count as capacity, so a cold start does not ask for more. All arithmetic is in integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum, auto

from sokovan.domain.checks import require_int, require_kind
from sokovan.domain.errors import InvalidSpec

TARGET_MAX = 1_000_000
WINDOW_S_MAX = 24 * 3600
# The default target is this percentage of the concurrency of a replica.
TARGET_PERCENT = 70
CONCURRENCY_DEFAULT = 16
# Within UP_WINDOW_MS at most doubled, or this many more.
UP_WINDOW_MS, UP_STEP = 30_000, 4
PANIC_FACTOR = 2


class ScalingMetric(StrEnum):
    """The measure that the number of replicas follows; `manual`: none."""

    MANUAL = auto()
    CONCURRENCY = auto()  # requests in flight and queued
    QPS = auto()
    QUEUE = auto()  # requests that wait for a replica, or in the queue of its engine
    TTFT_P95 = auto()  # milliseconds to the first byte, for 95 of 100 requests


_NEED_TARGETS = {
    ScalingMetric.QPS: "qps needs a target: the requests per second of one replica",
    ScalingMetric.QUEUE: "queue needs a target: the waiting requests for which one more replica is started",
    ScalingMetric.TTFT_P95: "ttft_p95 needs a target: milliseconds to the first byte",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPolicy:
    """How the number of replicas follows demand; `target` is per replica.

    The last replica goes after `idle_s` without a request.
    """

    metric: ScalingMetric = ScalingMetric.MANUAL
    target: int | None = None
    stable_s: int = 60
    panic_s: int = 6
    panic_hold_s: int = 60
    down_s: int = 300
    idle_s: int = 300

    def __post_init__(self) -> None:
        what = "scaling policy"
        require_kind(self.metric, ScalingMetric, what=what, field="metric")
        if self.metric in _NEED_TARGETS and self.target is None:
            raise InvalidSpec(what=what, field="target", value=None, problem=_NEED_TARGETS[self.metric])
        if self.target is not None:
            require_int(self.target, what=what, field="target", least=1, most=TARGET_MAX)
        for name in ("stable_s", "panic_s", "panic_hold_s", "down_s", "idle_s"):
            require_int(getattr(self, name), what=what, field=name, least=1, most=WINDOW_S_MAX)

    def queue_demand(self, in_flight: int, queued: int, concurrency_max: int | None) -> int:
        """The demand by the metric `queue`.

        Requests in flight keep as many replicas as they fill; each `target` of waiting ones
        wants one more.
        """
        target = self.target_of(concurrency_max)
        return -(-in_flight * target // (concurrency_max or CONCURRENCY_DEFAULT)) + queued

    def target_of(self, concurrency_max: int | None) -> int:
        """The target per replica, given the concurrency of one."""
        return self.target or max(1, (concurrency_max or CONCURRENCY_DEFAULT) * TARGET_PERCENT // 100)


@dataclass(frozen=True, slots=True)
class DemandSample:
    """The demand on all replicas at a time, and the number desired then."""

    at_ms: int
    demand: int
    desired: int


@dataclass(frozen=True, slots=True)
class ScalingDecision:
    """The number of replicas from now on, and until when panic lasts."""

    desired: int
    panic_until_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingInput:
    """The state that a decision depends on; samples are in order of time.

    `ready` counts replicas that are ACTIVE, STARTING or WARMING; `idle_ms` is the time since
    the last request.
    """

    policy: ScalingPolicy
    target: int
    bounds: tuple[int, int]
    samples: Sequence[DemandSample]
    desired: int
    ready: int
    now_ms: int
    panic_until_ms: int = 0
    idle_ms: int = 0


def decide_scale(given: ScalingInput) -> ScalingDecision:
    """The desired number of replicas."""
    low, high = given.bounds
    if given.policy.metric is ScalingMetric.MANUAL or not given.samples:
        return ScalingDecision(min(max(given.desired, low), high))
    policy, now = given.policy, given.now_ms
    panicked = _wanted(_within(given.samples, now, policy.panic_s), given.target)
    panic_until = given.panic_until_ms
    if panicked >= PANIC_FACTOR * max(1, given.ready):
        panic_until = now + policy.panic_hold_s * 1000
    wanted = _wanted(_within(given.samples, now, policy.stable_s), given.target)
    if now < panic_until:
        wanted = max(wanted, panicked, given.desired)
    if wanted < given.desired:
        wanted = min(given.desired, max(wanted, _highest_wanted(given)))
    else:
        wanted = min(wanted, _most_now(given))
    if not wanted and given.desired and given.idle_ms < policy.idle_s * 1000:
        wanted = 1
    return ScalingDecision(min(max(wanted, low), high), panic_until if now < panic_until else 0)


def _within(samples: Sequence[DemandSample], now_ms: int, seconds: int) -> list[DemandSample]:
    return [one for one in samples if now_ms - one.at_ms <= seconds * 1000]


def _wanted(samples: Sequence[DemandSample], target: int) -> int:
    """The replicas for the mean demand of these samples, rounded up."""
    if not samples:
        return 0
    return -(-sum(one.demand for one in samples) // (len(samples) * target))


def _highest_wanted(given: ScalingInput) -> int:
    """The most that single samples of the down window wanted."""
    kept = _within(given.samples, given.now_ms, given.policy.down_s)
    return max((-(-one.demand // given.target) for one in kept), default=0)


def _most_now(given: ScalingInput) -> int:
    """The largest number that the limit of growth allows now."""
    before = _lowest_desired(one for one in given.samples if given.now_ms - one.at_ms <= UP_WINDOW_MS)
    base = given.desired if before is None else min(before, given.desired)
    return max(base * 2, base + UP_STEP)


def _lowest_desired(samples: Iterable[DemandSample]) -> int | None:
    return min((one.desired for one in samples), default=None)
