"""Waiting for a signal on the Clock's time, so that virtual time works too."""

from __future__ import annotations

import asyncio

from sokovan.ports.environment import Clock


async def set_within(signal: asyncio.Event, seconds: float, *, clock: Clock) -> bool:
    """Whether `signal` is set, at the latest after `seconds`."""
    if signal.is_set() or seconds <= 0:
        return signal.is_set()
    signalled = asyncio.ensure_future(signal.wait())
    elapsed = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({signalled, elapsed}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (signalled, elapsed):
            task.cancel()
        await asyncio.gather(signalled, elapsed, return_exceptions=True)
    return signal.is_set()
