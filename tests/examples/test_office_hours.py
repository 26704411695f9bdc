"""The example validator: what it says, and whom it leaves alone."""

from __future__ import annotations

import pytest

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.session import SessionType
from sokovan.domain.slot_notation import parse_slots
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.profile import VALIDATORS_DEFAULT, SchedulingProfile
from sokovan.scheduling.registry import PluginRegistry
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload, SystemSnapshot
from sokovan.scheduling.trace import Code, Verdict

HOUR_MS = 3_600_000
MONDAY_MS = 4 * 24 * HOUR_MS  # 5 January 1970
PROFILE = SchedulingProfile(validators=(*VALIDATORS_DEFAULT, "office-hours"))


def _verdict(registry: PluginRegistry, *, hours: int, kind: SessionType, running: bool = False) -> Verdict:
    """What a session is told so many hours after Monday began; `running` gives it a first kernel."""
    first = KernelWorkload(KernelId("k0"), parse_slots("cpu=1"), agent=AgentId("a1") if running else None)
    second = KernelWorkload(KernelId("k1"), parse_slots("cpu=1"))
    session = SessionWorkload(SessionId("s"), (first, second), session_type=kind, min_kernels=1)
    agent = AgentInfo(
        AgentId("a1"),
        parse_slots("cpu=4"),
        occupied_slots=parse_slots("cpu=1") if running else parse_slots("cpu=0"),
        kernel_count=int(running),
    )
    snapshot = SystemSnapshot((agent,), (session,), now_ms=MONDAY_MS + hours * HOUR_MS)
    return schedule(snapshot, PROFILE, registry).trace[SessionId("s")]


@pytest.mark.parametrize(
    ("hours", "opened"),
    [(0, False), (7, False), (8, True), (17, True), (18, False), (4 * 24 + 9, True), (5 * 24 + 9, False)],
)
def test_interactive_sessions_start_in_office_hours_only(hours: int, opened: bool, registry: PluginRegistry) -> None:
    verdict = _verdict(registry, hours=hours, kind=SessionType.INTERACTIVE)

    assert verdict.code is (Code.PLACED if opened else Code.REFUSED_BY_PLUGIN)


def test_the_objection_says_what_time_it_is_and_names_the_rule(registry: PluginRegistry) -> None:
    verdict = _verdict(registry, hours=5 * 24 + 9, kind=SessionType.INTERACTIVE)
    said = {check.name: check.result for check in verdict.checks}

    assert "it is Saturday, 09:00" in verdict.summary
    assert said["office-hours"] == "no"
    assert said["concurrency"] == "ok"


@pytest.mark.parametrize("kind", [SessionType.BATCH, SessionType.INFERENCE])
def test_other_sessions_start_at_night(kind: SessionType, registry: PluginRegistry) -> None:
    assert _verdict(registry, hours=3, kind=kind).code is Code.PLACED


def test_a_session_that_runs_may_grow_at_night(registry: PluginRegistry) -> None:
    assert _verdict(registry, hours=3, kind=SessionType.INTERACTIVE, running=True).code is Code.PLACED
