"""The state of one endpoint in one proxy: load, health, ejection, counters."""

from __future__ import annotations

from hashlib import blake2b

from sokovan.domain.serving.health import Health, HealthCounter, HealthPolicy
from sokovan.proxy.routing.answer_times import AnswerTimes
from sokovan.proxy.routing.connection_time import ConnectionTime
from sokovan.proxy.routing.ejection import CONNECT_TIMEOUT, Ejection
from sokovan.proxy.routing.engine_counts import EngineLoad
from sokovan.proxy.routing.prefixes import PromptPrefixes
from sokovan.proxy.routing.recent_answers import RecentAnswers
from sokovan.wire.serving.proxy_reports import EndpointReport, ReportedHealth
from sokovan.wire.serving.route_table import EndpointEntry

# No byte for this long on two requests, though the probe answers, is a stall.
STALL_MS = 60_000
STALLED_REQUESTS = 2
# An engine that said that it is full gets no more than it has for this long, or nothing if it has nothing.
FULL_MS, RESTS_MS = 10_000, 1_000
HEALTH_POLICY = HealthPolicy()
_UNHEALTHY = Health.UNHEALTHY
_NOT_SERVING = frozenset({"WARMING", "UNHEALTHY"})
_REPORTED: dict[Health, ReportedHealth] = {
    Health.UNKNOWN: "unknown", Health.HEALTHY: "healthy", Health.UNHEALTHY: "unhealthy",
}  # fmt: skip


class EndpointState:
    """One endpoint; `outstanding` counts requests from before they are sent.

    `engine` is its load as the engine says.
    """

    __slots__ = (
        "address", "concurrency_max", "connection_time", "ejection", "engine", "entry", "full_at", "full_until_ms",
        "hash", "health", "last_byte_ms", "last_error", "listeners", "outstanding", "prefixes", "recent", "secret",
        "served", "smoke_failures", "smoked", "stalled", "times",
    )  # fmt: skip

    def __init__(self, entry: EndpointEntry, *, concurrency_max: int) -> None:
        self.ejection = Ejection()
        self.connection_time = ConnectionTime()
        self.health = HealthCounter()
        self.prefixes = PromptPrefixes()
        self.recent = RecentAnswers()
        self.times = AnswerTimes()
        self.outstanding = 0
        self.served = 0
        self.engine = EngineLoad()
        self.full_at = self.full_until_ms = 0
        self.last_byte_ms = 0
        self.last_error = ""
        self.stalled = False
        self.smoked, self.smoke_failures = False, 0
        self.listeners = frozenset(entry.listeners)
        self.hash = int.from_bytes(blake2b(entry.endpoint_id.encode(), digest_size=8).digest(), "big")
        self.replace(entry, concurrency_max=concurrency_max)

    def replace(self, entry: EndpointEntry, *, concurrency_max: int) -> None:
        """Take over the entry of a new table."""
        if entry.state == "ACTIVE":
            # One that becomes unhealthy later answers a request again before it serves.
            self.smoked, self.smoke_failures = False, 0
        self.entry = entry
        self.concurrency_max = concurrency_max
        self.secret = entry.secret.encode()
        host = f"[{entry.host}]" if ":" in entry.host else entry.host
        self.address = f"{host}:{entry.port}".encode()

    def alive(self, now_ms: int) -> bool:
        """Whether it may get requests, were it not for its load.

        One that passes its checks and took connections too late may get some soon: it, or the
        proxy, lacks processor time.
        """
        verdict = self.health.verdict
        may_soon = self.ejection.cause == CONNECT_TIMEOUT and verdict is Health.HEALTHY
        return (
            self.entry.state == "ACTIVE"
            and (now_ms >= self.ejection.until_ms or may_soon)
            and verdict is not Health.UNHEALTHY
        )

    @property
    def given_up(self) -> bool:
        """Whether its checks say that it answers no more."""
        return self.stalled or self.health.verdict is Health.UNHEALTHY

    def free(self, now_ms: int) -> bool:
        """Whether it may get one more request."""
        places = self.concurrency_max if now_ms >= self.full_until_ms else self.full_at
        return (  # `alive` without a call: every endpoint is asked for every request
            self.outstanding < places
            and self.entry.state == "ACTIVE"
            and now_ms >= self.ejection.until_ms
            and self.health.verdict is not _UNHEALTHY
        )

    def said_full(self, now_ms: int) -> None:
        """Take note that the engine takes no more than the other requests that it has."""
        self.full_at = max(0, min(self.outstanding, self.concurrency_max) - 1)
        self.full_until_ms = now_ms + (FULL_MS if self.full_at else RESTS_MS)

    def rest(self, now_ms: int) -> None:
        """Send it nothing for a moment: a request that failed here waits elsewhere."""
        self.full_at, self.full_until_ms = 0, now_ms + RESTS_MS

    def load(self, now_ms: int) -> int:
        """Its requests: the proxy's, and those of others if the engine has said so lately."""
        return self.outstanding + self.engine.others(now_ms)

    def owns(self, listeners: frozenset[int] | None) -> bool:
        """Whether the sockets that listen at its port are those of its kernel.

        They are noted until the manager says that it serves, which asks its agent first. Later,
        none but these may be there: another program may have taken the port, or share it. For
        one on another machine, its agent looks at that.
        """
        if listeners is None or self.entry.agent:
            return True
        if self.listeners and self.entry.state not in _NOT_SERVING:
            return bool(listeners) and listeners <= self.listeners
        self.listeners = listeners or self.listeners
        return True

    @property
    def smoke_due(self) -> bool:
        """Whether it must answer a smoke request before it serves."""
        return bool(self.entry.probe.smoke_path) and not self.smoked and self.entry.state in _NOT_SERVING

    def smoke_answered(self, problem: str) -> None:
        """Take over the result of a smoke request."""
        self.smoked = not problem
        self.smoke_failures = self.smoke_failures + 1 if problem else 0

    def probed(self, now_ms: int, *, ok: bool, error: str = "") -> None:
        """Take over the result of a probe; a success ends some ejections."""
        before, self.health = self.health, self.health.observe(ok=ok, at_ms=now_ms, policy=HEALTH_POLICY)
        if self.health.verdict is Health.HEALTHY is not before.verdict:
            self.last_error = ""  # such as refused connections while it started
        if not ok:
            self.last_error = error
        elif self.ejection.active(now_ms) and self._over(now_ms):
            self.ejection.lift()

    def _over(self, now_ms: int) -> bool:
        """Whether the cause of an ejection is over when a probe gets through.

        Refused or late connections are, and reset ones, unless it passes its probes and cuts its answers.
        """
        cause = self.ejection.cause
        return cause in {"refused", CONNECT_TIMEOUT} or (cause == "reset" and not self.recent.failing(now_ms))

    def report(self, now_ms: int) -> EndpointReport:
        """The observations for the manager."""
        health, recent = _REPORTED[self.health.verdict], self.recent
        failing, (answers, failures) = recent.failing(now_ms), recent.counts(now_ms)
        began, ended = self.times.counts(now_ms)
        return EndpointReport(
            endpoint_id=self.entry.endpoint_id,
            health="unknown" if health == "healthy" and self.smoke_due else health,
            outstanding=self.outstanding,
            served=self.served,
            stalled=self.stalled,
            ejected=self.ejection.active(now_ms),
            last_error=(recent.cause if failing else self.last_error)[:2000],
            smoke_failures=self.smoke_failures,
            waiting=self.engine.waiting(now_ms),
            answers=answers,
            failures=failures,
            failing=failing,
            ejections=self.ejection.count,
            began_recently=began,
            ended_recently=ended,
        )
