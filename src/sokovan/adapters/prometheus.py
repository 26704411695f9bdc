"""Figures for Prometheus, each declared once with what it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

M = TypeVar("M", Counter, Gauge, Histogram)

PREFIX = "sokovan_"
# From a hash lookup to a pull of an image.
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 300, 3600)


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: its kind, its meaning, and the labels it is told by."""

    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ()


FIGURES: Mapping[str, Figure] = {
    "agents": Figure("gauge", "Agents by status.", ("status",)),
    "agents_held_back": Figure(
        "gauge", "Lost agents whose sessions are not ended, because too many were lost at once."
    ),
    "api_failures_total": Figure("counter", "Requests that ended in an error of ours."),
    "api_seconds": Figure("histogram", "Time to answer a request.", ("method", "route", "status")),
    "cycle_seconds": Figure("histogram", "Time of one round of a coordinator.", ("coordinator",)),
    "decide_seconds": Figure("histogram", "Time of one decision of the core."),
    "handler_failures_total": Figure(
        "counter", "Objects or rounds that a handler could not handle.", ("handler", "kind")
    ),
    "invariant_violations": Figure(
        "gauge", "Rows that break a law of the store, as of the last audit.", ("invariant",)
    ),
    "mass_losses_total": Figure(
        "counter", "Times that so many agents were lost at once that nothing was ended for it."
    ),
    "orphans_total": Figure("counter", "Kernels found on agents that nobody wants."),
    "placements_total": Figure("counter", "Kernels that were placed."),
    "queue_length": Figure("gauge", "Sessions that wait for a kind of work.", ("queue",)),
    "requests_failed_total": Figure("counter", "Requests to agents that came to nothing, by kind.", ("kind",)),
    "requests_under_way": Figure("gauge", "Requests to agents that have no answer yet."),
    "sessions": Figure("gauge", "Sessions that have not ended, by status.", ("status",)),
    "sessions_ended_total": Figure("counter", "Sessions that ended, by result.", ("result",)),
    "sessions_waiting": Figure("gauge", "Sessions that the last decision left waiting."),
    "state_seconds": Figure("histogram", "Time that sessions spent in a status.", ("state",)),
    "task_failures_total": Figure("counter", "Rounds of a task that raised.", ("task",)),
}


class PrometheusTelemetry:
    """Telemetry port; `exposition` is what a scrape gets. May be used from any thread."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._counters = {
            name: Counter(PREFIX + name, figure.meaning, figure.labels, registry=self._registry)
            for name, figure in FIGURES.items()
            if figure.kind == "counter"
        }
        self._gauges = {
            name: Gauge(PREFIX + name, figure.meaning, figure.labels, registry=self._registry)
            for name, figure in FIGURES.items()
            if figure.kind == "gauge"
        }
        self._histograms = {
            name: Histogram(PREFIX + name, figure.meaning, figure.labels, registry=self._registry, buckets=SECONDS)
            for name, figure in FIGURES.items()
            if figure.kind == "histogram"
        }

    def count(self, name: str, amount: int = 1, **labels: str) -> None:
        """Something happened, so many times. Raises KeyError for an undeclared figure."""
        _told_by(self._counters[name], name, labels).inc(amount)

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Something took so long. Raises KeyError for an undeclared figure."""
        _told_by(self._histograms[name], name, labels).observe(value)

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """There is so much of something now. Raises KeyError for an undeclared figure."""
        _told_by(self._gauges[name], name, labels).set(value)

    def exposition(self) -> bytes:
        """Every figure, in Prometheus' text format."""
        return generate_latest(self._registry)


def _told_by(metric: M, name: str, labels: Mapping[str, str]) -> M:
    """The metric for these labels; one that is not given is empty."""
    declared = FIGURES[name].labels
    return metric.labels(*(labels.get(label, "") for label in declared)) if declared else metric
