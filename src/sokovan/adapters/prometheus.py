"""Figures for Prometheus, each declared once with what it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

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
    "agents_lost_total": Figure("counter", "Agents that were declared lost."),
    "api_seconds": Figure("histogram", "Time to answer a request.", ("method", "route", "status")),
    "cycle_seconds": Figure("histogram", "Time of one scheduling cycle, from look to facts.", ("scaling_group",)),
    "decide_seconds": Figure("histogram", "Time of one decision of the core.", ("scaling_group",)),
    "evictions_total": Figure("counter", "Sessions asked to stop for another one."),
    "handler_failures_total": Figure("counter", "Objects that a handler could not handle.", ("handler",)),
    "handler_seconds": Figure("histogram", "Time of one handler's part of a tick.", ("handler",)),
    "invariant_violations": Figure("gauge", "Laws of the store that the last audit found broken.", ("invariant",)),
    "leader": Figure("gauge", "1 while this process leads the coordinator.", ("coordinator",)),
    "mass_loss": Figure("gauge", "1 while so many agents are lost that nothing is ended for it."),
    "placements_total": Figure("counter", "Kernels that were placed.", ("scaling_group",)),
    "quarantined_total": Figure("counter", "Sessions given up because their handler kept failing."),
    "queue_sessions": Figure("gauge", "Sessions that wait, by queue.", ("queue",)),
    "refused_allocations_total": Figure("counter", "Placements that lost to another change.", ("code",)),
    "sessions": Figure("gauge", "Sessions that have not ended, by status.", ("status",)),
    "sessions_ended_total": Figure("counter", "Sessions that ended, by result.", ("result",)),
    "state_seconds": Figure("histogram", "Time that sessions spent in a status.", ("status",)),
    "submissions_total": Figure("counter", "Sessions that were accepted.", ("type",)),
    "tick_seconds": Figure("histogram", "Time of one round of a task.", ("task",)),
    "task_failures_total": Figure("counter", "Rounds of a task that raised.", ("task",)),
    "waiting_sessions": Figure("gauge", "Sessions that wait, by reason.", ("code",)),
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
        counter = self._counters[name]
        (counter.labels(**labels) if labels else counter).inc(amount)

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Something took so long. Raises KeyError for an undeclared figure."""
        histogram = self._histograms[name]
        (histogram.labels(**labels) if labels else histogram).observe(value)

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """There is so much of something now. Raises KeyError for an undeclared figure."""
        gauge = self._gauges[name]
        (gauge.labels(**labels) if labels else gauge).set(value)

    def exposition(self) -> bytes:
        """Every figure, in Prometheus' text format."""
        return generate_latest(self._registry)
