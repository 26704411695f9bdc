"""One pass over objects: each is handled by itself, and delays nobody.

An object whose handler raises or hangs delays nobody: its failure is noted in its
own history, it is tried again later, and after too many failures it is given up
with the reason for everybody to see.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from sokovan.domain.errors import FencedOut, SokovanError, StaleVersion, StoreUnavailable
from sokovan.ports.environment import Clock

T = TypeVar("T")

# How many objects of one pass are handled at a time; each waits for agents, not for the processor.
AT_A_TIME = 64


@dataclass(frozen=True, slots=True)
class Failure(Generic[T]):
    """An object that could not be handled in this pass."""

    subject: T
    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class Pass(Generic[T]):
    """What came of one pass."""

    handled: int
    failures: tuple[Failure[T], ...]


async def handle_each(
    subjects: Iterable[T], handle: Callable[[T], Awaitable[None]], *, clock: Clock, deadline_s: float
) -> Pass[T]:
    """Handle objects concurrently, each by itself. Raises FencedOut, StoreUnavailable.

    Losing a race (StaleVersion) is no failure: whoever won has done the work, and the
    next pass reads again.
    """
    gate = asyncio.Semaphore(AT_A_TIME)
    failures: list[Failure[T]] = []
    handled = 0

    async def one(subject: T) -> None:
        nonlocal handled
        async with gate:
            failure = await _outcome(subject, handle, clock=clock, deadline_s=deadline_s)
        handled += 1
        if failure is not None:
            failures.append(failure)

    await asyncio.gather(*[one(subject) for subject in subjects])
    return Pass(handled=handled, failures=tuple(failures))


async def _outcome(
    subject: T, handle: Callable[[T], Awaitable[None]], *, clock: Clock, deadline_s: float
) -> Failure[T] | None:
    work = asyncio.ensure_future(handle(subject))
    timer = asyncio.ensure_future(clock.sleep(deadline_s))
    try:
        await asyncio.wait({work, timer}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            return Failure(subject, "handler-timeout", f"the handler did not answer within {deadline_s:g} s")
        work.result()
    except StaleVersion:
        return None
    except (FencedOut, StoreUnavailable):
        raise
    except SokovanError as error:
        return Failure(subject, error.code, error.message)
    except Exception as error:  # noqa: BLE001  # one object must not stop the others
        return Failure(subject, "internal", f"{type(error).__name__}: {error}"[:500])
    finally:
        timer.cancel()
        work.cancel()
    return None
