"""When the end of kernels is the end of their session."""

from dataclasses import replace

import pytest

from sokovan.domain.ids import KernelId
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.lifecycle.session import Goal, SessionStatus
from sokovan.domain.records import KernelRecord, SessionRecord
from sokovan.domain.session import EndPolicy
from sokovan.domain.slots import ResourceSlot
from sokovan.orchestrator.sessions.endings import Exit, decisive_exits, end_steps, ended_before_notice, exit_steps
from sokovan.ports.runtime import DISK_LIMIT, OUT_OF_MEMORY, PROBABLY_OUT_OF_MEMORY
from sokovan.testing.simple_work import work_spec

ALL, MAIN, ANY = EndPolicy.ALL, EndPolicy.MAIN, EndPolicy.ANY


def session(policy: EndPolicy, *, kernels: int = 3, tolerates: bool = False, **statuses: KernelStatus) -> SessionRecord:
    spec = work_spec("s", kernels=kernels, ends_with=policy, tolerates_failures=tolerates)
    records = tuple(
        KernelRecord(
            one.kernel_id, spec.session_id, index, statuses.get(f"k{index}", KernelStatus.RUNNING), 1, one.slots
        )
        for index, one in enumerate(spec.kernels)
    )
    return SessionRecord(spec.session_id, spec, SessionStatus.RUNNING, 1, Goal.RUN, 0, records)


def exits(**codes: int | Exit) -> dict[KernelId, Exit]:
    ends = {name: one if isinstance(one, Exit) else Exit(one) for name, one in codes.items()}
    return {KernelId(f"s.{name[1:]}"): one for name, one in ends.items()}


@pytest.mark.parametrize(
    ("policy", "tolerates", "codes", "expected"),
    [
        (ANY, False, {}, []),
        (ANY, False, {"k1": 0}, ["s.1"]),
        (ANY, False, {"k0": 0, "k1": 4}, ["s.1"]),
        (ANY, True, {"k1": 4}, ["s.1"]),
        (MAIN, False, {"k1": 0}, []),
        (MAIN, False, {"k1": 4}, ["s.1"]),
        (MAIN, True, {"k1": 4}, []),
        (MAIN, True, {"k0": 0, "k1": 4}, ["s.0"]),
        (MAIN, False, {"k0": 0, "k1": 4}, ["s.1"]),
        (ALL, False, {"k0": 0, "k1": 0}, []),
        (ALL, False, {"k0": 0, "k1": 0, "k2": 0}, ["s.0", "s.1", "s.2"]),
        (ALL, False, {"k0": 1}, ["s.0"]),
        (ALL, True, {"k0": 1}, []),
        (ALL, True, {"k0": 1, "k1": 0, "k2": 0}, ["s.0", "s.1", "s.2"]),
    ],
)
def test_the_policy_says_whose_end_counts(
    policy: EndPolicy, tolerates: bool, codes: dict[str, int], expected: list[str]
) -> None:
    assert list(decisive_exits(session(policy, tolerates=tolerates), exits(**codes))) == expected


def test_kernels_that_left_before_are_not_waited_for() -> None:
    grown = session(ALL, k2=KernelStatus.CANCELLED)
    assert list(decisive_exits(grown, exits(k0=0, k1=0))) == ["s.0", "s.1"]


def test_kernels_that_never_got_a_place_are_not_waited_for() -> None:
    small = session(ALL, k2=KernelStatus.PENDING)
    assert list(decisive_exits(small, exits(k0=0, k1=0))) == ["s.0", "s.1"]
    assert list(decisive_exits(small, exits(k0=0))) == []
    coming = session(ALL, k2=KernelStatus.SCHEDULED)
    assert list(decisive_exits(coming, exits(k0=0, k1=0))) == []


def test_the_first_step_has_the_result_and_the_second_the_rest() -> None:
    first, *_, second = end_steps(session(MAIN, tolerates=True), exits(k0=0, k1=4))
    assert (first.kernels, first.change.code, first.exit_codes[KernelId("s.0")]) == (("s.0",), "completed", 0)
    assert (second.kernels, second.change.code) == (("s.1",), "kernel-exited")


