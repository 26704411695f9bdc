"""All sessions of an array are changed together."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from sokovan.domain.arrays import read_array
from sokovan.domain.errors import ObjectNotFound
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.records import ArrayRecord
from sokovan.orchestrator.sessions import array_control
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.testing.stored_cluster import refusal
from tests.unit.orchestrator.sessions.controller_harness import ALICE, BOB, ControllerHarness, controller_harness


async def stored_array(on: ControllerHarness, indexes: str, *gates: str) -> ArrayRecord:
    await on.submit(name="sweep", array=read_array(indexes), gates=gates)
    [array] = await on.store.read(lambda unit: unit.arrays.named("sweep", SessionFilter()))
    return array


async def statuses(on: ControllerHarness) -> list[SessionStatus]:
    found = await on.store.read(lambda unit: unit.sessions.page(SessionFilter(), limit=100))
    return [one.status for one in found]


@pytest.mark.slow
async def test_all_sessions_end_in_bounded_transactions_and_the_second_time_changes_nothing() -> None:
    with patch.object(array_control, "AT_ONCE", 3):
        async with controller_harness() as on:
            array = await stored_array(on, "0-6")
            await on.hinted()
            await on.controller.arrays.end(array, ALICE, reason="enough")
            assert await statuses(on) == [SessionStatus.CANCELLED] * 7
            assert await on.hinted()
            entries = await on.store.read(lambda unit: unit.audit.page(limit=99))
            await on.controller.arrays.end(array, ALICE)
            assert not await on.hinted()
            again = await on.store.read(lambda unit: unit.audit.page(limit=99))
    assert [entry.action for _, _, entry in entries].count("array.terminate") == 3
    assert len(again) == len(entries)


async def test_an_array_of_another_user_is_not_found() -> None:
    async with controller_harness() as on:
        array = await stored_array(on, "0-1")
        await refusal(on.controller.arrays.end(array, BOB), ObjectNotFound)
        assert await statuses(on) == [SessionStatus.PENDING] * 2


@pytest.mark.slow
async def test_all_held_sessions_are_released_in_bounded_transactions_and_only_once() -> None:
    with patch.object(array_control, "AT_ONCE", 3):
        async with controller_harness() as on:
            array = await stored_array(on, "0-6", "data", "budget")
            await on.hinted()
            await on.controller.arrays.release(array, ALICE, gates=("data",))
            assert await gates_of(on) == {("budget",)}
            assert await on.hinted()
            await on.controller.arrays.release(array, ALICE, gates=("data",))
            assert not await on.hinted()
            await on.controller.arrays.release(array, ALICE)
            assert await gates_of(on) == {()}
            entries = await on.store.read(lambda unit: unit.audit.page(limit=99))
    assert [entry.action for _, _, entry in entries].count("array.release") == 6


async def test_an_array_of_another_user_is_not_released() -> None:
    async with controller_harness() as on:
        array = await stored_array(on, "0-1", "data")
        await refusal(on.controller.arrays.release(array, BOB), ObjectNotFound)
        assert await gates_of(on) == {("data",)}


async def gates_of(on: ControllerHarness) -> set[tuple[str, ...]]:
    found = await on.store.read(lambda unit: unit.sessions.page(SessionFilter(), limit=100))
    return {one.spec.gates for one in found}
