"""How a total is divided among queues by weight: water-filling on whole numbers."""

from __future__ import annotations

from dataclasses import dataclass

Row = list[int]


@dataclass(slots=True)
class ShareClaim:
    """One claimant: weight, the most it may and wants, the least it is promised."""

    weight: int
    limit: Row
    request: Row
    guarantee: Row


def divided(total: Row, claims: list[ShareClaim]) -> list[Row]:
    """What each claimant deserves of `total`, slot by slot.

    A claimant has at least its guarantee. Round by round what remains of a slot is
    offered by weight to those who want more of it; each takes it up to its limit and
    its request. What rounding down leaves over goes out one by one, to the heavier
    first, so that the parts never exceed the whole and nothing is lost.
    """
    columns = [_poured(amount, claims, column) for column, amount in enumerate(total)]
    return [[column[index] for column in columns] for index in range(len(claims))]


def _poured(total: int, claims: list[ShareClaim], column: int) -> Row:
    have = [claim.guarantee[column] for claim in claims]
    most = [max(min(c.limit[column], c.request[column]), c.guarantee[column]) for c in claims]
    remaining = total - sum(have)
    wanting = [index for index in range(len(claims)) if have[index] < most[index]]
    while wanting and remaining > 0:
        weights = sum(claims[index].weight for index in wanting)
        offered, before = remaining, remaining
        for index in wanting:
            taken = min(most[index] - have[index], offered * claims[index].weight // weights)
            have[index] += taken
            remaining -= taken
        wanting = [index for index in wanting if have[index] < most[index]]
        if remaining == before:
            break
    for index in sorted(wanting, key=lambda index: -claims[index].weight)[: max(0, remaining)]:
        have[index] += 1
    return have
