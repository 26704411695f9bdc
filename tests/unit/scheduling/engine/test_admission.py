"""SessionAdmission: gang size, feasibility and limits of the owner."""

from __future__ import annotations

import pytest

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.policy import Scope
from sokovan.domain.session import Partition
from sokovan.domain.slot_notation import parse_slots
from sokovan.scheduling.cycle_validators import CycleValidators
from sokovan.scheduling.engine.admission import SessionAdmission
from sokovan.scheduling.engine.pending_session import PendingReason
from sokovan.scheduling.engine.usage.owner_ledger import KeypairBacklogs, OwnerLedger
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
    ledger, pending = OwnerLedger(given), KeypairBacklogs(given)
    rules = CycleValidators(
        [BUILT_IN.validator(name) for name in VALIDATORS_DEFAULT], ValidationContext(given, ledger, pending)
    )
    return SessionAdmission(rules, ledger, pending, Extensions(plugins)), ledger


def hopeless(machines: tuple[AgentInfo, ...], work: SessionWorkload) -> PendingReason | None:
    return admission(snapshot(machines, work))[0].unschedulable(EngineParts(*machines).pending(work))


def code(machines: tuple[AgentInfo, ...], work: SessionWorkload) -> Code | None:
    failure = hopeless(machines, work)
    return None if failure is None else failure.code


@pytest.mark.parametrize(
    "work",
    [gang("s", 1, "cpu=8"), gang("s", 4, "cpu=4"), gang("s", 9, "cpu=8", min_kernels=2), gang("s", 2, "")],
    ids=["one kernel", "a gang", "an elastic session", "best effort"],
)
def test_what_an_empty_cluster_could_hold_is_not_hopeless(work: SessionWorkload) -> None:
    full = tuple(agent(f"a{index}", "cpu=8", used="cpu=8") for index in range(2))
    assert hopeless(full, work) is None


def test_a_session_that_demands_more_kernels_than_it_has_gets_the_numbers() -> None:
    failure = hopeless(agents(2, "cpu=8"), gang("s", 2, "cpu=1", min_kernels=3))
    assert failure is not None
    assert failure.code is Code.NOT_ENOUGH_KERNELS
    assert failure.text == "3 kernels must start together, but the session has 2"


def test_a_group_or_partition_that_demands_more_than_there_is_gets_the_numbers() -> None:
    failure = hopeless(agents(2, "cpu=8"), gang("s", 2, "cpu=1", group_minimums={"": 3}))
    assert failure is not None
    assert failure == PendingReason(
        Code.NOT_ENOUGH_KERNELS, "3 kernels of group '' must start together, but there are 2"
    )
    pods = [kernel(f"k{index}", "cpu=1", labels={"pod": "x"}) for index in range(2)]
    wanted = Partition("pods", "pod", size=2, min_groups=2)
    failure = hopeless(agents(2, "cpu=8"), session("s", *pods, partitions=(wanted,)))
    assert failure == PendingReason(Code.NOT_ENOUGH_KERNELS, "2 groups of 2 by pod are needed, there are 1")


def test_a_kernel_larger_than_any_agent_never_fits() -> None:
    assert code(agents(2, "cpu=8"), gang("s", 1, "cpu=9")) is Code.NEVER_FITS
    assert code((), gang("s", 1, "cpu=1")) is Code.NEVER_FITS


def test_a_gang_larger_than_the_empty_cluster_never_fits() -> None:
    assert code(agents(2, "cpu=8"), gang("s", 5, "cpu=4")) is Code.NEVER_FITS
    assert code(agents(2, "cpu=8"), gang("s", 5, "cpu=4", min_kernels=4)) is None


def test_the_failure_names_the_shape_that_is_the_trouble() -> None:
    machines = agents(1, "cpu=8")
    failure = hopeless(machines, session("s", kernel("fits", "cpu=1"), kernel("does-not", "cpu=9")))
    assert failure is not None
    assert failure.shape is not None
    assert failure.shape.slots == parse_slots("cpu=9")


def test_what_only_draining_agents_could_hold_waits_for_them() -> None:
    machines = (agent("a0", "cpu=4"), agent("a1", "cpu=64", status=AgentStatus.DRAINING))
    assert code(machines, gang("s", 1, "cpu=8")) is Code.NODES_DRAINING
    assert code(machines, gang("s", 1, "cpu=65")) is Code.NEVER_FITS


def test_what_only_agents_of_another_shard_could_hold_gets_that_code() -> None:
    machines = (agent("a0", "cpu=4", shard="mine"), agent("a1", "cpu=8", shard="yours"))
    engine, work = EngineParts(*machines, own_shard="mine", hard_shards=True), gang("s", 1, "cpu=8")
    failure = admission(snapshot(machines, work))[0].unschedulable(engine.pending(work))
    assert failure is not None
    assert failure.code is Code.OTHER_SHARD


def test_what_runs_already_need_not_be_held_again() -> None:
    running = [kernel(f"r{index}", "cpu=8", at="a0") for index in range(2)]
    assert code(agents(1, "cpu=8"), session("s", *running, kernel("k", "cpu=8"))) is None


def test_a_gang_that_loses_a_kernel_and_has_too_few_left_gets_that_code_instead_of_stopping_the_cycle() -> None:
    work = session("s", kernel("leaves", "cpu=1", at="a0", releasing=True), kernel("waits", "cpu=1"))
    assert hopeless(agents(1, "cpu=8"), work) is not None


