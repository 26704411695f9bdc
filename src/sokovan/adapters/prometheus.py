"""Prometheus metrics, each declared once with its meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

M = TypeVar("M", Counter, Gauge, Histogram)

PREFIX = "sokovan_"
# Covers everything from a hash lookup to an image pull.
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 300, 3600)


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric: its kind, meaning and labels."""

    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ()


METRICS: Mapping[str, Metric] = {
    "agents": Metric("gauge", "Agents by status.", ("status",)),
    "agent_recoveries_total": Metric("counter", "Failing agents that were returned to scheduling."),
    "agents_failing": Metric("gauge", "Agents without new kernels, because sessions could not be started there."),
    "agents_held_back": Metric(
        "gauge", "Lost agents whose sessions are kept, because too many agents were lost at once."
    ),
    "allocations_refused_total": Metric("counter", "Placements refused at the commit, by reason.", ("code",)),
    "api_failures_total": Metric("counter", "Requests that failed with an internal error."),
    "api_seconds": Metric("histogram", "Response time of a request.", ("method", "route", "status")),
    "connections_closed_total": Metric(
        "counter", "Connections closed as idle, displaced by others, or refused.", ("reason",)
    ),
    "cycle_seconds": Metric("histogram", "Duration of one cycle of a coordinator.", ("coordinator",)),
    "decide_seconds": Metric("histogram", "Duration of one decision of the scheduling core."),
    "devices_faulty": Metric("gauge", "Devices without new kernels, because they have a fault."),
    "eviction_seconds": Metric(
        "histogram", "Time from the notice of an eviction to the proof of the end.", ("action",)
    ),
    "evicted_slot_seconds_total": Metric("counter", "Work lost by evictions, in slot seconds.", ("action",)),
    "evictions_total": Metric("counter", "Kernels evicted for other sessions and bookings, by action.", ("action",)),
    "fenced_out_total": Metric(
        "counter", "Late writes refused, because another manager leads meanwhile.", ("coordinator",)
    ),
    "handler_failures_total": Metric(
        "counter", "Objects or cycles that a handler failed to process.", ("handler", "kind")
    ),
    "invariant_violations": Metric(
        "gauge", "Rows that violate an invariant of the store, as of the last audit.", ("invariant",)
    ),
    "loop_stall_seconds": Metric("histogram", "Times of seconds in which a manager did nothing, as its process hung."),
    "mass_losses_total": Metric(
        "counter", "Mass failures: times that too many agents were lost at once to end their sessions."
    ),
    "orphans_total": Metric("counter", "Orphan kernels found on agents."),
    "placements_total": Metric("counter", "Kernels that were placed."),
    "queue_length": Metric("gauge", "Sessions that wait for a handler.", ("queue",)),
    "requests_failed_total": Metric("counter", "Requests to agents that failed, by kind.", ("kind",)),
    "requests_under_way": Metric("gauge", "Requests to agents that are in progress."),
    "sessions": Metric("gauge", "Sessions that have not ended, by status.", ("status",)),
    "sessions_ended_total": Metric("counter", "Sessions that ended, by result.", ("result",)),
    "sessions_waiting": Metric("gauge", "Sessions left pending by the last decision."),
    "silent_transactions_ended_total": Metric(
        "counter", "Transactions of managers that hang, ended because others waited for them."
    ),
    "state_seconds": Metric("histogram", "Time that sessions spent in a status.", ("state",)),
    "store_writable": Metric("gauge", "1 if writes to the store work, 0 after one was given up."),
    "task_failures_total": Metric("counter", "Rounds of a task that raised an exception.", ("task",)),
}


class PrometheusTelemetry:
    """The Telemetry port; `exposition` is the response to a scrape. Thread-safe."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._counters = {
            name: Counter(PREFIX + name, metric.meaning, metric.labels, registry=self._registry)
            for name, metric in METRICS.items()
            if metric.kind == "counter"
        }
        self._gauges = {
            name: Gauge(PREFIX + name, metric.meaning, metric.labels, registry=self._registry)
            for name, metric in METRICS.items()
            if metric.kind == "gauge"
        }
        self._histograms = {
            name: Histogram(PREFIX + name, metric.meaning, metric.labels, registry=self._registry, buckets=SECONDS)
            for name, metric in METRICS.items()
            if metric.kind == "histogram"
        }

    def count(self, name: str, amount: int = 1, **labels: str) -> None:
        """Add to a counter. Raises KeyError for an undeclared metric."""
        _labelled(self._counters[name], name, labels).inc(amount)

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Observe a value of a histogram. Raises KeyError for an undeclared metric."""
        _labelled(self._histograms[name], name, labels).observe(value)

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge. Raises KeyError for an undeclared metric."""
        _labelled(self._gauges[name], name, labels).set(value)

    def exposition(self) -> bytes:
        """All metrics, in Prometheus' text format."""
        return generate_latest(self._registry)


def _labelled(metric: M, name: str, labels: Mapping[str, str]) -> M:
    """The metric for these labels; missing labels are empty."""
    declared = METRICS[name].labels
    return metric.labels(*(labels.get(label, "") for label in declared)) if declared else metric
