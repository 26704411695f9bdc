"""What a handler is: one kind of work of a coordinator, done for all who need it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Protocol, TypeVar

from sokovan.domain.errors import SokovanError
from sokovan.ports.environment import Clock

R = TypeVar("R")
Seen_contra = TypeVar("Seen_contra", contravariant=True)


class DeadlinePassed(SokovanError):
    """Work did not end in the time that it was given."""

    code = "handler-timeout"
    hint = "it is tried again by itself; if it stays so, look at the machine that it waits for"


class WorkCancelled(SokovanError):
    """Work was cancelled from within, by nobody who waits for it."""

    code = "work-cancelled"
    hint = "it is tried again by itself; if it stays so, report the defect"


class Handler(Protocol[Seen_contra]):
    """One kind of work. It looks at what is, and moves what can be moved.

    An object that fails is the handler's to set aside; what it raises concerns all.
    """

    @property
    def name(self) -> str:
        """A word for figures and reports."""

    async def handle(self, seen: Seen_contra) -> bool:
        """Do what there is to do; whether anything moved."""


async def within(work: Awaitable[R], seconds: float, *, clock: Clock) -> R:
    """What `work` comes to; it is cancelled after `seconds`.

    Raises DeadlinePassed; WorkCancelled if the work ended itself that way, which must
    not look like an end of whoever waits.
    """
    task, timer = asyncio.ensure_future(work), asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
        if task.cancelled():
            raise WorkCancelled("it was cancelled from within")
        if task.done():
            return task.result()
    finally:
        timer.cancel()
        task.cancel()
    raise DeadlinePassed(f"not done after {seconds:g} s")
