"""VictimSearch: the cheapest set of victims that makes a taker fit.

Takes the rules of an action for one taker. Gives a set of rows, legal and without a
superfluous row, or None. A few candidates are searched exactly: all legal sets in the order
of their keys, until one holds. Many are searched by columns (see `many`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, islice, product

from sokovan.scheduling.engine.evictions.many import ManyCandidates
from sokovan.scheduling.engine.evictions.rules import VictimKey
from sokovan.scheduling.engine.evictions.taker import Taker
from sokovan.scheduling.engine.evictions.trial import Proof
from sokovan.scheduling.engine.evictions.victims import distinct
from sokovan.scheduling.engine.workspace import Ints

# Up to this many legal sets are compared exactly.
SETS_MAX = 1024
_KERNELS_MAX = 10

# So many sets are tried for the next best one, which is only shown.
_RUNNERS_UP_MAX = 4

Rows = tuple[int, ...]
FullKey = tuple[VictimKey, int, int, tuple[str, ...]]


class VictimSearch:
    """Searches the victims of one taker.

    Afterwards it has the next best set, if it compared one.
    """

    def __init__(self, taker: Taker) -> None:
        self.runner_up: Rows | None = None
        self._taker = taker
        self._rules, self._table, self._seats, self._fits, self._proved_later = taker

    def best(self) -> Rows | None:
        """The set with the smallest key that was found; None if no legal set is enough."""
        candidates = self._rules.candidates
        if not len(candidates):
            return None
        # Of many candidates a few are usually enough, which the search by columns finds first.
        soon = len(candidates) > _KERNELS_MAX**2 and self._seats.tight and self._seats.anywhere
        if not soon and not self._seats.enough(candidates):
            return None
        choices = self._choices(candidates)
        if choices is not None:
            return self._exact(choices)
        return self._among_many()

    def _choices(self, rows: Ints) -> list[list[Rows]] | None:
        """The legal parts of each session, the empty one included; None if there are too many sets."""
        # So many rows are more sessions, or more kernels of one, than are compared exactly.
        if len(rows) > _KERNELS_MAX**2 or len(distinct(self._table.session[rows])) > _KERNELS_MAX:
            return None
        choices, total = [], 1
        for session, part in self._table.by_session(rows.tolist()).items():
            if len(part) > _KERNELS_MAX:
                return None
            legal = list(self._legal_parts(session, part))
            total *= len(legal)
            if total > SETS_MAX:
                return None
            choices.append(legal)
        return choices

    def _legal_parts(self, session: int, rows: Sequence[int]) -> Iterator[Rows]:
        victim = self._table.sessions[session]
        for number in range(1 << len(rows)):
            part = tuple(row for index, row in enumerate(rows) if number >> index & 1)
            whole = self._table.ends(session, part) and bool(self._rules.whole[session])
            if not part or whole or victim.keeps_gang(set(part)):
                yield part

    def _exact(self, choices: list[list[Rows]]) -> Rows | None:
        """Try all legal sets in the order of their keys."""
        sets = [tuple(sorted(row for part in parts for row in part)) for parts in product(*choices)]
        keyed = sorted((self._rules.key(rows), len(rows), self._names(rows), rows) for rows in sets if rows)
        for _, equal in groupby(keyed, key=lambda item: item[0]):
            best: tuple[int, Rows] | None = None
            for _, _, _, rows in equal:
                proof = self._proof(rows)
                if proof is not None and (best is None or proof.tier < best[0]):
                    best = (proof.tier, rows)
                    if proof.tier <= self._seats.lowest_tier:
                        break
            if best is not None:
                self.runner_up = self._next_best(best[1], [rows for *_, rows in keyed])
                return best[1]
        return None

    def _proof(self, rows: Rows) -> Proof | None:
        """Whether a set is enough and leaves the queues their shares."""
        return self._fits(rows) if self._seats.enough(rows) and self._rules.leaves_shares(rows) else None

    def _next_best(self, best: Rows, ordered: Sequence[Rows]) -> Rows | None:
        """The first set after the best that would be enough as well, and does not have all of it."""
        others = (rows for rows in ordered[ordered.index(best) + 1 :] if not set(best).issubset(rows))
        enough = (rows for rows in others if self._seats.enough(rows))
        return next((rows for rows in islice(enough, _RUNNERS_UP_MAX) if self._proof(rows) is not None), None)

    def _names(self, rows: Sequence[int]) -> tuple[str, ...]:
        return tuple(sorted(str(self._table.kernels[row].kernel_id) for row in rows))

    def _among_many(self) -> Rows | None:
        """The best of the sets that the columns propose."""
        found: tuple[FullKey, Rows] | None = None
        for rows in ManyCandidates(self._taker).proposals():
            ordered = tuple(sorted(rows))
            if self._proved_later:
                return ordered
            proof = self._fits(ordered)
            if proof is None:
                continue
            key = (self._rules.key(ordered), proof.tier, len(ordered), self._names(ordered))
            if found is None:
                found = (key, ordered)
            elif ordered != found[1]:
                self.runner_up = found[1] if key < found[0] else ordered
                found = min(found, (key, ordered))
        return None if found is None else found[1]
