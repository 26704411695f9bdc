"""Held slots over time: means of equal steps, from what was taken and freed when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import NamedTuple

from sokovan.domain.errors import InvalidSpec

STEPS_MAX = 1_000
STEP_MIN_MS = 10_000
# Steps of a window whose step is not given.
STEPS_DEFAULT = 96


class UsageBy(StrEnum):
    """The property of sessions that held slots are divided by."""

    ALL = auto()
    QUEUE = auto()
    USER = auto()
    GROUP = auto()
    SCALING_GROUP = auto()


class UsageOf(StrEnum):
    """The subject of a history: slots, or numbers of sessions, their GPUs, or agents."""

    SLOTS = auto()
    SESSIONS = auto()
    GPUS = auto()
    AGENTS = auto()


class SessionLevel(StrEnum):
    """Sessions that are counted over time; in place of a slot."""

    RUNNING = auto()
    WAITING = auto()


# Agents that are counted over time, in place of a slot: those that take kernels.
AGENTS_ALIVE = "alive"


@dataclass(frozen=True, slots=True)
class UsageWindow:
    """A time that is divided into steps, of which the last may be shorter.

    Raises InvalidSpec.
    """

    from_ms: int
    to_ms: int
    step_ms: int

    def __post_init__(self) -> None:
        if self.to_ms <= self.from_ms:
            raise InvalidSpec(what="window", field="since", value=self.from_ms, problem="is not before its end")
        if self.step_ms < STEP_MIN_MS:
            problem = f"is less than {STEP_MIN_MS // 1000} seconds"
            raise InvalidSpec(what="window", field="step", value=self.step_ms // 1000, problem=problem)
        if self.steps > STEPS_MAX:
            problem = f"makes {self.steps} steps, the limit is {STEPS_MAX}"
            raise InvalidSpec(what="window", field="step", value=self.step_ms // 1000, problem=problem)

    @property
    def steps(self) -> int:
        """The number of steps."""
        return -((self.from_ms - self.to_ms) // self.step_ms)


def default_step_ms(length_ms: int) -> int:
    """A step that divides a time of this length into about a hundred."""
    return max(STEP_MIN_MS, -(-length_ms // STEPS_DEFAULT // 1000) * 1000)


class LedgerSum(NamedTuple):
    """Amounts that were taken or freed within a step.

    `moment` is the sum of the amounts, each times its milliseconds since the window began.
    """

    amount: int
    moment: float


@dataclass(frozen=True, slots=True)
class UsageSeries:
    """The mean amount of a slot that a name held in each step."""

    name: str
    slot: str
    used: tuple[int, ...]


NOTHING = LedgerSum(0, 0.0)


def mean_levels(
    window: UsageWindow, level: int, taken: Mapping[int, LedgerSum], freed: Mapping[int, LedgerSum]
) -> tuple[int, ...]:
    """The mean of what was held in each step; `level` was held when the window began.

    Half of a step of 10 seconds, then a whole one:

    >>> window = UsageWindow(0, 20_000, 10_000)
    >>> mean_levels(window, 0, {0: LedgerSum(4, 4 * 5_000)}, {})
    (2, 4)
    """
    means = []
    for step in range(window.steps):
        begin = step * window.step_ms
        end = min(begin + window.step_ms, window.to_ms - window.from_ms)
        more, less = taken.get(step, NOTHING), freed.get(step, NOTHING)
        area = level * (end - begin) + (more.amount * end - more.moment) - (less.amount * end - less.moment)
        means.append(max(0, round(area / (end - begin))))
        level += more.amount - less.amount
    return tuple(means)
