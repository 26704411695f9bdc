"""Decides the steps of a rollout from one revision of a deployment to another.

Old replicas are routed to until enough new ones have been ACTIVE for a while; whatever
happens to the new ones, the old ones keep serving.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sokovan.domain.checks import require_int, require_kind, require_tuple
from sokovan.domain.errors import InvalidSpec

SURGE_MAX = 1_000
HOLD_S_MAX = 7 * 24 * 3600
STEPS_MAX = 20
# How long a new replica has been ACTIVE before an old one drains for it.
SETTLED_MS = 10_000
# So many failed replicas of the new revision end the rollout.
FAILURES_MAX = 3
# The new revision is compared with the old one once it had so many requests: by the percentage
# of failures, in points, and by the 95th percentile of the time to the first byte, in percent.
COMPARED_MIN = 50
ERROR_POINTS_MAX, FIRST_BYTE_PERCENT_MAX = 2, 150
# Times are known by the bounds of a histogram only: a difference of a few milliseconds says nothing.
FIRST_BYTE_MS_MIN = 100
WHOLE = 100


class RolloutStrategy(StrEnum):
    """How a deployment changes to another revision."""

    ROLLING = "rolling"
    BLUE_GREEN = "blue-green"
    CANARY = "canary"


class WhenFull(StrEnum):
    """The ways to proceed if there is no room for additional replicas."""

    REPLACE = "replace"
    WAIT = "wait"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutPolicy:
    """How updates of a deployment proceed.

    `steps` are the percentages of a canary; with a `share` it stays at that percentage until it
    is promoted. `promote_after_s` promotes without a request. With `analysis` a revision that
    serves worse than the old one is rolled back.
    """

    strategy: RolloutStrategy = RolloutStrategy.ROLLING
    surge: int = 1
    unavailable: int = 0
    when_full: WhenFull = WhenFull.REPLACE
    steps: tuple[int, ...] = (5, 25, 50, 100)
    hold_s: int = 60
    promote_after_s: int | None = None
    keep_s: int = 600
    analysis: bool = True
    share: int | None = None

    def __post_init__(self) -> None:
        what = "rollout policy"
        require_kind(self.strategy, RolloutStrategy, what=what, field="strategy")
        require_kind(self.when_full, WhenFull, what=what, field="when_full")
        require_int(self.surge, what=what, field="surge", least=0, most=SURGE_MAX)
        require_int(self.unavailable, what=what, field="unavailable", least=0, most=SURGE_MAX)
        if not self.surge and not self.unavailable:
            raise InvalidSpec(what=what, field="surge", value=0, problem="surge and unavailable cannot both be 0")
        for name in ("hold_s", "keep_s"):
            require_int(getattr(self, name), what=what, field=name, least=0, most=HOLD_S_MAX)
        if self.promote_after_s is not None:
            require_int(self.promote_after_s, what=what, field="promote_after_s", least=0, most=HOLD_S_MAX)
        require_kind(self.analysis, bool, what=what, field="analysis")
        self._check_share(what)
        require_tuple(self.steps, int, what=what, field="steps")
        rising = list(self.steps) == sorted(set(self.steps)) and self.steps[-1:] == (WHOLE,)
        if not rising or len(self.steps) > STEPS_MAX or self.steps[0] < 1:
            problem = f"must be at most {STEPS_MAX} rising percentages that end with {WHOLE}"
            raise InvalidSpec(what=what, field="steps", value=self.steps, problem=problem)

    def _check_share(self, what: str) -> None:
        if self.share is None:
            return
        require_int(self.share, what=what, field="share", least=0, most=WHOLE)
        if self.strategy is not RolloutStrategy.CANARY:
            problem = f"is that of a canary, and the strategy is {self.strategy.value}"
            raise InvalidSpec(what=what, field="share", value=self.share, problem=problem)


class RolloutAction(StrEnum):
    """The effect of a decision on the rollout itself."""

    STAY = "stay"
    STEP = "step"
    AWAIT = "await"
    FINISH = "finish"
    FAIL = "fail"
    RESTORED = "restored"


@dataclass(frozen=True, slots=True)
class SideCounts:
    """The replicas of one revision.

    `counted` exist and are not ending; `active` serve; `settled` have served for a while;
    `present` also includes those that drain or stop; `failed` ended by themselves during the
    rollout, `late` of them because they were not ready in time. `smoke` says why smoke
    requests to one of those failed.
    """

    counted: int = 0
    active: int = 0
    settled: int = 0
    present: int = 0
    failed: int = 0
    late: int = 0
    smoke: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideTraffic:
    """The requests of one revision since the rollout began.

    `timed` of them got a first byte, 95 of 100 within `first_byte_p95_ms`.
    """

    served: int = 0
    failed: int = 0
    timed: int = 0
    first_byte_p95_ms: int = 0

    @property
    def requests(self) -> int:
        """All requests; one that was answered with a failure may count twice."""
        return self.served + self.failed


def worse(old: SideTraffic, new: SideTraffic) -> str:
    """Why the new revision serves worse than the old one; empty if it does not."""
    if new.requests < COMPARED_MIN or not old.requests:
        return ""
    # new.failed / new.requests > old.failed / old.requests + points / 100, without fractions
    allowed = (WHOLE * old.failed + ERROR_POINTS_MAX * old.requests) * new.requests
    if WHOLE * new.failed * old.requests > allowed:
        rates = " and ".join(f"{WHOLE * one.failed // one.requests} %" for one in (new, old))
        return f"more requests fail than before: {rates} of {new.requests} and {old.requests}"
    if min(old.timed, new.timed) < COMPARED_MIN:
        return ""
    later = WHOLE * new.first_byte_p95_ms > FIRST_BYTE_PERCENT_MAX * old.first_byte_p95_ms
    if later and new.first_byte_p95_ms - old.first_byte_p95_ms >= FIRST_BYTE_MS_MIN:
        times = f"{new.first_byte_p95_ms} ms and {old.first_byte_p95_ms} ms"
        return f"the first byte comes later than before: {times} for 95 of 100 requests"
    return ""


@dataclass(frozen=True, slots=True)
class RolloutDecision:
    """The wanted replicas of each revision, and the weight of the new one."""

    old: int
    new: int
    weight_new: int
    action: RolloutAction = RolloutAction.STAY
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutInput:
    """The state that a decision depends on.

    `surge` and `unavailable` are those in effect; `step` is the index of the canary's step
    and `step_ms` how long it has lasted; `backward` is set while it rolls back, `promoted`
    once it was promoted. `share` is the percentage that a canary has by hand, instead of that of
    the policy or its steps. `worse` says why the new revision serves worse than the old one.
    """

    policy: RolloutPolicy
    desired: int
    old: SideCounts
    new: SideCounts
    surge: int
    unavailable: int
    step: int = 0
    step_ms: int = 0
    backward: bool = False
    promoted: bool = False
    share: int | None = None
    worse: str = ""


def decide_rollout(given: RolloutInput) -> RolloutDecision:
    """The next state of a rollout."""
    if given.backward:
        return _back(given)
    if given.worse:
        return RolloutDecision(given.desired, given.new.counted, 0, RolloutAction.FAIL, given.worse)
    if given.new.smoke:
        reason = f"a new replica did not answer requests: {given.new.smoke}"
        return RolloutDecision(given.desired, given.new.counted, 0, RolloutAction.FAIL, reason)
    if given.new.late or given.new.failed >= FAILURES_MAX:
        reason = "a new replica was not ready in time" if given.new.late else "new replicas failed repeatedly"
        return RolloutDecision(given.desired, given.new.counted, 0, RolloutAction.FAIL, reason)
    match given.policy.strategy:
        case RolloutStrategy.ROLLING:
            return _rolling(given)
        case RolloutStrategy.BLUE_GREEN:
            return _blue_green(given)
        case RolloutStrategy.CANARY:
            return _canary(given)


def _rolling(given: RolloutInput) -> RolloutDecision:
    """Old replicas leave as new ones have settled; weights follow the numbers."""
    desired, new, old = given.desired, given.new, given.old
    old_wanted = max(0, desired - given.unavailable - new.settled)
    room = max(0, desired + given.surge - old.present)
    new_wanted = min(desired, max(room, new.counted))
    done = new.settled >= desired and old.counted == 0
    total = old.active + new.active
    weight = WHOLE * new.active // total if total else WHOLE
    action = RolloutAction.FINISH if done else RolloutAction.STAY
    return RolloutDecision(min(old_wanted, max(old.counted, 0)), new_wanted, weight, action)


def _blue_green(given: RolloutInput) -> RolloutDecision:
    """The whole new set at weight 0, then one change of weights."""
    desired = given.desired
    if given.promoted:
        kept = desired if given.step_ms < given.policy.keep_s * 1000 else 0
        action = RolloutAction.STAY if kept else RolloutAction.FINISH
        return RolloutDecision(min(kept, given.old.counted), desired, WHOLE, action)
    ready = given.new.settled >= desired
    return RolloutDecision(desired, desired, 0, RolloutAction.AWAIT if ready else RolloutAction.STAY)


def _canary(given: RolloutInput) -> RolloutDecision:
    """A growing share of requests, each held for a time."""
    policy, desired = given.policy, given.desired
    share = policy.share if given.share is None else given.share
    if share is not None and not given.promoted:
        # Old replicas stay, whatever the share is: it may be taken back.
        wanted = max(1, -(-desired * share // WHOLE)) if desired else 0
        return RolloutDecision(desired, wanted, share if given.new.active else 0)
    percent = WHOLE if given.promoted else policy.steps[min(given.step, len(policy.steps) - 1)]
    new_wanted = -(-desired * percent // WHOLE)
    reached = given.new.settled >= new_wanted
    if percent == WHOLE:
        old_wanted = 0 if reached else desired
        done = reached and given.old.counted == 0
        weight = WHOLE if reached else _share(given, policy.steps)
        return RolloutDecision(
            min(old_wanted, given.old.counted), new_wanted, weight, RolloutAction.FINISH if done else RolloutAction.STAY
        )
    weight = percent if given.new.active else 0
    held = reached and given.step_ms >= policy.hold_s * 1000
    return RolloutDecision(desired, new_wanted, weight, RolloutAction.STEP if held else RolloutAction.STAY)


def _share(given: RolloutInput, steps: tuple[int, ...]) -> int:
    """The weight of the step before, until all new replicas have settled."""
    before = steps[max(0, min(given.step, len(steps) - 1) - 1)]
    return before if given.new.active else 0


def _back(given: RolloutInput) -> RolloutDecision:
    """All requests to the old revision; the new replicas go once the old ones suffice."""
    restored = given.old.active >= given.desired or not given.new.active
    new_wanted = 0 if restored else given.new.counted
    done = given.new.counted == 0
    weight = 0 if given.old.active else WHOLE
    return RolloutDecision(given.desired, new_wanted, weight, RolloutAction.RESTORED if done else RolloutAction.STAY)
