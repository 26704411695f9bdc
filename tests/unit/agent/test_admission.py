"""Admission of kernels by the agent, independent of the manager's view."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sokovan.agent.admission import admission_refusal, superseded_attempt, wrong_incarnation
from sokovan.agent.journal_records import Tombstone, Tombstones
from sokovan.agent.kernel_table import KernelPhase, KernelTable, ManagedKernel, OrphanKernel
from sokovan.domain.slots import ResourceSlot
from tests.unit.agent.supervisor_harness import FRESH, key, launch

READY = replace(FRESH, observed=True, incarnation=3)


def with_running(table: KernelTable, name: str = "other", *, attempt: int = 1, **slots: int) -> KernelTable:
    held = ManagedKernel(slots=ResourceSlot(slots), phase=KernelPhase.RUNNING)
    return replace(table, kernels={**table.kernels, key(name, attempt): held})


def code(refusal: tuple[str, str] | None) -> str:
    return refusal[0] if refusal else ""


def test_a_kernel_that_fits_is_admitted() -> None:
    assert admission_refusal(READY, launch(slots={"cpu": 4000, "mem": 8 << 30})) is None


def test_a_kernel_is_refused_before_the_agent_has_looked_at_its_machine() -> None:
    assert code(admission_refusal(replace(READY, observed=False), launch())) == "not-ready"


def test_a_full_disk_is_reported_in_the_refusal() -> None:
    refusal = admission_refusal(replace(READY, obstacle="1 GiB free, 2 GiB are needed"), launch())

    assert refusal == ("no-room", "1 GiB free, 2 GiB are needed")


def test_what_runs_and_the_new_one_together_never_pass_the_capacity() -> None:
    busy = with_running(READY, cpu=3500)

    assert admission_refusal(busy, launch(slots={"cpu": 500})) is None
    refusal = admission_refusal(busy, launch(slots={"cpu": 501}))
    assert refusal == ("no-room", "not enough cpu (501 requested, 3500 of 4000 in use)")


def test_a_slot_that_the_machine_does_not_have_is_refused() -> None:
    assert code(admission_refusal(READY, launch(slots={"tpu.device": 1}))) == "no-room"


def test_slots_that_are_no_slots_are_refused() -> None:
    assert code(admission_refusal(READY, launch(slots={"cpu": -1}))) == "invalid-slots"


def test_a_machine_that_is_overfull_still_takes_what_needs_nothing_of_it() -> None:
    overfull = with_running(READY, cpu=9000)

    assert admission_refusal(overfull, launch(slots={"mem": 1024})) is None


def test_no_more_kernels_than_may_be() -> None:
    crowded = READY
    for number in range(8):
        crowded = with_running(crowded, f"k{number}")

    assert code(admission_refusal(crowded, launch("k9", slots={}))) == "no-room"


def test_a_device_is_given_to_one_kernel_only() -> None:
    held = ManagedKernel(
        slots=ResourceSlot({"cuda.device": 1}), phase=KernelPhase.RUNNING, devices={"cuda.device": ("gpu0",)}
    )
    busy = replace(READY, kernels={key("other"): held})

    assert admission_refusal(busy, launch(slots={"cuda.device": 1}, devices={"cuda.device": ("gpu1",)})) is None
    taken = admission_refusal(busy, launch(slots={"cuda.device": 1}, devices={"cuda.device": ("gpu0",)}))
    assert taken == ("no-room", "device gpu0 is in use")
    missing = admission_refusal(busy, launch(devices={"cuda.device": ("gpu7",)}))
    assert missing == ("no-room", "device gpu7 does not exist here")
    twice = admission_refusal(busy, launch(devices={"cuda.device": ("gpu1", "gpu1")}))
    assert code(twice) == "no-room"


def test_a_device_with_a_fault_is_refused_with_the_fault() -> None:
    faulty = replace(READY, device_faults={"gpu0": "it is lost"})
    refusal = admission_refusal(faulty, launch(slots={"cuda.device": 1}, devices={"cuda.device": ("gpu0",)}))
    assert refusal == ("no-room", "device gpu0 has a fault: it is lost")
    assert admission_refusal(faulty, launch(slots={"cuda.device": 1}, devices={"cuda.device": ("gpu1",)})) is None


def test_a_shared_device_is_given_to_as_many_as_it_has_units() -> None:
    shared = replace(READY, device_units={"gpu0": 2})
    held = ManagedKernel(slots=ResourceSlot(), phase=KernelPhase.RUNNING, devices={"cuda.shares": ("gpu0",)})
    want = launch(slots={}, devices={"cuda.shares": ("gpu0",)})

    assert admission_refusal(replace(shared, kernels={key("a"): held}), want) is None
    assert code(admission_refusal(replace(shared, kernels={key("a"): held, key("b"): held}), want)) == "no-room"


def test_a_second_attempt_waits_for_the_end_of_the_first() -> None:
    busy = with_running(READY, "k1", attempt=1)
    assert code(admission_refusal(busy, launch("k1", 2))) == "attempt-live"

    ended = replace(READY, kernels={key("k1", 1): ManagedKernel(slots=ResourceSlot(), phase=KernelPhase.EXITED)})
    assert admission_refusal(ended, launch("k1", 2)) is None


def test_nothing_starts_beside_an_orphan_of_unknown_usage() -> None:
    with_orphan = replace(READY, orphans={key("x"): OrphanKernel(0)})

    assert code(admission_refusal(with_orphan, launch())) == "unknown-kernels"
    assert admission_refusal(with_orphan, launch("x")) is None, "the orphan itself may be claimed"


def test_an_attempt_that_is_over_or_outdated_is_refused_for_ever() -> None:
    table = replace(READY, tombstones=Tombstones({key("k1", 2): Tombstone(3)}))

    assert code(superseded_attempt(table, key("k1", 2))) == "tombstone"
    assert code(superseded_attempt(table, key("k1", 1))) == "outdated-attempt"
    assert superseded_attempt(table, key("k1", 3)) is None
    assert superseded_attempt(table, key("k2", 1)) is None


def test_an_attempt_that_is_listed_outdates_the_ones_before() -> None:
    busy = with_running(READY, "k1", attempt=2)

    assert code(superseded_attempt(busy, key("k1", 1))) == "outdated-attempt"
    assert superseded_attempt(busy, key("k1", 2)) is None


@pytest.mark.parametrize("incarnation", [0, 2, 4])
def test_what_is_meant_for_another_incarnation_is_refused(incarnation: int) -> None:
    assert code(wrong_incarnation(READY, incarnation)) == "other-incarnation"
    assert wrong_incarnation(READY, 3) is None


def test_an_agent_that_was_never_welcomed_takes_nothing() -> None:
    assert code(wrong_incarnation(FRESH, 0)) == "other-incarnation"
