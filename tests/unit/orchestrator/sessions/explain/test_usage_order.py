"""The usage that orders a pending session, as `why` shows it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.owners.past_usage import UsageKey, UsageScope
from sokovan.orchestrator.sessions.explain.usage_order import usage_check
from sokovan.testing.ledger_rows import add_past_usage
from sokovan.testing.stored_cluster import DEFAULT_GROUP
from tests.unit.orchestrator.sessions.controller_harness import ControllerHarness, controller_harness


@pytest.fixture
async def harness() -> AsyncIterator[ControllerHarness]:
    async with controller_harness() as controller:
        await controller.cluster.agent("a1")
        yield controller


@pytest.mark.slow
async def test_a_pending_session_shows_the_usage_of_its_group_and_user(harness: ControllerHarness) -> None:
    await harness.cluster.put(ScalingGroup(DEFAULT_GROUP, scheduler="fair-share"))
    session = await harness.submit(resources={"gpu": 9})
    key = UsageKey(DEFAULT_GROUP, UsageScope.USER, session.spec.owner.user, "cpu")
    await add_past_usage(harness.cluster.store, key, 60_000)
    await harness.cycle()
    answer = await harness.controller.why(session.session_id)
    (check,) = [check for check in answer.checks if check.name == "fair-share"]
    assert f"group {session.spec.owner.group} has used 0 s per weight" in check.detail
    # A minute of a core, which weighs 4; a second of it may have decayed.
    assert any(f"user {key.name} has used {used} s per weight" in check.detail for used in (239, 240))
    assert check.detail.endswith("the least goes first")


async def test_other_sequencers_show_no_usage(harness: ControllerHarness) -> None:
    session = await harness.submit(resources={"gpu": 9})
    assert await harness.cluster.store.read(lambda unit: usage_check(unit, session, ScalingGroup(DEFAULT_GROUP))) == ()
