"""Telemetry that records metrics for tests."""

from __future__ import annotations

from collections import Counter, defaultdict

Labelled = tuple[str, tuple[tuple[str, str], ...]]


def _labelled(name: str, labels: dict[str, str]) -> Labelled:
    return name, tuple(sorted(labels.items()))


class RecordedTelemetry:
    """The Telemetry port in memory."""

    def __init__(self) -> None:
        self._counts: Counter[Labelled] = Counter()
        self._observed: defaultdict[Labelled, list[float]] = defaultdict(list)
        self._gauges: dict[Labelled, float] = {}

    def count(self, name: str, amount: int = 1, **labels: str) -> None:
        """Add to a counter."""
        self._counts[_labelled(name, labels)] += amount

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Observe a value."""
        self._observed[_labelled(name, labels)].append(value)

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        self._gauges[_labelled(name, labels)] = value

    def counted(self, name: str, **labels: str) -> int:
        """The sum of a counter over all series with at least these labels."""
        return sum(amount for key, amount in self._counts.items() if _matches(key, name, labels))

    def observed(self, name: str, **labels: str) -> list[float]:
        """All observed values of series with at least these labels."""
        return [value for key, values in self._observed.items() if _matches(key, name, labels) for value in values]

    def gauged(self, name: str, **labels: str) -> float | None:
        """The last value of a gauge."""
        return self._gauges.get(_labelled(name, labels))


def _matches(key: Labelled, name: str, labels: dict[str, str]) -> bool:
    return key[0] == name and labels.items() <= dict(key[1]).items()