def test_tolerated_failures_are_the_first_to_move_as_they_determine_the_result() -> None:
    first, *_ = end_steps(session(ALL, tolerates=True), exits(k0=0, k1=4, k2=0))
    assert first.kernels == ("s.1", "s.0", "s.2")


def test_the_summary_of_failures_is_limited() -> None:
    first, *_ = end_steps(session(ANY), exits(k2=137))
    assert (first.change.code, first.change.detail) == ("kernel-failed", "kernel 2 ended with code 137")
    many = session(ANY, kernels=8)
    first, *_ = end_steps(many, {KernelId(f"s.{index}"): Exit(1) for index in range(8)})
    assert first.change.detail.endswith("and 3 more")


def test_the_reason_of_a_failure_is_included() -> None:
    first, *_ = end_steps(session(ANY), exits(k0=Exit(127, "could not start: no such program")))
    assert first.change.detail == "kernel 0 ended with code 127 (could not start: no such program)"


def test_out_of_memory_is_the_cause_and_includes_the_limit() -> None:
    first, *_ = end_steps(session(ANY), exits(k0=1, k1=Exit(137, OUT_OF_MEMORY)))
    assert (first.kernels, first.change.code) == (("s.0", "s.1"), "out-of-memory")
    memory = "kernel 1 ran out of memory: its limit was 1GiB, which --mem can raise"
    assert first.change.detail == f"{memory}, kernel 0 ended with code 1"


def test_a_kernel_without_a_limit_of_memory_has_none_to_tell() -> None:
    whole = session(ANY, kernels=1)
    [kernel] = whole.kernels
    unlimited = replace(whole, kernels=(replace(kernel, slots=ResourceSlot({"cpu": 1000})),))
    first, *_ = end_steps(unlimited, exits(k0=Exit(137, OUT_OF_MEMORY)))
    assert first.change.detail == "kernel 0 ran out of memory"


def test_out_of_memory_of_a_kernel_is_noted_even_if_it_is_not_decisive() -> None:
    full, others = exit_steps(session(ANY), exits(k0=0, k1=Exit(137, OUT_OF_MEMORY), k2=3))
    assert (full.kernels, full.change.code, full.exit_codes) == (("s.1",), "out-of-memory", {"s.1": 137})
    assert (others.kernels, others.change.code) == (("s.0", "s.2"), "kernel-exited")


def test_a_probable_lack_of_memory_is_the_cause_and_said_to_be_probable() -> None:
    first, *_ = end_steps(session(ANY), exits(k0=Exit(1, PROBABLY_OUT_OF_MEMORY)))
    assert first.change.code == "out-of-memory"
    assert first.change.detail == "kernel 0 probably ran out of memory: its limit was 1GiB, which --mem can raise"


def test_a_kernel_beyond_its_disk_space_is_the_cause() -> None:
    first, *_ = end_steps(session(ANY), exits(k0=1, k1=Exit(137, f"{DISK_LIMIT}: its folders have more than 5 bytes")))
    assert first.change.code == "disk-limit"
    wrote = "kernel 1 was ended: its folders have more than 5 bytes"
    assert first.change.detail == f"{wrote}, kernel 0 ended with code 1"
    alone, others = exit_steps(session(ANY), exits(k0=0, k1=Exit(137, DISK_LIMIT)))
    assert (alone.kernels, alone.change.code, others.kernels) == (("s.1",), "disk-limit", ("s.0",))


@pytest.mark.parametrize(
    ("policy", "codes", "expected"),
    [
        (ANY, {}, []),
        (ANY, {"k1": 0}, ["s.1"]),
        (MAIN, {"k1": 0}, []),
        (MAIN, {"k0": 0}, ["s.0"]),
        (ALL, {"k0": 0, "k1": 0}, []),
        (ALL, {"k0": 0, "k1": 0, "k2": 0}, ["s.0", "s.1", "s.2"]),
    ],
)
def test_an_evicted_session_has_ended_if_its_kernels_ended_before_the_notice(
    policy: EndPolicy, codes: dict[str, int], expected: list[str]
) -> None:
    # The others are being evicted: their end is none of their own.
    evicted = session(policy, k0=KernelStatus.TERMINATING, k1=KernelStatus.TERMINATING, k2=KernelStatus.TERMINATING)
    assert list(ended_before_notice(evicted, exits(**codes))) == expected
