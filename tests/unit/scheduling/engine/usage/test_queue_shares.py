"""Water-filling: a total is divided by weight, within limits and requests."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sokovan.scheduling.engine.usage.queue_shares import ShareClaim, divide


def claim(request: int, *, weight: int = 1, limit: int = 1000, guarantee: int = 0) -> ShareClaim:
    return ShareClaim(weight, [limit], [request], [guarantee])


def parts(total: int, *claims: ShareClaim) -> list[int]:
    return [row[0] for row in divide([total], list(claims))]


def test_a_total_is_divided_by_weight() -> None:
    assert parts(12, claim(100, weight=1), claim(100, weight=3)) == [3, 9]


def test_what_one_does_not_want_goes_to_the_others_by_weight() -> None:
    assert parts(12, claim(2), claim(100), claim(100)) == [2, 5, 5]
    assert parts(20, claim(4), claim(100, weight=1), claim(100, weight=3)) == [4, 4, 12]


def test_no_claim_gets_more_than_its_limit_and_the_rest_is_divided_on() -> None:
    assert parts(12, claim(100, limit=3), claim(100)) == [3, 9]


def test_a_guarantee_is_kept_even_if_it_is_not_requested() -> None:
    assert parts(12, claim(0, guarantee=4), claim(100)) == [4, 8]


def test_a_guarantee_comes_off_the_top_and_the_rest_is_divided_by_weight() -> None:
    assert parts(12, claim(100, guarantee=8), claim(100)) == [10, 2]


def test_one_claimant_gets_all_it_wants_of_what_there_is() -> None:
    assert parts(12, claim(7)) == [7]
    assert parts(12, claim(100)) == [12]


def test_where_all_are_satisfied_the_rest_is_not_given_out() -> None:
    assert parts(12, claim(2), claim(3)) == [2, 3]


def test_every_slot_is_divided_on_its_own() -> None:
    small, large = ShareClaim(1, [100, 100], [2, 100], [0, 0]), ShareClaim(1, [100, 100], [6, 100], [0, 0])
    assert divide([8, 20], [small, large]) == [[2, 10], [6, 10]]


def test_no_claims_or_no_total_give_no_shares() -> None:
    assert divide([12], []) == []
    assert parts(0, claim(5), claim(5)) == [0, 0]


def test_guarantees_are_promises_even_if_they_are_more_than_there_is() -> None:
    assert parts(10, claim(10, guarantee=8), claim(10, guarantee=8)) == [8, 8]


def test_a_small_weight_waits_until_the_large_ones_are_satisfied_and_takes_the_rest() -> None:
    assert parts(10, claim(10, weight=1), claim(5, weight=100)) == [5, 5]


def test_a_claim_without_a_request_changes_nothing_of_the_exact_parts_of_the_others() -> None:
    assert parts(8000, claim(8000, weight=3, limit=8000), claim(8000, limit=8000), claim(0, weight=9)) == [
        6000,
        2000,
        0,
    ]


def test_two_that_want_different_slots_do_not_stand_in_each_others_way() -> None:
    by_cpu, by_memory = ShareClaim(1, [16, 16], [16, 0], [0, 0]), ShareClaim(1, [16, 16], [0, 16], [0, 0])
    assert divide([16, 16], [by_cpu, by_memory]) == [[16, 0], [0, 16]]


def test_one_that_is_satisfied_in_a_slot_leaves_the_rest_of_that_slot_to_the_others() -> None:
    by_cpu = ShareClaim(1, [100, 100], [100, 0], [0, 0])
    by_memory = ShareClaim(1, [100, 100], [2, 100], [0, 0])
    assert divide([10, 10], [by_cpu, by_memory]) == [[8, 0], [2, 10]]


amounts = st.integers(0, 50)
claims = st.lists(
    st.builds(
        lambda weight, rows: ShareClaim(weight, *[list(row) for row in zip(*rows, strict=True)]),
        st.integers(1, 9),
        # Per slot: the limit, the request and a guarantee within the limit.
        st.lists(
            st.tuples(amounts, amounts, st.integers(0, 5)).map(lambda row: (max(row[0], row[2]), row[1], row[2])),
            min_size=2,
            max_size=2,
        ),
    ),
    min_size=1,
    max_size=6,
)


@given(total=st.lists(st.integers(30, 120), min_size=2, max_size=2), claims=claims)
def test_parts_never_exceed_the_whole_nor_what_each_may_and_wants_to_have(
    total: list[int], claims: list[ShareClaim]
) -> None:
    deserved = divide(total, claims)
    for column, amount in enumerate(total):
        assert sum(row[column] for row in deserved) <= amount
        for one, row in zip(claims, deserved, strict=True):
            assert row[column] >= one.guarantee[column]
            assert row[column] <= max(one.guarantee[column], min(one.limit[column], one.request[column]))


@given(total=st.integers(0, 10**6), requests=st.lists(st.integers(0, 10**6), min_size=1, max_size=5))
def test_claimants_of_equal_weight_end_equal_or_satisfied(total: int, requests: list[int]) -> None:
    deserved = parts(total, *(claim(request, limit=10**9) for request in requests))
    unsatisfied = [got for got, request in zip(deserved, requests, strict=True) if got < request]
    assert max(unsatisfied, default=0) - min(unsatisfied, default=0) <= 1
    assert all(
        got <= max(unsatisfied) or got == want for got, want in zip(deserved, requests, strict=True) if unsatisfied
    )


@given(total=st.integers(0, 200), wants=st.lists(st.tuples(st.integers(0, 60), st.integers(1, 99)), max_size=6))
def test_nothing_is_left_over_while_a_claim_is_unsatisfied(total: int, wants: list[tuple[int, int]]) -> None:
    deserved = parts(total, *(claim(request, weight=weight) for request, weight in wants))
    assert sum(deserved) == min(total, sum(request for request, _ in wants))


def test_what_cannot_be_divided_goes_to_the_heavier_first() -> None:
    assert parts(1, claim(8), claim(8, weight=2), claim(8)) == [0, 1, 0]
    assert parts(3, claim(8), claim(8)) == [2, 1]


def test_the_argument_is_not_changed() -> None:
    total, one = [12], claim(5, guarantee=2)
    divide(total, [one])
    assert (total, one) == ([12], claim(5, guarantee=2))
