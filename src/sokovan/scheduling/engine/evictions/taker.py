"""Taker: a starving session with everything that the search of its victims asks.

Takes a session's rules, table of candidates, seats and trial. Gives them to the order of
units, the search and the reprieve as one value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sokovan.scheduling.engine.evictions.rules import EvictionRules
from sokovan.scheduling.engine.evictions.seats import SeatCounter
from sokovan.scheduling.engine.evictions.trial import Proof
from sokovan.scheduling.engine.evictions.victims import VictimTable


class Taker(NamedTuple):
    """The rules of one taker, its candidates, its seats, and the proof by a trial.

    With `proved_later` a set that the columns propose is not tried if it is the only one: its commitment is the proof.
    """

    rules: EvictionRules
    table: VictimTable
    seats: SeatCounter
    fits: Callable[[Sequence[int]], Proof | None]
    proved_later: bool = False
