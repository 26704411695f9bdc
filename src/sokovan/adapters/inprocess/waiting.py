"""Waits for a signal with a timeout of the Clock port, so that virtual time works."""

from __future__ import annotations

import asyncio

from sokovan.ports.environment import Clock


async def set_within(signal: asyncio.Event, seconds: float, *, clock: Clock) -> bool:
    """Wait up to `seconds` for `signal`; returns whether it is set."""
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
