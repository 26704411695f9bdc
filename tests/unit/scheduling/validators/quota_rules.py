"""Rules of a resource limit in all four scopes; the tests of each scope run these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sokovan.domain.ids import AccessKey
from sokovan.domain.owners.policy import Scope
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.slot_notation import parse_slots
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.snapshot import OwnerUsage, SessionWorkload
from sokovan.scheduling.trace import Code
from tests.unit.scheduling.little_cluster import (
    agent,
    decide,
    kernel,
    limits,
    session,
    snapshot,
    started,
    verdict_of,
)

_FIELDS = {Scope.KEYPAIR: "access_key", Scope.USER: "user", Scope.GROUP: "group", Scope.DOMAIN: "domain"}


@dataclass(frozen=True)
class QuotaRules:
    """One scope, its validator and the code that it objects with."""

    scope: Scope
    validator: str
    code: Code

    def owner(self, name: str, **others: str) -> Owner:
        """An owner with this name in this scope."""
        named = {"user": "anyone", "group": "anyone", "domain": "anyone", "access_key": "anyone", **others}
        named[_FIELDS[self.scope]] = name
        return Owner(named["user"], named["group"], named["domain"], AccessKey(named["access_key"]))

    def plan(self, *sessions: SessionWorkload, slots: str = "cpu=2 mem=4Gi", used: str = "") -> SchedulingPlan:
        """The plan on a wide cluster where `limited` has a limit in this scope and uses something already."""
        usage = {self.scope: {"limited": OwnerUsage(parse_slots(used))}}
        seen = snapshot(
            [agent("a", "cpu=64 mem=64Gi")], sessions, limits=limits(self.scope, "limited", slots), usage=usage
        )
        return decide(seen, validators=(self.validator,))

    def of(self, name: str, *requests: str, by: str = "limited") -> SessionWorkload:
        """A session of an owner with this name in this scope."""
        return session(name, *requests, owner=self.owner(by))

    def a_request_up_to_the_limit_passes(self) -> None:
        """The limit itself may be reached."""
        assert started(self.plan(self.of("s", "cpu=2 mem=4Gi"))) == ["s"]

    def a_request_beyond_the_limit_is_refused_with_the_numbers(self) -> None:
        """The verdict has the code of the scope, the requested amount, the usage and the limit."""
        plan = self.plan(self.of("s", "cpu=1.5"), used="cpu=1")
        verdict = verdict_of(plan, "s")
        assert started(plan) == []
        assert verdict.code is self.code
        assert verdict.summary == f"{self.scope} limited requests 1.5 cpu with 1 of 2 in use"
        assert (self.validator, "no") in {check[:2] for check in verdict.checks}

    def every_slot_that_would_pass_its_limit_is_named(self) -> None:
        """All limits are reported, not only the first."""
        summary = verdict_of(self.plan(self.of("s", "cpu=3 mem=8Gi")), "s").summary
        assert "3 cpu with 0 of 2 in use" in summary
        assert "8Gi mem with 0 of 4Gi in use" in summary

    def two_sessions_cannot_pass_one_limit_together(self) -> None:
        """Each fits alone; the usage of the first counts for the second."""
        plan = self.plan(self.of("s", "cpu=2"), self.of("t", "cpu=1"))
        assert started(plan) == ["s"]
        assert verdict_of(plan, "t").summary == f"{self.scope} limited requests 1 cpu with 2 of 2 in use"

    def a_gang_counts_as_a_whole(self) -> None:
        """Kernels that start together are validated together."""
        plan = self.plan(self.of("gang", "cpu=1", "cpu=1", "cpu=1"), self.of("t", "cpu=2"))
        assert started(plan) == ["t"]
        assert "3 cpu" in verdict_of(plan, "gang").summary

    def a_session_grows_only_up_to_the_limit(self) -> None:
        """Beyond its minimum a session is validated again for every kernel."""
        kernels = [kernel(f"s.{index}") for index in range(4)]
        plan = self.plan(session("s", *kernels, min_kernels=1, owner=self.owner("limited")))
        assert len(plan.placements) == 2

    def another_owner_is_not_concerned(self) -> None:
        """The limit is on one owner; others in the same cluster have none."""
        assert started(self.plan(self.of("s", "cpu=9", by="free"), self.of("t", "cpu=9"))) == ["s"]

    def owners_who_share_only_this_scope_share_the_limit(self) -> None:
        """Only the name in this scope counts."""
        others = {field: f"other-{field.replace('_', '-')}" for field in _FIELDS.values()}
        other = session("t", "cpu=1", owner=self.owner("limited", **others))
        plan = self.plan(self.of("s", "cpu=2"), other)
        assert started(plan) == ["s"]
        assert verdict_of(plan, "t").code is self.code

    def a_limit_of_zero_is_a_limit_and_an_unnamed_slot_is_free(self) -> None:
        """A limit of 0 forbids one slot and no other."""
        plan = self.plan(self.of("s", "mem=1Gi"), self.of("t", "cpu=32"), slots="mem=0")
        assert started(plan) == ["t"]

    def all(self) -> list[Callable[[], None]]:
        """All rules."""
        return [
            self.a_request_up_to_the_limit_passes,
            self.a_request_beyond_the_limit_is_refused_with_the_numbers,
            self.every_slot_that_would_pass_its_limit_is_named,
            self.two_sessions_cannot_pass_one_limit_together,
            self.a_gang_counts_as_a_whole,
            self.a_session_grows_only_up_to_the_limit,
            self.another_owner_is_not_concerned,
            self.owners_who_share_only_this_scope_share_the_limit,
            self.a_limit_of_zero_is_a_limit_and_an_unnamed_slot_is_free,
        ]
