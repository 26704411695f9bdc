"""The proxy's metrics in Prometheus's text format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from sokovan.proxy.context import ProxyContext
from sokovan.proxy.routing.route_state import RouteState
from sokovan.wire.serving.proxy_reports import FIRST_BYTE_BOUNDS_MS

PREFIX = "sokovan_proxy_"


class ProxyMetric(NamedTuple):
    """The kind, the labels and the meaning of one metric."""

    kind: str
    labels: tuple[str, ...]
    meaning: str


METRICS = {
    "responses_total": ProxyMetric("counter", ("status",), "Responses by status."),
    "retries_total": ProxyMetric("counter", (), "Requests that were sent to another endpoint."),
    "clients_gone_total": ProxyMetric("counter", (), "Clients that left before their response was whole."),
    "bad_requests_total": ProxyMetric("counter", (), "Requests whose head or body was malformed."),
    "tokens_total": ProxyMetric(
        "counter", ("kind",), "Tokens by kind; estimated ones were not reported by the engine."
    ),
    "in_flight": ProxyMetric("gauge", ("project", "deployment"), "Requests at endpoints, by deployment."),
    "queued": ProxyMetric("gauge", ("project", "deployment"), "Requests that wait for an endpoint, by deployment."),
    "first_byte_seconds": ProxyMetric(
        "histogram", ("project", "deployment", "revision"), "Time to the first byte of a response, by deployment."
    ),
    "stream_gap_seconds": ProxyMetric(
        "histogram", ("project", "deployment", "revision"), "Time between two parts of a streamed response."
    ),
    "outstanding": ProxyMetric("gauge", ("project", "deployment", "endpoint"), "Requests at an endpoint."),
    "engine_waiting": ProxyMetric(
        "gauge", ("project", "deployment", "endpoint"), "Requests in the queue of an engine, as it says."
    ),
    "endpoint_requests_total": ProxyMetric(
        "counter", ("project", "deployment", "endpoint"), "Requests that were sent to an endpoint."
    ),
    "ejections_total": ProxyMetric(
        "counter", ("project", "deployment", "endpoint", "cause"), "Ejections of an endpoint by cause."
    ),
    "endpoint_failing": ProxyMetric(
        "gauge", ("project", "deployment", "endpoint"), "1 while the answers of an endpoint fail again and again."
    ),
    "connections": ProxyMetric("gauge", (), "Open connections of clients."),
    "held_bytes": ProxyMetric("gauge", (), "Bytes of bodies that are kept."),
    "table_version": ProxyMetric("gauge", (), "Version of the route table in force."),
    "table_age_seconds": ProxyMetric("gauge", (), "Time since the route table was put in force."),
    "manager_silent_seconds": ProxyMetric("gauge", (), "Time since the manager answered last."),
}


def exposition(context: ProxyContext) -> bytes:
    """All metrics."""
    samples: dict[str, list[str]] = {name: [] for name in METRICS}
    for name, labels, value in _samples(context):
        family = name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")
        text = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels.items())
        samples[family if family in METRICS else name].append(f"{PREFIX}{name}{{{text}}} {value}")
    lines: list[str] = []
    for name, metric in METRICS.items():
        lines += [f"# HELP {PREFIX}{name} {metric.meaning}", f"# TYPE {PREFIX}{name} {metric.kind}", *samples[name]]
    return ("\n".join(lines) + "\n").encode()


def _samples(context: ProxyContext) -> Iterator[tuple[str, dict[str, str], float]]:
    counters, now_ms = context.counters, context.now_ms()
    for status, count in sorted(counters.answers.items()):
        yield "responses_total", {"status": str(status)}, count
    yield "retries_total", {}, counters.retries
    yield "clients_gone_total", {}, counters.clients_gone
    yield "bad_requests_total", {}, counters.bad_heads
    for kind in ("input", "output", "estimated"):
        yield "tokens_total", {"kind": kind}, getattr(counters, f"{kind}_tokens")
    yield "connections", {}, len(context.clients)
    yield "held_bytes", {}, context.held_bytes
    yield "table_version", {}, context.table.version
    yield "table_age_seconds", {}, (now_ms - context.table_ms) / 1000
    yield "manager_silent_seconds", {}, (now_ms - context.manager_seen_ms) / 1000
    for route in context.table.routes.values():
        yield from _route_samples(route, now_ms)


def _route_samples(route: RouteState[Any], now_ms: int) -> Iterator[tuple[str, dict[str, str], float]]:
    # Names are unique within a project only.
    labels = {"project": route.entry.project, "deployment": route.entry.name}
    yield "in_flight", labels, route.in_flight
    yield "queued", labels, route.queue.length
    for revision, counters in sorted(route.counters.items()):
        places = {**labels, "revision": str(revision)}
        yield from _histogram("first_byte_seconds", places, counters.first_byte_counts, counters.first_byte_ms_sum)
        yield from _histogram("stream_gap_seconds", places, counters.gap_counts, counters.gap_ms_sum)
    for endpoint_id, endpoint in route.endpoints.items():
        place = {**labels, "endpoint": endpoint_id}
        yield "outstanding", place, endpoint.outstanding
        if endpoint.entry.probe.metrics_path:
            yield "engine_waiting", place, endpoint.engine.waiting(now_ms)
        yield "endpoint_requests_total", place, endpoint.served
        yield "endpoint_failing", place, int(endpoint.recent.failing(now_ms))
        for cause, count in sorted(endpoint.ejection.causes.items()):
            yield "ejections_total", {**place, "cause": cause}, count


def _histogram(
    name: str, places: dict[str, str], counts: list[int], sum_ms: int
) -> Iterator[tuple[str, dict[str, str], float]]:
    total = 0
    for bound, count in zip((*FIRST_BYTE_BOUNDS_MS, None), counts, strict=True):
        total += count
        yield f"{name}_bucket", {**places, "le": "+Inf" if bound is None else str(bound / 1000)}, total
    yield f"{name}_sum", places, sum_ms / 1000
    yield f"{name}_count", places, total


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
