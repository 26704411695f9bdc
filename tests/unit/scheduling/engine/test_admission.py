"""SessionAdmission: gang size, feasibility and limits of the owner."""

from __future__ import annotations

import pytest

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.agent_health import AgentHealth
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.owners.policy import Scope
from sokovan.domain.session import Partition
from sokovan.domain.slot_notation import parse_slots
from sokovan.scheduling.cycle_validators import CycleValidators
from sokovan.scheduling.engine.admission import SessionAdmission
from sokovan.scheduling.engine.pending_session import PendingReason
from sokovan.scheduling.engine.usage.array_usage import ArrayUsage
from sokovan.scheduling.engine.usage.owner_backlog import OwnerBacklogs
from sokovan.scheduling.engine.usage.owner_ledger import OwnerLedger
from sokovan.scheduling.extensions import Extensions, PluginFailed, SchedulingPlugin
from sokovan.scheduling.profile import VALIDATORS_DEFAULT
from sokovan.scheduling.registry import BUILT_IN
from sokovan.scheduling.snapshot import SessionWorkload, SystemSnapshot
from sokovan.scheduling.trace import Check, Code
from sokovan.scheduling.validators.base import ValidationContext
from tests.unit.scheduling.engine.builders import (
    EngineParts,
    agent,
    agents,
    gang,
    kernel,
    limited,
    owner,
    planned,
    session,
    snapshot,
    using,
)

ALICE = owner("alice")


def admission(given: SystemSnapshot, *plugins: SchedulingPlugin) -> tuple[SessionAdmission, OwnerLedger]:
    ledger, pending, arrays = OwnerLedger(given), OwnerBacklogs(given), ArrayUsage(given.sessions)
    rules = CycleValidators(
        [BUILT_IN.validator(name) for name in VALIDATORS_DEFAULT], ValidationContext(given, ledger, pending, arrays)
    )
    return SessionAdmission(rules, ledger, pending, Extensions(plugins), arrays=arrays), ledger


def unschedulable(machines: tuple[AgentInfo, ...], work: SessionWorkload) -> PendingReason | None:
    return admission(snapshot(machines, work))[0].unschedulable(EngineParts(*machines).pending(work))


def code(machines: tuple[AgentInfo, ...], work: SessionWorkload) -> Code | None:
    reason = unschedulable(machines, work)
    return None if reason is None else reason.code


@pytest.mark.parametrize(
    "work",
    [gang("s", 1, "cpu=8"), gang("s", 4, "cpu=4"), gang("s", 9, "cpu=8", min_kernels=2), gang("s", 2, "")],
    ids=["one kernel", "a gang", "an elastic session", "best effort"],
)
def test_what_an_empty_cluster_could_hold_is_not_hopeless(work: SessionWorkload) -> None:
    full = tuple(agent(f"a{index}", "cpu=8", used="cpu=8") for index in range(2))
    assert unschedulable(full, work) is None


def test_a_session_that_demands_more_kernels_than_it_has_gets_the_numbers() -> None:
    reason = unschedulable(agents(2, "cpu=8"), gang("s", 2, "cpu=1", min_kernels=3))
    assert reason is not None
    assert reason.code is Code.NOT_ENOUGH_KERNELS
    assert reason.text == "3 kernels must start together, but the session has 2"


def test_a_group_or_partition_that_demands_more_than_there_is_gets_the_numbers() -> None:
    reason = unschedulable(agents(2, "cpu=8"), gang("s", 2, "cpu=1", group_minimums={"": 3}))
    assert reason is not None
    assert reason == PendingReason(
        Code.NOT_ENOUGH_KERNELS, "3 kernels of group '' must start together, but there are 2"
    )
    pods = [kernel(f"k{index}", "cpu=1", labels={"pod": "x"}) for index in range(2)]
    partition = Partition("pods", "pod", size=2, min_groups=2)
    reason = unschedulable(agents(2, "cpu=8"), session("s", *pods, partitions=(partition,)))
    assert reason == PendingReason(Code.NOT_ENOUGH_KERNELS, "2 groups of 2 by pod are needed, there are 1")


