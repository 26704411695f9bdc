"""Contract suites: checks that every adapter of a port must pass.

Authors of adapters may run them. A check is an async function of a `Subject` that
raises AssertionError if the contract is violated; each module lists its checks in
`CHECKS`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from sokovan.testing.clock import Elapse

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Subject(Generic[T]):
    """The adapter under test.

    `make` creates another client of the same backend, as if from another process; the
    creator of the subject closes them. `elapse` lets time pass.
    """

    make: Callable[[], Awaitable[T]]
    elapse: Elapse


def expect(holds: object, message: str) -> None:
    """Raise AssertionError with `message` unless `holds`."""
    if not holds:
        raise AssertionError(message)
