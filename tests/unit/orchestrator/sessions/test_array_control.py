"""All sessions of an array are changed together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import patch

import pytest

from sokovan.domain.arrays import ArrayMember, read_array
from sokovan.domain.errors import Conflict, ObjectNotFound, OutcomeUnknown, StoreUnavailable
from sokovan.domain.ids import ArrayId
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.records import ArrayRecord
from sokovan.orchestrator.sessions import array_control
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.testing.stored_cluster import refusal, session_spec
from tests.unit.orchestrator.sessions.controller_harness import ALICE, BOB, ControllerHarness, controller_harness


async def stored_array(on: ControllerHarness, indexes: str, *gates: str) -> ArrayRecord:
    await on.submit(name="sweep", array=read_array(indexes), gates=gates)
    return (await found(on))[0]


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


@asynccontextmanager
async def small_parts(on: ControllerHarness, *, fails_after: int = 10**6) -> AsyncIterator[list[int]]:
    """Two sessions of an array per transaction; the store fails after some of them.

    Yields how many sessions were stored at each of them.
    """
    run, sizes = on.store.run, list[int]()

    async def counted(work: Any, **options: Any) -> Any:
        if len(sizes) >= fails_after:
            raise StoreUnavailable("the disk is full")
        result = await run(work, **options)
        sizes.append(await on.stored())
        return result

    with patch.object(array_control, "STORED_TOGETHER", 2), patch.object(on.store, "run", counted):
        yield sizes


async def names(on: ControllerHarness) -> list[str]:
    found = await on.store.read(lambda unit: unit.sessions.page(SessionFilter(), limit=100))
    return [one.spec.name for one in found]


async def test_an_array_is_stored_in_several_transactions() -> None:
    async with controller_harness() as on:
        async with small_parts(on) as sizes:
            array = await stored_array(on, "1-9:2")
        entries = await on.store.read(lambda unit: unit.audit.page(limit=99))
        sessions = await on.store.read(lambda unit: unit.sessions.page(SessionFilter(), limit=100))
    assert sizes == [2, 4, 5]
    assert array.unstored == 0
    assert [one.spec.name for one in sessions] == [f"sweep[{index}]" for index in (1, 3, 5, 7, 9)]
    assert [one.spec.array and one.spec.array.index for one in sessions] == [1, 3, 5, 7, 9]
    assert len({kernel.kernel_id for one in sessions for kernel in one.kernels}) == 5
    assert [entry.action for _, _, entry in entries] == ["array.enqueue"]


def test_of_large_sessions_fewer_are_stored_together() -> None:
    one = session_spec("s")
    assert array_control.part_size(one) == array_control.STORED_TOGETHER
    assert array_control.part_size(session_spec("s", kernels=1_000)) == 2
    assert array_control.part_size(session_spec("s", kernels=5_000)) == 1


async def test_a_repeated_request_completes_an_array_that_was_interrupted() -> None:
    async with controller_harness() as on:
        request: dict[str, Any] = {"name": "sweep", "array": read_array("0-4"), "secrets": {"TOKEN": "known"}}
        async with small_parts(on, fails_after=2):
            error = await refusal(on.submit(key="k", **request), OutcomeUnknown)
        interrupted = await on.stored()
        first = await on.submit(key="k", **request)
        sessions = await on.store.read(lambda unit: unit.sessions.page(SessionFilter(), limit=100))
    assert "the rest of it follows: the disk is full" in error.message
    assert interrupted == 4
    assert [one.spec.name for one in sessions] == [f"sweep[{index}]" for index in range(5)]
    assert first.session_id == sessions[0].session_id
    assert {on.cluster.secrets.open(one.sealed, owner="alice")["TOKEN"] for one in sessions} == {"known"}


async def test_requests_that_complete_the_same_array_store_each_session_once() -> None:
    async with controller_harness() as on:
        async with small_parts(on, fails_after=1):
            await refusal(on.submit(key="k", name="sweep", array=read_array("0-8")), OutcomeUnknown)
        async with small_parts(on):
            await asyncio.gather(*(on.submit(key="k", name="sweep", array=read_array("0-8")) for _ in range(3)))
        assert await names(on) == [f"sweep[{index}]" for index in range(9)]


@pytest.mark.parametrize("change", ["end", "release"])
async def test_an_array_that_was_interrupted_is_completed_before_it_is_changed(change: str) -> None:
    async with controller_harness() as on:
        async with small_parts(on, fails_after=1):
            await refusal(stored_array(on, "0-4", "data"), OutcomeUnknown)
        [array] = await found(on)
        assert array.unstored == 3
        await getattr(on.controller.arrays, change)(array, ALICE)
        left = SessionStatus.CANCELLED if change == "end" else SessionStatus.PENDING
        assert await statuses(on) == [left] * 5
        assert await gates_of(on) == {("data",) if change == "end" else ()}


async def test_of_an_array_that_cannot_be_completed_nothing_follows() -> None:
    async with controller_harness() as on:
        async with small_parts(on, fails_after=1):
            await refusal(stored_array(on, "0-4"), OutcomeUnknown)
        [array] = await found(on)
        place = ArrayMember(ArrayId("other"), 3, 5, 0, 4)
        await on.cluster.submit("s-other", name="sweep[3]", owner=ALICE.owner, array=place)
        await refusal(on.controller.arrays.end(array, ALICE), Conflict)
        await on.controller.arrays.end((await found(on))[0], ALICE)
        assert await statuses(on) == [SessionStatus.CANCELLED] * 2 + [SessionStatus.PENDING]


async def found(on: ControllerHarness) -> Sequence[ArrayRecord]:
    """The arrays named sweep."""
    return await on.store.read(lambda unit: unit.arrays.named("sweep", SessionFilter()))
