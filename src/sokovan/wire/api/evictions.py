"""JSON types of evictions: the receipts of a session, and the costs of victims."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionCostView:
    """The costs of a set of victims, in the order in which sets are compared.

    The set with the smallest costs is evicted.
    `only_loans`: all return to the queue that lent them. Priorities are the highest of the victims, and
    queues are compared only if the taker's queue has back what others use.
    """

    only_loans: bool
    whole_gangs: int
    queue_distance: int
    queue_priority: int
    priority: int
    kernel_priority: int
    lost_slot_minutes: int
    kernels: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionView:
    """The receipt of an eviction: for whom, how many kernels, and the lost work.

    `lost_slot_s` counts from the last checkpoint that was `reported`, of `step`, or from the start, to
    the end; until `ended_at` it is an estimate. With `saves_every_s` it counts from the last save;
    `completed`: it had ended before the notice. Another user's `for_session` is empty.
    By `rule` (priority, share, loan, move, booking) it could be evicted; `cost` is that of all victims of the taker,
    `next_best` that of the next best set, if one was compared. One `for_booking` is for no session.
    """

    number: int
    action: str
    at: str
    for_session: str
    kernels: int
    whole: bool
    lost_slot_s: int
    reported: bool
    ends_by: str
    ended_at: str | None = None
    step: int | None = None
    for_name: str = ""
    saves_every_s: int | None = None
    completed: bool = False
    rule: str = ""
    cost: EvictionCostView | None = None
    next_best: EvictionCostView | None = None
    for_booking: str = ""
