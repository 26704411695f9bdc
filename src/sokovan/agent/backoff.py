"""How long to wait before dialling again: longer each time, and not all at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays that double from `first_s` to `most_s`, each shortened by up to a half.

    Without the last part, all agents of a cluster would knock in the same moment
    after a manager was away.
    """

    first_s: float = 0.2
    most_s: float = 30.0

    def delay_s(self, failures: int, *, chance: float) -> float:
        """The wait after so many failures in a row; `chance` is from 0 up to 1.

        >>> Backoff(first_s=1, most_s=10).delay_s(2, chance=1.0)
        4.0
        """
        whole_s = min(self.most_s, self.first_s * 2.0 ** min(failures, 32))
        return whole_s * (0.5 + chance / 2)
