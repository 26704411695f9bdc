"""Replicas, their endpoints, and the delay between attempts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sokovan.domain.checks import require_int
from sokovan.domain.ids import AgentId, KernelId, checked_name
from sokovan.domain.lifecycle.retry import RetryDelay
from sokovan.domain.records import ENDED_BY_USER

PORT_RANGE = (1, 65_535)
# The delay before the next attempt at a place, after failures in a row.
RESTART_DELAY = RetryDelay(first_ms=10_000, most_ms=300_000)
# The reason of replicas that end again and again; deployments and routes report it.
CRASH_LOOP = "crash-loop"
# So many failures of a revision within the window stop further attempts until one of them is older.
# Each replica that serves forgives one more: a large deployment that loses a machine starts others at once.
CRASHES_MAX, CRASH_WINDOW_MS = 3, 600_000
# Ends of sessions that say nothing about their engine: by its agent, for other sessions, by a user.
_OTHERS_DOING = frozenset({"agent-lost", "kernel-lost", "preempted", "reclaimed", "booked", *ENDED_BY_USER})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of one replica, taken from the ledger; never from user input.

    Kernel and attempt identify it, so that a port that is reused by another kernel gets no
    traffic.
    """

    kernel_id: KernelId
    attempt: int
    agent_id: AgentId
    port: int

    def __post_init__(self) -> None:
        checked_name(self.kernel_id, what="kernel")
        checked_name(self.agent_id, what="agent")
        what = f"endpoint {self.kernel_id}"
        require_int(self.attempt, what=what, field="attempt", least=1)
        require_int(self.port, what=what, field="port", least=PORT_RANGE[0], most=PORT_RANGE[1])

    @property
    def endpoint_id(self) -> str:
        """The name under which proxies report it."""
        return f"{self.kernel_id}.{self.attempt}"


def is_own_failure(reason_code: str) -> bool:
    """Whether the end of a replica counts as a failure of its revision."""
    return reason_code not in _OTHERS_DOING


def is_crash_loop(failed_at_ms: Sequence[int], now_ms: int, *, serving: int = 0) -> bool:
    """Whether so many replicas of a revision failed lately that no more are started."""
    return sum(now_ms - at < CRASH_WINDOW_MS for at in failed_at_ms) >= CRASHES_MAX + serving


def restart_due_ms(failed_at_ms: Sequence[int], *, serving: int = 0) -> int:
    """When the next replica may start after these failures; 0 without any."""
    if not failed_at_ms:
        return 0
    return max(failed_at_ms) + RESTART_DELAY.delay_ms(max(1, len(failed_at_ms) - serving))
