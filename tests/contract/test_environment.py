"""Contracts of Clock and IdSource, on the local adapters."""

from __future__ import annotations

import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.ids import SortableIds
from sokovan.testing.clock import VirtualClock, outcome
from sokovan.testing.contracts import environment
from sokovan.testing.contracts.environment import CHECKS, CLOCK_CHECKS, ID_CHECKS, ClockCheck, IdCheck


@pytest.mark.parametrize("check", CLOCK_CHECKS, ids=lambda check: check.__name__)
async def test_clock_contract_of_the_system_clock(check: ClockCheck) -> None:
    await check(SystemClock())


@pytest.mark.parametrize("check", CLOCK_CHECKS, ids=lambda check: check.__name__)
async def test_clock_contract_of_the_virtual_clock(check: ClockCheck) -> None:
    clock = VirtualClock()
    await outcome(check(clock), elapse=clock.advance)


@pytest.mark.parametrize("check", ID_CHECKS, ids=lambda check: check.__name__)
async def test_id_source_contract(check: IdCheck) -> None:
    await check(lambda: SortableIds(SystemClock()))


def test_every_check_of_the_suite_is_run() -> None:
    written = {value for name, value in vars(environment).items() if name.startswith("check_")}
    assert written == set(CHECKS)
