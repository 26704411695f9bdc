"""What an agent holds, and how it reports it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sokovan.agent.journal_records import JournalState, KernelKey, RequestedKernel, Tombstone, Tombstones
from sokovan.agent.kernel_table import (
    EXIT_UNKNOWN,
    KernelPhase,
    KernelTable,
    ManagedKernel,
    OrphanKernel,
    live_slots,
    reports,
    restored,
    same_reports,
)
from sokovan.domain.ids import KernelId
from sokovan.domain.slots import ResourceSlot, total
from sokovan.ports.agent_states import KernelReport
from tests.unit.agent.supervisor_harness import FRESH, key

CPU = ResourceSlot({"cpu": 1000})


def holding(**phases: KernelPhase) -> KernelTable:
    kernels = {key(name): ManagedKernel(slots=CPU, phase=phase) for name, phase in phases.items()}
    return KernelTable(agent_id=FRESH.agent_id, capacity=FRESH.capacity, kernels=kernels)


def test_kernels_of_every_phase_are_reported() -> None:
    table = holding(
        a=KernelPhase.REQUESTED,
        b=KernelPhase.RUNNING,
        c=KernelPhase.EXITED,
        d=KernelPhase.UNSTARTED,
        e=KernelPhase.VANISHED,
    )

    assert reports(table) == (
        KernelReport(KernelId("a"), 1, running=False),
        KernelReport(KernelId("b"), 1, running=True),
        KernelReport(KernelId("c"), 1, running=False, exit_code=EXIT_UNKNOWN),
        KernelReport(KernelId("d"), 1, running=False),
        KernelReport(KernelId("e"), 1, running=True),
    )


def test_orphans_are_reported_too() -> None:
    table = KernelTable(agent_id=FRESH.agent_id, capacity=CPU, orphans={key("x", 2): OrphanKernel(0)})

    assert reports(table) == (KernelReport(KernelId("x"), 2, running=True),)


def test_only_what_has_ended_takes_no_room() -> None:
    table = holding(
        a=KernelPhase.REQUESTED,
        b=KernelPhase.RUNNING,
        c=KernelPhase.EXITED,
        d=KernelPhase.UNSTARTED,
        e=KernelPhase.VANISHED,
    )

    assert total(live_slots(table)) == ResourceSlot({"cpu": 4000})


def test_an_agent_that_starts_again_knows_what_its_journal_says() -> None:
    memory = JournalState(
        incarnation=7,
        kernels={key(): RequestedKernel({"cpu": 1000}, {"cuda.device": ("gpu0",)}, "boot-1", started=True)},
        tombstones=Tombstones({key("gone"): Tombstone(7, 1)}),
    )
    table = restored(FRESH, memory)

    assert table.kernels[key()] == ManagedKernel(
        slots=CPU,
        phase=KernelPhase.REQUESTED,
        devices={"cuda.device": ("gpu0",)},
        started=True,
        settled=0,
        restored=True,
    )
    assert table.tombstones == memory.tombstones
    assert table.capacity == FRESH.capacity


def test_an_agent_that_starts_again_has_no_incarnation_until_it_is_welcomed() -> None:
    assert restored(FRESH, JournalState(incarnation=7)).incarnation == 0


def test_kernels_from_before_a_restart_of_the_machine_are_known_as_such() -> None:
    memory = JournalState(
        kernels={key("a"): RequestedKernel({}, boot="boot-0"), key("b"): RequestedKernel({}, boot="")}
    )
    kernels = restored(FRESH, memory).kernels

    assert kernels[key("a")].predates_boot
    assert not kernels[key("b")].predates_boot


def test_the_reason_of_an_end_is_reported_and_that_of_a_delay_is_not() -> None:
    kernels = {
        key("over"): ManagedKernel(slots=CPU, phase=KernelPhase.EXITED, exit_code=137, reason="out-of-memory"),
        key("waits"): ManagedKernel(slots=CPU, phase=KernelPhase.UNSTARTED, reason="it was never started"),
    }
    table = KernelTable(agent_id=FRESH.agent_id, capacity=CPU, kernels=kernels)

    assert [report.reason for report in reports(table)] == ["out-of-memory", ""]


KEYS = [key(name) for name in "abc"]
HELD = st.builds(
    ManagedKernel,
    slots=st.just(CPU),
    phase=st.sampled_from(KernelPhase),
    exit_code=st.none() | st.integers(0, 1),
    settled=st.none() | st.integers(0, 1),
)


@given(
    st.dictionaries(st.sampled_from(KEYS), HELD),
    st.dictionaries(st.sampled_from(KEYS), st.none() | HELD),
    st.tuples(*[st.sets(st.sampled_from(KEYS))] * 2),
)
def test_changed_kernels_decide_whether_the_reports_changed(
    kernels: dict[KernelKey, ManagedKernel],
    changes: dict[KernelKey, ManagedKernel | None],
    strange: tuple[set[KernelKey], set[KernelKey]],
) -> None:
    before = replace(FRESH, kernels=kernels, orphans={one: OrphanKernel(0) for one in strange[0]})
    merged = {one: kernel for one, kernel in {**kernels, **changes}.items() if kernel is not None}
    after = replace(before, kernels=merged, orphans={one: OrphanKernel(0) for one in strange[1]})

    assert same_reports(before, after) is (reports(before) == reports(after))
    assert same_reports(before, replace(before, tick=9))
