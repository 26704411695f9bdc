"""When the end of kernels is the end of their session."""

import pytest

from sokovan.domain.ids import KernelId
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.lifecycle.session import Goal, SessionStatus
from sokovan.domain.record import KernelRecord, SessionRecord
from sokovan.domain.session import EndPolicy
from sokovan.orchestrator.sessions.endings import deciding, ending
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


def exits(**codes: int) -> dict[KernelId, int]:
    return {KernelId(f"s.{name[1:]}"): code for name, code in codes.items()}


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
    assert list(deciding(session(policy, tolerates=tolerates), exits(**codes))) == expected


def test_kernels_that_left_before_are_not_waited_for() -> None:
    grown = session(ALL, k2=KernelStatus.CANCELLED)
    assert list(deciding(grown, exits(k0=0, k1=0))) == ["s.0", "s.1"]


def test_kernels_that_never_got_a_place_are_not_waited_for() -> None:
    small = session(ALL, k2=KernelStatus.PENDING)
    assert list(deciding(small, exits(k0=0, k1=0))) == ["s.0", "s.1"]
    assert list(deciding(small, exits(k0=0))) == []
    coming = session(ALL, k2=KernelStatus.SCHEDULED)
    assert list(deciding(coming, exits(k0=0, k1=0))) == []


def test_the_first_step_tells_the_result_and_the_second_the_rest() -> None:
    first, second = ending(session(MAIN, tolerates=True), exits(k0=0, k1=4))
    assert (first.kernels, first.change.code, first.exit_codes[KernelId("s.0")]) == (("s.0",), "completed", 0)
    assert (second.kernels, second.change.code) == (("s.1",), "kernel-exited")


def test_a_failure_is_told_in_words_and_not_in_floods() -> None:
    [first, _] = ending(session(ANY), exits(k2=137))
    assert (first.change.code, first.change.detail) == ("kernel-failed", "kernel 2 ended with code 137")
    many = session(ANY, kernels=8)
    [first, _] = ending(many, {KernelId(f"s.{index}"): 1 for index in range(8)})
    assert first.change.detail.endswith("and 3 more")
