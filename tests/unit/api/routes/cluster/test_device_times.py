"""Times in which agents took no new kernels, from their history."""

from __future__ import annotations

import pytest

from sokovan.api.mapping.times import time_text
from sokovan.api.routes.cluster.device_times import closed_views, hold_view
from sokovan.domain.ids import AgentId, SessionId
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.owners.access import UNOWNED, Ownership
from sokovan.domain.records import Change, DeviceHold, HeldDevice, HistoryEntry
from sokovan.testing.stored_cluster import StoredCluster

CHANGE = Change("eva", Cause.CONTROLLER, "c", "")


def moves(*steps: tuple[str | None, str, int]) -> list[HistoryEntry]:
    return [
        HistoryEntry(number, before, after, "t", CHANGE, at_ms, at_ms)
        for number, (before, after, at_ms) in enumerate(steps)
    ]


@pytest.mark.parametrize(
    ("from_ms", "to_ms", "expected"),
    [
        (0, 99, [("draining", 10, 20), ("lost", 30, None)]),
        (20, 30, []),
        (15, 18, [("draining", 10, 20)]),
        (90, 99, [("lost", 30, None)]),
    ],
)
async def test_an_agent_is_closed_until_it_is_alive_again(
    from_ms: int, to_ms: int, expected: list[tuple[str, int, int | None]]
) -> None:
    async with StoredCluster.open() as cluster:
        agent = await cluster.agent("a")
    history = moves(
        (None, "alive", 1), ("alive", "draining", 10), ("draining", "draining", 12), ("draining", "alive", 20),
        ("alive", "lost", 30),
    )  # fmt: skip
    found = closed_views(agent, history, from_ms=from_ms, to_ms=to_ms)
    assert [(one.status, one.since, one.until) for one in found] == [
        (status, time_text(since), None if until is None else time_text(until)) for status, since, until in expected
    ]


def test_a_session_is_named_only_to_those_who_see_it() -> None:
    device = HeldDevice(AgentId("a"), "d0", 1, SessionId("s"), "ddp", "q", "ada", "north")
    hold = DeviceHold(device, 5, None)
    assert hold_view(hold, UNOWNED).name == "ddp"
    assert hold_view(hold, Ownership(user="ada")).session == "s"
    hidden = hold_view(hold, Ownership(domain="south"))
    assert (hidden.session, hidden.name, hidden.user, hidden.queue, hidden.device) == ("", "", "", "", "d0")
