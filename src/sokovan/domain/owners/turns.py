"""Users take turns: what one run may do is shared among those with work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

# Kernels that one run of a handler moves, of large sessions and of small ones. The rest follows in the next cycle, and
# users with little to move are served in between. A run looks at all that may move, so that slices are not too many.
SLICE = 128
# A run costs some milliseconds by itself, which many small sessions share.
SMALL_SLICE = 256
SLICES_MAX = 20


def slice_of(kernels: int, *, are_large: bool = False) -> int:
    """How many of so many kernels of small or large sessions one run moves."""
    return max(SLICE if are_large else SMALL_SLICE, -(-kernels // SLICES_MAX))


class Turns(Generic[T]):
    """Shares the budget of each run among users, the oldest work of each first.

    Who has little is served whole, and the others share the rest equally. Users for whom
    nothing was left, since they are more than the budget allows, come first in the next run.
    """

    def __init__(self, *, user_of: Callable[[T], str], size_of: Callable[[T], int]) -> None:
        self.user_of, self._size_of = user_of, size_of
        self._passed: dict[str, None] = {}

    def take(self, waiting: Sequence[T], *, budget: int, spend: Callable[[T, int], int]) -> list[T]:
        """Do the work of one run; returns what is left for the next one, untouched.

        `spend` does as much of a piece as the given limit allows, and returns how much it was.
        Only a piece that cannot be divided may exceed the limit.
        """
        if sum(map(self._size_of, waiting)) <= budget:
            for piece in waiting:
                spend(piece, budget)
                self._passed.pop(self.user_of(piece), None)
            return []
        queues, left, remaining = self._queues(waiting), list[T](), budget
        for number, (user, queue) in enumerate(queues):
            share = -(-max(0, remaining) // (len(queues) - number))
            spent = taken = 0
            while taken < len(queue) and spent < share:
                spent += spend(queue[taken], share - spent)
                taken += 1
            remaining -= spent
            left += queue[taken:]
            self._passed.pop(user, None)
            if not taken:
                self._passed[user] = None
        return left

    def clear(self) -> None:
        """Forget whose turn it is."""
        self._passed.clear()

    def _queues(self, waiting: Iterable[T]) -> list[tuple[str, list[T]]]:
        """The work by user: who was passed over first, then those with the least."""
        by_user: dict[str, list[T]] = {}
        for piece in waiting:
            by_user.setdefault(self.user_of(piece), []).append(piece)
        passed = [user for user in self._passed if user in by_user]
        others = [user for user in by_user if user not in self._passed]
        others.sort(key=lambda user: sum(map(self._size_of, by_user[user])))
        return [(user, by_user[user]) for user in (*passed, *others)]
