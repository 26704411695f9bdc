"""Division of a total among queues by weight: water-filling on whole numbers.

Takes a total per slot and one ShareClaim per queue. Gives the deserved amount of
each queue per slot.
"""

from __future__ import annotations

from dataclasses import dataclass

Row = list[int]


@dataclass(slots=True)
class ShareClaim:
    """One queue's claim: weight, limit, request and guaranteed minimum."""

    weight: int
    limit: Row
    request: Row
    guarantee: Row


def divide(total: Row, claims: list[ShareClaim]) -> list[Row]:
    """Divide `total` among the claims, slot by slot.

    Every claim gets at least its guarantee. In rounds, the rest of a slot is offered by
    weight to the claims that are not satisfied; each takes up to its limit and its
    request. The remainder of rounding down is given out one by one, larger weights
    first, so that the parts never exceed the total and nothing is lost.
    """
    columns = [_divide_slot(amount, claims, column) for column, amount in enumerate(total)]
    return [[column[index] for column in columns] for index in range(len(claims))]


def _divide_slot(total: int, claims: list[ShareClaim], column: int) -> Row:
    have = [claim.guarantee[column] for claim in claims]
    most = [max(min(c.limit[column], c.request[column]), c.guarantee[column]) for c in claims]
    remaining = total - sum(have)
    unsatisfied = [index for index in range(len(claims)) if have[index] < most[index]]
    while unsatisfied and remaining > 0:
        weights = sum(claims[index].weight for index in unsatisfied)
        offered, before = remaining, remaining
        for index in unsatisfied:
            taken = min(most[index] - have[index], offered * claims[index].weight // weights)
            have[index] += taken
            remaining -= taken
        unsatisfied = [index for index in unsatisfied if have[index] < most[index]]
        if remaining == before:
            break
    for index in sorted(unsatisfied, key=lambda index: -claims[index].weight)[: max(0, remaining)]:
        have[index] += 1
    return have