def test_a_kernel_larger_than_any_agent_never_fits() -> None:
    assert code(agents(2, "cpu=8"), gang("s", 1, "cpu=9")) is Code.NEVER_FITS
    assert code((), gang("s", 1, "cpu=1")) is Code.NEVER_FITS


def test_a_gang_larger_than_the_empty_cluster_never_fits() -> None:
    assert code(agents(2, "cpu=8"), gang("s", 5, "cpu=4")) is Code.NEVER_FITS
    assert code(agents(2, "cpu=8"), gang("s", 5, "cpu=4", min_kernels=4)) is None


def test_the_failure_names_the_shape_that_is_the_trouble() -> None:
    machines = agents(1, "cpu=8")
    reason = unschedulable(machines, session("s", kernel("fits", "cpu=1"), kernel("does-not", "cpu=9")))
    assert reason is not None
    assert reason.shape is not None
    assert reason.shape.slots == parse_slots("cpu=9")


def test_what_only_draining_agents_could_hold_waits_for_them() -> None:
    machines = (agent("a0", "cpu=4"), agent("a1", "cpu=64", status=AgentStatus.DRAINING))
    assert code(machines, gang("s", 1, "cpu=8")) is Code.NODES_DRAINING
    assert code(machines, gang("s", 1, "cpu=65")) is Code.NEVER_FITS


def test_what_only_failing_agents_could_hold_waits_for_them() -> None:
    machines = (agent("a0", "cpu=4"), agent("a1", "cpu=8", health=AgentHealth(failing_ms=1)))
    assert code(machines, gang("s", 1, "cpu=8")) is Code.AGENTS_FAILING
    assert code(machines, gang("s", 1, "cpu=9")) is Code.NEVER_FITS
    drained = (*machines, agent("a2", "cpu=16", status=AgentStatus.DRAINING))
    assert code(drained, gang("s", 1, "cpu=16")) is Code.NODES_DRAINING


def test_what_only_agents_of_another_shard_could_hold_gets_that_code() -> None:
    machines = (agent("a0", "cpu=4", shard="mine"), agent("a1", "cpu=8", shard="yours"))
    engine, work = EngineParts(*machines, own_shard="mine", hard_shards=True), gang("s", 1, "cpu=8")
    reason = admission(snapshot(machines, work))[0].unschedulable(engine.pending(work))
    assert reason is not None
    assert reason.code is Code.OTHER_SHARD


def test_what_runs_already_need_not_be_held_again() -> None:
    running = [kernel(f"r{index}", "cpu=8", at="a0") for index in range(2)]
    assert code(agents(1, "cpu=8"), session("s", *running, kernel("k", "cpu=8"))) is None


def test_a_gang_that_loses_a_kernel_and_has_too_few_left_gets_that_code_instead_of_stopping_the_cycle() -> None:
    work = session("s", kernel("leaves", "cpu=1", at="a0", releasing=True), kernel("waits", "cpu=1"))
    assert unschedulable(agents(1, "cpu=8"), work) is not None


def test_a_limit_is_checked_against_what_the_next_attempt_would_take() -> None:
    given = snapshot([], usage=using("alice", "cpu=2"), limits=limited("alice", slots_max="cpu=4"))
    checked, _ = admission(given)
    engine = EngineParts(*agents(1, "cpu=8"))
    assert checked.objection(engine.pending(gang("s", 9, "cpu=1", min_kernels=2, owner=ALICE))) is None
    reason = checked.objection(engine.pending(gang("s", 9, "cpu=1", min_kernels=3, owner=ALICE)))
    assert reason is not None
    assert reason.code is Code.QUOTA_KEYPAIR
    assert reason.text == "keypair alice requests 3 cpu with 2 of 4 in use"


def test_all_objections_are_collected_and_the_first_gives_the_code() -> None:
    given = snapshot(
        [], usage=using("alice", "cpu=4", sessions=3), limits=limited("alice", slots_max="cpu=4", sessions_max=3)
    )
    checked, _ = admission(given)
    pending = EngineParts(*agents(1, "cpu=8")).pending(
        gang("s", 1, "cpu=1", owner=ALICE, dependencies=(SessionId("other"),))
    )
    reason = checked.objection(pending)
    assert reason is not None
    assert reason.code is Code.QUOTA_KEYPAIR
    assert [(check.name, check.result) for check in reason.checks] == [
        ("keypair-resource-limit", "no"),
        ("concurrency", "no"),
        ("dependencies", "no"),
    ]
    assert reason.text == "; ".join(check.detail for check in reason.checks)


