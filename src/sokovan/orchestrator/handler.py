"""The protocol of handlers: one kind of work of a coordinator, for all objects."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Protocol, TypeVar

from sokovan.domain.errors import SokovanError
from sokovan.ports.environment import Clock

R = TypeVar("R")
Input_contra = TypeVar("Input_contra", contravariant=True)


class DeadlinePassed(SokovanError):
    """Work exceeded its timeout."""

    code = "handler-timeout"
    hint = "the work is retried automatically; if it fails again, check the agent or database that it waited for"


class WorkCancelled(SokovanError):
    """Work cancelled itself, not at the request of its caller."""

    code = "work-cancelled"
    hint = "the work is retried automatically; if it fails again, report the defect"


class Handler(Protocol[Input_contra]):
    """One kind of work: examines all objects and moves those that can move.

    A handler quarantines an object that fails; an error it raises affects all objects.
    """

    @property
    def name(self) -> str:
        """The name in metrics and reports."""

    async def handle(self, cycle: Input_contra) -> bool:
        """Do the work of one cycle; whether anything moved."""

    def clear(self) -> None:
        """Reset the state that belongs to a leadership term."""


async def within(work: Awaitable[R], seconds: float, *, clock: Clock) -> R:
    """The result of `work`, which is cancelled after `seconds`.

    Raises DeadlinePassed; WorkCancelled if the work cancelled itself, which must not look
    like a cancellation of the caller.
    """
    task, timer = asyncio.ensure_future(work), asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
        if task.cancelled():
            raise WorkCancelled("the work cancelled itself")
        if task.done():
            return task.result()
    finally:
        timer.cancel()
        task.cancel()
    raise DeadlinePassed(f"not done after {seconds:g} s")