def test_a_limit_is_checked_against_what_the_next_attempt_would_take() -> None:
    given = snapshot([], usage=using("alice", "cpu=2"), limits=limited("alice", slots_max="cpu=4"))
    asked, _ = admission(given)
    engine = EngineParts(*agents(1, "cpu=8"))
    assert asked.objection(engine.pending(gang("s", 9, "cpu=1", min_kernels=2, owner=ALICE))) is None
    failure = asked.objection(engine.pending(gang("s", 9, "cpu=1", min_kernels=3, owner=ALICE)))
    assert failure is not None
    assert failure.code is Code.QUOTA_KEYPAIR
    assert failure.text == "keypair alice requests 3 cpu with 2 of 4 in use"


def test_all_objections_are_collected_and_the_first_gives_the_code() -> None:
    given = snapshot(
        [], usage=using("alice", "cpu=4", sessions=3), limits=limited("alice", slots_max="cpu=4", sessions_max=3)
    )
    asked, _ = admission(given)
    pending = EngineParts(*agents(1, "cpu=8")).pending(
        gang("s", 1, "cpu=1", owner=ALICE, dependencies=(SessionId("other"),))
    )
    failure = asked.objection(pending)
    assert failure is not None
    assert failure.code is Code.QUOTA_KEYPAIR
    assert [(check.name, check.result) for check in failure.checks] == [
        ("keypair-resource-limit", "no"),
        ("concurrency", "no"),
        ("dependencies", "no"),
    ]
    assert failure.text == "; ".join(check.detail for check in failure.checks)


def test_a_session_without_objections_has_the_list_of_checks() -> None:
    asked, _ = admission(snapshot([]))
    pending = EngineParts(*agents(1, "cpu=8")).pending(gang("s", 1, "cpu=1"))
    assert asked.objection(pending) is None
    assert pending.checks == tuple(Check(name, "ok") for name in VALIDATORS_DEFAULT)


def test_what_is_counted_is_seen_by_the_next_session_of_the_owner() -> None:
    given = snapshot([], limits=limited("alice", slots_max="cpu=4", sessions_max=1))
    asked, ledger = admission(given)
    engine = EngineParts(*agents(1, "cpu=8"))
    first, second = (
        engine.pending(gang("s", 1, "cpu=3", owner=ALICE)),
        engine.pending(gang("t", 1, "cpu=3", owner=ALICE)),
    )
    assert asked.objection(first) is None
    asked.count(first, [(parse_slots("cpu=3"), 1)])
    assert ledger.account(Scope.KEYPAIR, "alice").sessions == 1
    failure = asked.objection(second)
    assert failure is not None
    assert [check.name for check in failure.checks] == ["keypair-resource-limit", "concurrency"]


def test_a_session_that_grows_counts_as_one_session_once() -> None:
    asked, ledger = admission(snapshot([], limits=limited("alice", sessions_max=9)))
    pending = EngineParts(*agents(1, "cpu=8")).pending(gang("s", 3, "cpu=1", min_kernels=1, owner=ALICE))
    asked.count(pending, [(parse_slots("cpu=1"), 1)])
    pending.placed = 1
    asked.count(pending, [(parse_slots("cpu=1"), 1)])
    account = ledger.account(Scope.KEYPAIR, "alice")
    assert (account.sessions, account.used) == (1, {"cpu": 2000})


def test_the_slots_of_an_attempt_are_checked_if_they_differ_from_the_expected_ones() -> None:
    asked, _ = admission(snapshot([], limits=limited("alice", slots_max="cpu=4")))
    pending = EngineParts(*agents(1, "cpu=8")).pending(gang("s", 2, "cpu=1", owner=ALICE))
    assert asked.objection(pending) is None
    assert asked.over_limit(pending, parse_slots("cpu=4")) is None
    failure = asked.over_limit(pending, parse_slots("cpu=5"))
    assert failure is not None
    assert failure.code is Code.QUOTA_KEYPAIR


class Strict(SchedulingPlugin):
    name = "strict"

    def session_valid(self, session: SessionWorkload) -> str | None:
        if session.session_id == "breaks":
            raise ZeroDivisionError("oh")
        return "not on a Sunday" if session.session_id == "refused" else None


def test_a_plugin_may_refuse_a_session_with_its_own_text() -> None:
    asked, _ = admission(snapshot([]), Strict())
    engine = EngineParts(*agents(1, "cpu=8"))
    assert asked.objection(engine.pending(gang("welcome", 1, "cpu=1"))) is None
    assert asked.objection(engine.pending(gang("refused", 1, "cpu=1"))) == PendingReason(
        Code.REFUSED_BY_PLUGIN, "not on a Sunday"
    )
    with pytest.raises(PluginFailed, match="plugin strict failed in session_valid: ZeroDivisionError: oh"):
        asked.objection(engine.pending(gang("breaks", 1, "cpu=1")))


def test_a_session_whose_last_kernel_leaves_may_start_anew_under_a_pending_limit() -> None:
    work = session(
        "s", kernel("leaves", "cpu=1", at="a0", releasing=True), kernel("waits", "cpu=1"), min_kernels=1, owner=ALICE
    )
    plan = planned(snapshot(agents(1, "cpu=8"), work, limits=limited("alice", pending_sessions_max=3)))
    assert plan.trace[SessionId("s")].code is Code.PLACED
