"""Figures as Prometheus reads them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from sokovan.adapters.prometheus import METRICS, PREFIX, PrometheusTelemetry

SOURCES = Path(__file__).parents[3] / "src" / "sokovan"


def test_what_was_counted_observed_and_gauged_is_exposed() -> None:
    telemetry = PrometheusTelemetry()
    telemetry.count("orphans_total")
    telemetry.count("handler_failures_total", 3, handler="watch")
    telemetry.gauge("sessions", 7, status="running")
    telemetry.observe("cycle_seconds", 0.004, coordinator="sessions")
    text = telemetry.exposition().decode()
    assert "sokovan_orphans_total 1.0" in text
    assert 'sokovan_handler_failures_total{handler="watch",kind=""} 3.0' in text
    assert 'sokovan_sessions{status="running"} 7.0' in text
    assert 'sokovan_cycle_seconds_bucket{coordinator="sessions",le="0.005"} 1.0' in text


def test_two_of_them_do_not_share_their_figures() -> None:
    first, second = PrometheusTelemetry(), PrometheusTelemetry()
    first.count("orphans_total")
    assert b"sokovan_orphans_total 0.0" in second.exposition()


def test_a_figure_that_was_not_declared_is_refused() -> None:
    with pytest.raises(KeyError):
        PrometheusTelemetry().count("surprises_total")


def test_every_figure_has_a_meaning_and_the_name_of_its_kind() -> None:
    for name, metric in METRICS.items():
        assert metric.meaning.endswith("."), name
        assert (PREFIX + name).replace("_", "").isalnum()
        assert name.endswith("_total") == (metric.kind == "counter"), name
        assert name.endswith("_seconds") == (metric.kind == "histogram"), name


KINDS = {"count": "counter", "observe": "histogram", "gauge": "gauge"}


@cache
def used_metrics() -> list[tuple[str, str, frozenset[str]]]:
    """All metrics used in the code: kind, name, labels."""
    calls = [
        node
        for path in SOURCES.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in KINDS
    ]
    return [
        (KINDS[call.func.attr], str(call.args[0].value), frozenset(str(keyword.arg) for keyword in call.keywords))
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and "telemetry" in ast.unparse(call.func.value)
        and isinstance(call.args[0], ast.Constant)
    ]


@pytest.mark.slow
def test_every_metric_in_the_code_is_declared_with_its_kind_and_labels() -> None:
    wrong = [
        (kind, name, labels)
        for kind, name, labels in used_metrics()
        if name not in METRICS or METRICS[name].kind != kind or not labels <= set(METRICS[name].labels)
    ]
    assert wrong == []


@pytest.mark.slow
def test_every_declared_metric_is_used() -> None:
    assert set(METRICS) - {name for _, name, _ in used_metrics()} == set()
