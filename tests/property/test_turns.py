"""Users take turns: the budget is kept, and everything is done within a bounded number of runs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sokovan.domain.owners.turns import Turns

LARGEST = 5
# User, size, number; every third one cannot be divided.
Piece = tuple[str, int, int]
pieces = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, LARGEST)), min_size=1, max_size=30)


def numbered(some: list[tuple[str, int]], first: int = 0) -> list[Piece]:
    return [(user, size, number) for number, (user, size) in enumerate(some, first)]


class Runs:
    """Runs with a budget, until nothing of the first pieces is left."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._turns: Turns[Piece] = Turns(user_of=lambda piece: piece[0], size_of=lambda piece: piece[1])
        self.begun: list[int] = []

    def once(self, waiting: list[Piece]) -> list[Piece]:
        """What waits after a run: the rest of what was divided first, as it is the oldest of its user."""
        rest: list[Piece] = []
        spent = 0

        def spend(piece: Piece, limit: int) -> int:
            nonlocal spent
            user, size, number = piece
            self.begun.append(number)
            done = size if number % 3 == 0 else min(size, limit)
            spent += done
            rest.extend([(user, size - done, number)] if done < size else [])
            return done

        left = self._turns.take(waiting, budget=self._budget, spend=spend)
        assert spent < self._budget + LARGEST
        if all(number % 3 for _, _, number in waiting):
            assert spent <= self._budget
        assert spent > 0 or not waiting
        return rest + left


@given(pieces, pieces, st.integers(1, 12))
def test_whatever_others_add_each_piece_is_done_within_a_bounded_number_of_runs(
    first: list[tuple[str, int]], more: list[tuple[str, int]], budget: int
) -> None:
    waiting, runs = numbered(first), Runs(budget)
    users = {user for user, _ in (*first, *more)}
    work = {user: sum(size for one, size in first if one == user) for user in users}
    for number in range(len(users) * max(work.values())):
        waiting = runs.once(waiting)
        waiting += numbered(more, first=len(first) * 3 * (number + 1))
        if len(waiting) > 200:  # more than is ever done; the oldest stay
            del waiting[200:]
    assert not [piece for piece in waiting if piece[2] < len(first)]


@given(pieces, st.integers(1, 12))
def test_the_pieces_of_a_user_are_begun_in_their_order(some: list[tuple[str, int]], budget: int) -> None:
    waiting, runs = numbered(some), Runs(budget)
    while waiting:
        waiting = runs.once(waiting)
    for user in {user for user, _ in some}:
        own = dict.fromkeys(number for number in runs.begun if some[number][0] == user)
        assert list(own) == sorted(own)
