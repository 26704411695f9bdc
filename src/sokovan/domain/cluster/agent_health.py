"""The health of an agent: starts that failed on it, and what follows from them.

An agent on which several sessions in a row could not be started gets no new kernels
until a probe, a kernel without slots that ends at once, succeeds on it. A session may
fail by the fault of its user, so a user alone cannot remove an agent: sessions of one
user only cause a probe, and the agent is removed if that fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from sokovan.domain.checks import require_int
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.retry import RetryDelay

_USERS_MIN = 2
_FAILURES_MAX = 16
FAULTS_MAX = 256
FAULT_LENGTH_MAX = 200


@dataclass(frozen=True, slots=True)
class HealthLimits:
    """How many failed sessions, within which time, remove an agent; times of probes."""

    sessions: int = 3
    window_s: int = 600
    probe: RetryDelay = field(default_factory=lambda: RetryDelay(10_000, 600_000))
    probe_timeout_s: int = 30

    def __post_init__(self) -> None:
        require_int(self.sessions, what="health limits", field="sessions", least=1, most=_FAILURES_MAX)
        for name in ("window_s", "probe_timeout_s"):
            require_int(getattr(self, name), what="health limits", field=name, least=1)


@dataclass(frozen=True, slots=True)
class AgentFailure:
    """A session that the agent could not start."""

    session_id: SessionId
    user: str
    code: str
    detail: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class AgentHealth:
    """Failures since a kernel last started on the agent, and the state of its probes.

    `failing_ms` is set while the agent gets no new kernels. Failures up to `clean_ms` do
    not count any more. `rounds` counts removals and failed probes since a kernel last
    started; the time between probes grows with it. `faults` are devices that get no new
    kernels, with the reason.
    """

    failures: tuple[AgentFailure, ...] = ()
    failing_ms: int | None = None
    clean_ms: int = 0
    rounds: int = 0
    probed_ms: int | None = None
    faults: tuple[tuple[str, str], ...] = ()

    @property
    def is_failing(self) -> bool:
        """Whether the agent gets no new kernels."""
        return self.failing_ms is not None

    @property
    def reason(self) -> str:
        """Why it is failing, without the names and words of users."""
        if not self.failures:
            return "its probe failed"
        count = len(self.failures)
        return f"{count} session{'s' if count > 1 else ''} in a row could not be started: {self.failures[-1].code}"

    def failed(self, found: Iterable[AgentFailure], limits: HealthLimits, *, now_ms: int) -> AgentHealth:
        """The health after failures; a session counts once, however often it was tried."""
        sessions = {one.session_id: one for one in self.failures}
        for one in found:
            if one.at_ms > self.clean_ms:
                sessions.setdefault(one.session_id, one)
        recent = sorted((one for one in sessions.values() if now_ms - one.at_ms < limits.window_s * 1000), key=_age)
        after = replace(self, failures=tuple(recent[-_FAILURES_MAX:]))
        if self.is_failing or not after.is_suspect(limits) or len({one.user for one in recent}) < _USERS_MIN:
            return after
        return replace(after, failing_ms=now_ms, rounds=self.rounds + 1, probed_ms=now_ms)

    def started(self, at_ms: int) -> AgentHealth:
        """The health after a kernel has started: only later failures remain."""
        if self.failing_ms is not None and at_ms <= self.failing_ms:
            return self
        later = tuple(one for one in self.failures if one.at_ms > at_ms)
        if later == self.failures and not self.rounds:
            return self
        return AgentHealth(later, clean_ms=max(at_ms, self.clean_ms), probed_ms=self.probed_ms, faults=self.faults)

    def cleared(self, now_ms: int) -> AgentHealth:
        """The health after an operator has returned the agent to scheduling."""
        return AgentHealth(clean_ms=now_ms, faults=self.faults)

    def probed(self, *, succeeded: bool, now_ms: int) -> AgentHealth:
        """The health after a probe; only a started session resets the time between them."""
        if succeeded:
            return AgentHealth(clean_ms=now_ms, rounds=self.rounds, probed_ms=now_ms, faults=self.faults)
        failing_ms = now_ms if self.failing_ms is None else self.failing_ms
        return replace(self, failing_ms=failing_ms, rounds=self.rounds + 1, probed_ms=now_ms)

    def with_faults(self, found: Mapping[str, str]) -> AgentHealth:
        """The health with the faults that the agent has found in its devices."""
        kept = sorted(found.items())[:FAULTS_MAX]
        return replace(self, faults=tuple((device, reason[:FAULT_LENGTH_MAX]) for device, reason in kept))

    def is_suspect(self, limits: HealthLimits) -> bool:
        """Whether as many sessions failed as remove an agent."""
        return len(self.failures) >= limits.sessions

    def probe_due_ms(self, limits: HealthLimits) -> int | None:
        """When to probe the agent; None if there is no need."""
        if not self.is_failing and not self.is_suspect(limits):
            return None
        return 0 if self.probed_ms is None else self.probed_ms + limits.probe.delay_ms(max(self.rounds, 1))


HEALTHY = AgentHealth()


def _age(failure: AgentFailure) -> tuple[int, str]:
    return failure.at_ms, failure.session_id
