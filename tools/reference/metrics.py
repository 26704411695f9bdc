"""The metrics that a server exposes to Prometheus."""

from __future__ import annotations

from sokovan.adapters.prometheus import METRICS, PREFIX
from sokovan.proxy.control import proxy_metrics

INTRODUCTION = """\
# Metrics

`GET /metrics` returns these in Prometheus' text format, for an administrator's key. Labels have few values; no label is
per session.

| Name | Kind | Labels | Meaning |
|---|---|---|---|
"""


PROXY_INTRODUCTION = """
## Of a proxy

`GET /-/metrics` of a proxy returns these, to callers on its own machine.

| Name | Kind | Labels | Meaning |
|---|---|---|---|
"""


def page() -> str:
    """The page of all metrics, by name."""
    rows = [
        f"| `{PREFIX}{name}` | {metric.kind} | {', '.join(metric.labels) or '-'} | {metric.meaning} |\n"
        for name, metric in sorted(METRICS.items())
    ]
    of_proxy = [
        f"| `{proxy_metrics.PREFIX}{name}` | {metric.kind} | {', '.join(metric.labels) or '-'} | {metric.meaning} |\n"
        for name, metric in sorted(proxy_metrics.METRICS.items())
    ]
    return INTRODUCTION + "".join(rows) + PROXY_INTRODUCTION + "".join(of_proxy)