def test_a_session_without_objections_has_the_list_of_checks() -> None:
    checked, _ = admission(snapshot([]))
    pending = EngineParts(*agents(1, "cpu=8")).pending(gang("s", 1, "cpu=1"))
    assert checked.objection(pending) is None
    assert pending.checks == tuple(Check(name, "ok") for name in VALIDATORS_DEFAULT)


def test_what_is_counted_is_seen_by_the_next_session_of_the_owner() -> None:
    given = snapshot([], limits=limited("alice", slots_max="cpu=4", sessions_max=1))
    checked, ledger = admission(given)
    engine = EngineParts(*agents(1, "cpu=8"))
    first, second = (
        engine.pending(gang("s", 1, "cpu=3", owner=ALICE)),
        engine.pending(gang("t", 1, "cpu=3", owner=ALICE)),
    )
    assert checked.objection(first) is None
    checked.count(first, [(parse_slots("cpu=3"), 1)])
    assert ledger.account(Scope.KEYPAIR, "alice").sessions == 1
    reason = checked.objection(second)
    assert reason is not None
    assert [check.name for check in reason.checks] == ["keypair-resource-limit", "concurrency"]


def test_a_session_that_grows_counts_as_one_session_once() -> None:
    checked, ledger = admission(snapshot([], limits=limited("alice", sessions_max=9)))
    pending = EngineParts(*agents(1, "cpu=8")).pending(gang("s", 3, "cpu=1", min_kernels=1, owner=ALICE))
    checked.count(pending, [(parse_slots("cpu=1"), 1)])
    pending.placed = 1
    checked.count(pending, [(parse_slots("cpu=1"), 1)])
    account = ledger.account(Scope.KEYPAIR, "alice")
    assert (account.sessions, account.used) == (1, {"cpu": 2000})


def test_the_slots_of_an_attempt_are_checked_if_they_differ_from_the_expected_ones() -> None:
    checked, _ = admission(snapshot([], limits=limited("alice", slots_max="cpu=4")))
    pending = EngineParts(*agents(1, "cpu=8")).pending(gang("s", 2, "cpu=1", owner=ALICE))
    assert checked.objection(pending) is None
    assert checked.over_limit(pending, parse_slots("cpu=4")) is None
    reason = checked.over_limit(pending, parse_slots("cpu=5"))
    assert reason is not None
    assert reason.code is Code.QUOTA_KEYPAIR


class Strict(SchedulingPlugin):
    name = "strict"

    def session_valid(self, session: SessionWorkload) -> str | None:
        if session.session_id == "breaks":
            raise ZeroDivisionError("oh")
        return "not on a Sunday" if session.session_id == "refused" else None


def test_a_plugin_may_refuse_a_session_with_its_own_text() -> None:
    checked, _ = admission(snapshot([]), Strict())
    engine = EngineParts(*agents(1, "cpu=8"))
    assert checked.objection(engine.pending(gang("welcome", 1, "cpu=1"))) is None
    assert checked.objection(engine.pending(gang("refused", 1, "cpu=1"))) == PendingReason(
        Code.REFUSED_BY_PLUGIN, "not on a Sunday"
    )
    with pytest.raises(PluginFailed, match="plugin strict failed in session_valid: ZeroDivisionError: oh"):
        checked.objection(engine.pending(gang("breaks", 1, "cpu=1")))


def test_a_session_whose_last_kernel_leaves_may_start_anew_under_a_pending_limit() -> None:
    work = session(
        "s", kernel("leaves", "cpu=1", at="a0", releasing=True), kernel("waits", "cpu=1"), min_kernels=1, owner=ALICE
    )
    plan = planned(snapshot(agents(1, "cpu=8"), work, limits=limited("alice", pending_sessions_max=3)))
    assert plan.trace[SessionId("s")].code is Code.PLACED
