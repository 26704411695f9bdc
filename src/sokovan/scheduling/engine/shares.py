"""How a total is divided among queues by weight: water-filling on whole numbers."""

from __future__ import annotations

from dataclasses import dataclass

Row = list[int]


@dataclass(slots=True)
class Claim:
    """One claimant: weight, the most it may and wants, the least it is promised."""

    weight: int
    limit: Row
    request: Row
    guarantee: Row


def divided(total: Row, claims: list[Claim]) -> list[Row]:
    """What each claimant deserves of `total`.

    Round by round what remains is offered by weight; a claimant takes it up to its
    limit and its request, but has at least its guarantee. One that is satisfied or
    can take no more leaves; the rounds end when nothing moves. Divisions round
    down, so that the parts never exceed the whole.
    """
    deserved = [list(claim.guarantee) for claim in claims]
    remaining = [amount - sum(row[c] for row in deserved) for c, amount in enumerate(total)]
    open_claims = list(range(len(claims)))
    while open_claims and any(amount > 0 for amount in remaining):
        weights = sum(claims[index].weight for index in open_claims)
        offered = [max(0, amount) for amount in remaining]
        moved, still_open = False, []
        for index in open_claims:
            claim, have = claims[index], deserved[index]
            part = [amount * claim.weight // weights for amount in offered]
            now = [_most(claim, column, have[column] + part[column]) for column in range(len(total))]
            moved = moved or now != have
            remaining = [left - (new - old) for left, new, old in zip(remaining, now, have, strict=True)]
            deserved[index] = now
            if any(now[c] < min(claim.request[c], claim.limit[c]) for c in range(len(total))) and now != have:
                still_open.append(index)
        open_claims = still_open
        if not moved:
            break
    return deserved


def _most(claim: Claim, column: int, amount: int) -> int:
    return max(min(amount, claim.limit[column], claim.request[column]), claim.guarantee[column])
