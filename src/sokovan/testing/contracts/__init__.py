"""What every adapter of a port must keep, one check per promise.

Anybody may run them. A check is an async function of a `Subject` that raises
AssertionError if the promise is broken; each module lists its own in `CHECKS`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from sokovan.testing.clock import Elapse

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Subject(Generic[T]):
    """What a check runs on.

    `make` gives another client of the same world each time, as if from another
    process; who made the subject closes them. `elapse` lets time pass.
    """

    make: Callable[[], Awaitable[T]]
    elapse: Elapse


def expect(holds: object, message: str) -> None:
    """Raise AssertionError with `message` unless `holds`."""
    if not holds:
        raise AssertionError(message)
