"""How long to wait before dialling again: longer each time, and not all at once."""

from __future__ import annotations

from dataclasses import dataclass

# A link that was open for this long was no failure.
STEADY_MS = 5_000


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays that double from `first_s` to `most_s`, each shortened by up to a half.

    Without the last part, all agents of a cluster would knock in the same moment
    after a manager was away. `welcomed_most_s` is the longest delay for a manager that
    has welcomed us last time: it is there, and will be again.
    """

    first_s: float = 0.2
    most_s: float = 30.0
    welcomed_most_s: float = 5.0

    def delay_s(self, failures: int, *, chance: float, welcomed: bool = False) -> float:
        """The wait after so many failures in a row; `chance` is from 0 up to 1.

        >>> Backoff(first_s=1, most_s=10).delay_s(2, chance=1.0)
        4.0
        """
        most_s = min(self.most_s, self.welcomed_most_s) if welcomed else self.most_s
        return min(most_s, self.first_s * 2.0 ** min(failures, 32)) * (0.5 + chance / 2)


class Redialling:
    """What has become of the links to one manager, and how soon it is dialled again.

    A welcome ends the account of dials in vain. Links that broke soon after it are
    counted by themselves, so that a manager that dies again and again is not hammered.
    """

    def __init__(self, backoff: Backoff) -> None:
        self.backoff = backoff
        self._in_vain = 0
        self._brief = 0

    def pause_s(self, lasted_ms: int | None, *, chance: float) -> float:
        """The wait after a link that was open for so long; None: it never opened."""
        if lasted_ms is None:
            self._in_vain += 1
            return self.backoff.delay_s(self._in_vain - 1, chance=chance)
        self._in_vain, self._brief = 0, 0 if lasted_ms >= STEADY_MS else self._brief + 1
        return self.backoff.delay_s(max(0, self._brief - 1), chance=chance, welcomed=True)
