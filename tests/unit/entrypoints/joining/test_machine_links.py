"""The listener for other machines renews its certificate; acceptance tests link to it."""

from __future__ import annotations

import asyncio

from sokovan.adapters.local.certificates import VALID_S
from sokovan.entrypoints.joining.machine_links import renew_repeatedly
from sokovan.testing.clock import VirtualClock


async def test_the_certificate_is_renewed_when_a_third_of_its_time_has_passed() -> None:
    clock, renewed, loop = VirtualClock(), asyncio.Event(), asyncio.get_running_loop()

    def renew() -> None:
        loop.call_soon_threadsafe(renewed.set)

    task = asyncio.create_task(renew_repeatedly(clock, renew))
    await clock.advance(VALID_S / 3 - 1)
    assert not renewed.is_set()
    await clock.advance(1)
    await renewed.wait()
    task.cancel()
