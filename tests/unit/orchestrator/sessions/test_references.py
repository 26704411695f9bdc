"""What a name refers to: a session, or an array."""

from __future__ import annotations

import pytest

from sokovan.domain.arrays import read_array
from sokovan.orchestrator.sessions.references import sessions_or_arrays
from sokovan.ports.repositories.sessions import SessionFilter
from tests.unit.orchestrator.sessions.controller_harness import ALICE, ControllerHarness, controller_harness


async def found(on: ControllerHarness, text: str) -> list[str]:
    """The names that a text refers to."""
    sessions, arrays = await on.store.read(lambda unit: sessions_or_arrays(unit, text, SessionFilter()))
    return [*(one.spec.name for one in sessions), *(f"array {one.name}" for one in arrays)]


@pytest.mark.slow
async def test_the_name_of_an_array_is_the_array_and_with_an_index_a_session() -> None:
    async with controller_harness() as on:
        first = await on.submit(name="sweep", array=read_array("0-2"))
        await on.submit(name="sweeper")
        assert first.spec.array is not None
        assert await found(on, "sweep") == ["array sweep"]
        assert await found(on, first.spec.array.array_id) == ["array sweep"]
        assert await found(on, "sweep[2]") == ["sweep[2]"]
        assert await found(on, first.session_id) == ["sweep[0]"]
        assert await found(on, "sweep[3]") == await found(on, "no\0name") == []
        # A prefix of both is ambiguous.
        assert await found(on, "swee") == ["sweeper", "array sweep"]


@pytest.mark.slow
async def test_a_live_one_is_preferred_and_of_ended_ones_the_newer() -> None:
    async with controller_harness() as on:
        single = await on.submit(name="sweep")
        assert await found(on, "sweep") == ["sweep"]
        await on.controller.cancel(single.session_id, ALICE)
        await on.submit(name="sweep", array=read_array("0"))
        assert await found(on, "sweep") == ["array sweep"]
        [array] = await on.store.read(lambda unit: unit.arrays.named("sweep", SessionFilter()))
        await on.controller.arrays.end(array, ALICE)
        assert await found(on, "sweep") == ["array sweep"]
        again = await on.submit(name="sweep")
        assert await found(on, "sweep") == ["sweep"]
        await on.controller.cancel(again.session_id, ALICE)
        assert await found(on, "sweep") == ["sweep"]
