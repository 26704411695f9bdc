"""Limits of a listener's connections: how many, and how long they may say nothing.

Only a connection that the server waits for can be closed to admit another: one that has
sent no complete request. So idle connections, however many, keep no client out.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from sokovan.ports.environment import Clock, Telemetry

LOG_EVERY_S = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Connections in all and of one address, and the time for each part of a request.

    `head_s` is for the first request of a connection, `idle_s` for each further one,
    `body_s` for a body.
    """

    total_max: int = 4096
    per_address_max: int = 2048
    head_s: float = 10.0
    idle_s: float = 40.0
    body_s: float = 120.0

    def shared_by(self, processes: int) -> ConnectionLimits:
        """The part of one of several processes on one socket."""
        return replace(
            self,
            total_max=-(-self.total_max // processes),
            per_address_max=-(-self.per_address_max // processes),
        )

    def within(self, open_files: int) -> ConnectionLimits:
        """These limits, lowered to leave descriptors and room to others."""
        total = max(1, min(self.total_max, open_files - reserved_files(open_files)))
        per_address = max(1, min(self.per_address_max, total - total // 8))
        return ConnectionLimits(
            total_max=total,
            per_address_max=per_address,
            head_s=self.head_s,
            idle_s=self.idle_s,
            body_s=self.body_s,
        )


def reserved_files(open_files: int) -> int:
    """The descriptors kept for files, agents and kernels, of so many."""
    return min(1024, open_files // 2)


def link_limits(open_files: int) -> ConnectionLimits:
    """Limits of the connections of agents: many may be behind one address."""
    return ConnectionLimits(total_max=open_files, per_address_max=open_files).within(open_files)


class OpenConnection(Protocol):
    """The connection as asyncio has it."""

    def abort(self) -> None:
        """Close it at once."""


class Connections:
    """The connections of one listener; used in one event loop."""

    def __init__(
        self, limits: ConnectionLimits, clock: Clock, *, telemetry: Telemetry, log: Callable[[str], None]
    ) -> None:
        self.limits, self._clock, self._telemetry, self._log = limits, clock, telemetry, log
        self._addresses: dict[OpenConnection, str] = {}
        self._counts: Counter[str] = Counter()
        # Those that the server waits for, by address, with the time at which it gives up; the longest first.
        self._waiting: dict[str, OrderedDict[OpenConnection, float]] = {}
        self._closed: Counter[str] = Counter()
        self._logged_ms = -LOG_EVERY_S * 1000

    def admit(self, link: OpenConnection, address: str) -> bool:
        """Admit a connection, if need be instead of one that waits; else close it."""
        limits = self.limits
        full = self._counts[address] >= limits.per_address_max and not self._evict(address)
        if not full and len(self._addresses) >= limits.total_max:
            full = not self._evict(max(self._waiting, key=self._counts.__getitem__, default=address))
        if full:
            self._close(link, "refused")
            return False
        self._addresses[link] = address
        self._counts[address] += 1
        self.expect(link, limits.head_s)
        return True

    def expect(self, link: OpenConnection, within_s: float) -> None:
        """The server waits for the client now, for so long at most."""
        address = self._addresses.get(link)
        if address is None:
            return
        waiting = self._waiting.setdefault(address, OrderedDict())
        waiting[link] = self._clock.monotonic_ms() + within_s * 1000
        waiting.move_to_end(link)

    def serve(self, link: OpenConnection) -> None:
        """The client waits for the server now."""
        address = self._addresses.get(link, "")
        waiting = self._waiting.get(address)
        if waiting is not None:
            waiting.pop(link, None)
            if not waiting:
                del self._waiting[address]

    def release(self, link: OpenConnection) -> None:
        """The connection has ended."""
        self.serve(link)
        address = self._addresses.pop(link, None)
        if address is not None:
            self._counts[address] -= 1
            if not self._counts[address]:
                del self._counts[address]

    def close_overdue(self) -> None:
        """Close every connection that the server has waited for too long."""
        now_ms = self._clock.monotonic_ms()
        overdue = [link for waiting in self._waiting.values() for link, until in waiting.items() if until <= now_ms]
        for link in overdue:
            self._close(link, "idle")

    def _evict(self, address: str) -> bool:
        """Close the connection of an address that has waited longest; False if none waits."""
        waiting = self._waiting.get(address)
        if not waiting:
            return False
        self._close(next(iter(waiting)), "displaced")
        return True

    def _close(self, link: OpenConnection, reason: str) -> None:
        self.release(link)
        link.abort()
        self._telemetry.count("connections_closed_total", reason=reason)
        self._closed[reason] += 1
        now_ms = self._clock.monotonic_ms()
        if reason == "idle" or now_ms - self._logged_ms < LOG_EVERY_S * 1000:
            return
        self._logged_ms = now_ms
        most = ", ".join(f"{address} {count}" for address, count in self._counts.most_common(3))
        closed = ", ".join(f"{count} {why}" for why, count in sorted(self._closed.items()))
        limits = f"{self.limits.total_max} in all, {self.limits.per_address_max} of an address"
        self._log(f"connections are at their limit ({limits}): {most}; closed so far: {closed}")
