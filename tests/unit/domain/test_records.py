"""Objects as the store has them."""

from dataclasses import replace

import pytest

from sokovan.domain.errors import InvalidSpec
from sokovan.domain.lifecycle.kernel import KernelTrigger
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.records import (
    DETAIL_MAX,
    Change,
    Device,
    SessionResult,
    SpecSummary,
    ended_by_user,
    result_of,
)
from sokovan.domain.session import SessionType
from sokovan.testing.stored_cluster import session_spec

_T = KernelTrigger


@pytest.mark.parametrize("codes", [[0], [0, 0, 0]])
def test_work_that_came_to_its_own_good_end_is_a_success(codes: list[int | None]) -> None:
    assert result_of(_T.EXITED, codes) is SessionResult.SUCCESS


@pytest.mark.parametrize("codes", [[1], [0, 1], [None], [0, None], [-9], []])
def test_any_other_exit_is_a_failure(codes: list[int | None]) -> None:
    assert result_of(_T.EXITED, codes) is SessionResult.FAILURE


@pytest.mark.parametrize("trigger", [one for one in _T if one is not _T.EXITED])
def test_what_was_stopped_failed_or_withdrawn_is_a_failure_whatever_its_codes(trigger: KernelTrigger) -> None:
    assert result_of(trigger, [0]) is SessionResult.FAILURE


def test_an_interactive_session_stopped_by_its_user_has_succeeded() -> None:
    assert ended_by_user(SessionType.INTERACTIVE, SessionStatus.RUNNING, [None, 0], by=Cause.CONTROLLER)


@pytest.mark.parametrize("session_type", [one for one in SessionType if one is not SessionType.INTERACTIVE])
def test_other_sessions_stopped_by_a_user_have_not(session_type: SessionType) -> None:
    assert not ended_by_user(session_type, SessionStatus.RUNNING, [None], by=Cause.CONTROLLER)


@pytest.mark.parametrize("status", [one for one in SessionStatus if one is not SessionStatus.RUNNING])
def test_nor_has_what_never_ran_or_ends_already(status: SessionStatus) -> None:
    assert not ended_by_user(SessionType.INTERACTIVE, status, [None], by=Cause.CONTROLLER)


@pytest.mark.parametrize("by", [one for one in Cause if one is not Cause.CONTROLLER])
def test_nor_have_sessions_that_no_user_stopped(by: Cause) -> None:
    assert not ended_by_user(SessionType.INTERACTIVE, SessionStatus.RUNNING, [None], by=by)


def test_nor_has_a_session_of_which_a_kernel_had_failed() -> None:
    assert not ended_by_user(SessionType.INTERACTIVE, SessionStatus.RUNNING, [None, 1], by=Cause.CONTROLLER)


def test_codes_may_come_from_anything_that_gives_them_once() -> None:
    assert result_of(_T.EXITED, iter([0, 0])) is SessionResult.SUCCESS


def test_a_detail_is_for_people_and_not_for_novels() -> None:
    Change("m1", Cause.COORDINATOR, detail="x" * DETAIL_MAX)
    with pytest.raises(InvalidSpec, match="detail"):
        Change("m1", Cause.COORDINATOR, detail="x" * (DETAIL_MAX + 1))


def test_a_device_is_exclusive_by_default() -> None:
    assert Device("gpu0", "cuda.device").units == 1


def test_a_detail_keeps_no_nul_which_no_database_would_keep() -> None:
    assert Change("agent", Cause.AGENT_REPORT, detail="core\0dumped").detail == "core\ufffddumped"


def test_a_summary_has_one_kernel_of_each_run_and_gives_it_for_every_index() -> None:
    spec = session_spec("s", kernels=6)
    red = [replace(one, labels={"colour": "red"}) for one in spec.kernels[2:5]]
    mixed = replace(spec, kernels=(*spec.kernels[:2], *red, spec.kernels[5]), min_kernels=3)
    summary = SpecSummary.of(mixed)
    assert [run.count for run in summary.runs] == [2, 3, 1]
    assert (summary.size, summary.gang_size) == (6, 3)
    assert summary.requested_slots() == mixed.requested_slots()
    assert [one.labels for one in summary.kernels(range(6))] == [one.labels for one in mixed.kernels]
    assert [one.labels for one in summary.kernels([1, 4])] == [{}, {"colour": "red"}]
