"""Sequencers: they order waiting sessions of equal priority."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sokovan.domain.owners.tenancy import Owner
from sokovan.scheduling.engine.usage.owner_ledger import OwnerLedger
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.sequencers.base import SequencingContext, WorkloadSequencer, by_age
from sokovan.scheduling.snapshot import SessionWorkload
from tests.unit.scheduling.little_cluster import (
    agent,
    decide,
    registry_with,
    session,
    snapshot,
    started,
    verdict_of,
)


class Alphabetical(WorkloadSequencer):
    """A custom sequencer, as a third party would write it."""

    name = "alphabetical"

    def sequence(self, sessions: Sequence[SessionWorkload], context: SequencingContext) -> Sequence[SessionWorkload]:
        del context
        return sorted(sessions, key=lambda one: one.session_id)


def plan_by(sequencer: type[WorkloadSequencer], *sessions: SessionWorkload) -> SchedulingPlan:
    """The plan by a custom sequencer on a large cluster."""
    registry = registry_with(sequencers={sequencer.name: sequencer})
    return decide(snapshot([agent("a", "cpu=64")], sessions), registry, sequencer=sequencer.name)


def test_a_custom_sequencer_orders_sessions_of_equal_priority() -> None:
    plan = plan_by(Alphabetical, session("c"), session("a"), session("z", priority=1), session("b"))
    assert started(plan) == ["z", "a", "b", "c"]


def test_keys_compete_by_a_share_that_is_read_again_after_every_placement() -> None:
    class FewestSessions(Alphabetical):
        name = "fewest"

        def fairness_key(self, session: SessionWorkload) -> str:
            return session.owner.group

        def share(self, session: SessionWorkload, context: SequencingContext) -> int:
            return context.ledger.accounts(session.owner)[2].sessions

    red, blue = [[session(f"{g}{i}", owner=Owner(group=g)) for i in range(2)] for g in ("red", "blue")]
    assert started(plan_by(FewestSessions, *red, *blue)) == ["blue0", "red0", "blue1", "red1"]


def test_a_sequencer_that_fails_is_named_and_sessions_go_by_age() -> None:
    class Broken(Alphabetical):
        name = "broken"

        def sequence(self, sessions: Sequence[SessionWorkload], context: SequencingContext) -> list[SessionWorkload]:
            raise ZeroDivisionError(f"{len(sessions)} over {context.snapshot.now_ms}")

    plan = plan_by(Broken, session("z"), session("a"))
    assert started(plan) == ["z", "a"]
    [note] = [check for check in verdict_of(plan, "a").checks if check.result == "no"]
    assert note.detail == "sequencer broken failed: ZeroDivisionError: 2 over 0; sessions go by age"


def test_a_sequencer_that_loses_a_session_is_named_and_no_session_is_lost() -> None:
    class Forgetful(Alphabetical):
        name = "forgetful"

        def sequence(self, sessions: Sequence[SessionWorkload], context: SequencingContext) -> list[SessionWorkload]:
            del context
            return list(sessions)[1:]

    plan = plan_by(Forgetful, session("z"), session("a"))
    assert started(plan) == ["z", "a"]
    assert "sequencer forgetful lost or duplicated sessions" in verdict_of(plan, "z").checks[-1].detail


def test_a_sequencer_that_doubles_a_session_starts_no_session_twice() -> None:
    class Stammering(Alphabetical):
        name = "stammering"

        def sequence(self, sessions: Sequence[SessionWorkload], context: SequencingContext) -> list[SessionWorkload]:
            del context
            return [*sessions, *sessions]

    plan = plan_by(Stammering, session("z"), session("a"))
    assert [placement.kernel_id for placement in plan.placements] == ["z.0", "a.0"]
    assert "lost or duplicated" in verdict_of(plan, "a").checks[-1].detail


@pytest.mark.parametrize("method", ["fairness_key", "share"])
def test_a_sequencer_whose_keys_fail_is_named_and_no_session_is_lost(method: str) -> None:
    class Broken(Alphabetical):
        name = "broken"

        def fairness_key(self, session: SessionWorkload) -> str:
            return self._broken("fairness_key", session.owner.user)

        def share(self, session: SessionWorkload, context: SequencingContext) -> int:
            del context
            return len(self._broken("share", session.owner.user))

        def _broken(self, where: str, answer: str) -> str:
            if where == method:
                raise ZeroDivisionError("out of cheese")
            return answer

    plan = plan_by(Broken, session("b", user="bob"), session("a", user="alice"))
    assert sorted(started(plan)) == ["a", "b"]
    [note] = [check for check in verdict_of(plan, "a").checks if check.result == "no"]
    assert note.detail == f"sequencer broken failed in {method}: ZeroDivisionError: out of cheese"


def test_by_default_all_sessions_are_under_one_key_with_share_zero() -> None:
    seen = snapshot([])
    context = SequencingContext(seen, session("x", "cpu=1").kernels[0].slots, OwnerLedger(seen))
    assert Alphabetical().fairness_key(session("s", user="alice")) == Alphabetical().fairness_key(
        session("t", user="bob")
    )
    assert Alphabetical().share(session("s"), context) == 0


def test_age_is_the_time_of_submission_then_the_id() -> None:
    sessions = [session("b", submitted=1), session("c", submitted=0), session("a", submitted=1)]
    assert [one.session_id for one in by_age(sessions)] == ["c", "a", "b"]
