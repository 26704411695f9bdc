"""Objects as the store has them."""

import pytest

from sokovan.domain.errors import InvalidSpec
from sokovan.domain.lifecycle.kernel import KernelTrigger
from sokovan.domain.lifecycle.machine import Cause
from sokovan.domain.record import DETAIL_MAX, Change, Device, SessionResult, result_of

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


def test_codes_may_come_from_anything_that_gives_them_once() -> None:
    assert result_of(_T.EXITED, iter([0, 0])) is SessionResult.SUCCESS


def test_a_detail_is_for_people_and_not_for_novels() -> None:
    Change("m1", Cause.COORDINATOR, detail="x" * DETAIL_MAX)
    with pytest.raises(InvalidSpec, match="detail"):
        Change("m1", Cause.COORDINATOR, detail="x" * (DETAIL_MAX + 1))


def test_a_device_is_for_one_kernel_alone_unless_told_otherwise() -> None:
    assert Device("gpu0", "cuda.device").units == 1


def test_a_detail_keeps_no_nul_which_no_database_would_keep() -> None:
    assert Change("agent", Cause.AGENT_REPORT, detail="core\0dumped").detail == "core\ufffddumped"
