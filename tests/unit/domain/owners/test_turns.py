"""Users take turns: who is served in a run, how much of it, and what is left."""

import pytest

from sokovan.domain.owners.turns import Turns, slice_of

Piece = tuple[str, int]


def by_user() -> Turns[Piece]:
    return Turns(user_of=lambda piece: piece[0], size_of=lambda piece: piece[1])


def run(turns: Turns[Piece], waiting: list[Piece], budget: int) -> tuple[list[tuple[str, int]], list[Piece]]:
    """What was done of each piece that was begun, and what is left untouched."""
    done: list[tuple[str, int]] = []

    def spend(piece: Piece, limit: int) -> int:
        done.append((piece[0], min(piece[1], limit)))
        return done[-1][1]

    return done, turns.take(waiting, budget=budget, spend=spend)


def test_what_fits_is_done_whole_and_in_its_order() -> None:
    waiting = [("a", 3), ("b", 1), ("a", 2)]
    assert run(by_user(), waiting, 6) == (waiting, [])


def test_who_has_little_is_served_whole_and_the_others_share_the_rest() -> None:
    waiting = [*[("array", 1)] * 100, *[("sweep", 1)] * 50, ("shell", 1)]
    done, left = run(by_user(), waiting, 11)
    assert done == [("shell", 1), *[("sweep", 1)] * 5, *[("array", 1)] * 5]
    assert left == [*[("sweep", 1)] * 45, *[("array", 1)] * 95]


def test_a_large_piece_is_divided_and_counts_as_begun() -> None:
    assert run(by_user(), [("gang", 100), ("shell", 1)], 11) == ([("shell", 1), ("gang", 10)], [])


def test_what_one_user_does_not_need_is_for_the_next() -> None:
    done: list[str] = []

    def spend(piece: Piece, _limit: int) -> int:
        done.append(piece[0])
        return 0 if piece[0] == "idle" else 1

    by_user().take([*[("idle", 1)] * 5, *[("busy", 1)] * 9], budget=4, spend=spend)
    assert done == [*["idle"] * 5, *["busy"] * 4]


def test_users_for_whom_nothing_was_left_come_first_in_the_next_run() -> None:
    turns, waiting = by_user(), [(user, 1) for user in "abcde"]
    served = [run(turns, waiting, 2)[0] for _ in range(3)]
    assert [[user for user, _ in done] for done in served] == [["a", "b"], ["c", "d"], ["e", "a"]]
    turns.clear()
    assert run(turns, waiting, 1)[0] == [("a", 1)]


def test_a_user_who_was_passed_over_is_not_preferred_once_all_were_served() -> None:
    turns = by_user()
    run(turns, [("a", 1), ("b", 1)], 1)
    run(turns, [("b", 1)], 1)
    assert run(turns, [("a", 1), ("b", 1)], 1)[0] == [("a", 1)]


@pytest.mark.parametrize(
    ("kernels", "of_large", "of_small"), [(65, 128, 256), (2_561, 129, 256), (5_121, 257, 257), (10_000, 500, 500)]
)
def test_a_slice_is_a_part_of_all_so_that_the_slices_are_few(kernels: int, of_large: int, of_small: int) -> None:
    assert (slice_of(kernels, are_large=True), slice_of(kernels)) == (of_large, of_small)
