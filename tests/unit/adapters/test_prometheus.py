"""Figures as Prometheus reads them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sokovan.adapters.prometheus import FIGURES, PREFIX, PrometheusTelemetry

SOURCES = Path(__file__).parents[3] / "src" / "sokovan"
_TOLD = re.compile(r"telemetry\.(count|observe|gauge)\(\s*\"([a-z_]+)\"")


def test_what_was_counted_observed_and_gauged_is_exposed() -> None:
    telemetry = PrometheusTelemetry()
    telemetry.count("agents_lost_total")
    telemetry.count("placements_total", 3, scaling_group="default")
    telemetry.gauge("sessions", 7, status="running")
    telemetry.observe("decide_seconds", 0.004, scaling_group="default")
    text = telemetry.exposition().decode()
    assert "sokovan_agents_lost_total 1.0" in text
    assert 'sokovan_placements_total{scaling_group="default"} 3.0' in text
    assert 'sokovan_sessions{status="running"} 7.0' in text
    assert 'sokovan_decide_seconds_bucket{le="0.005",scaling_group="default"} 1.0' in text


def test_two_of_them_do_not_share_their_figures() -> None:
    first, second = PrometheusTelemetry(), PrometheusTelemetry()
    first.count("agents_lost_total")
    assert b"sokovan_agents_lost_total 0.0" in second.exposition()


def test_a_figure_that_was_not_declared_is_refused() -> None:
    with pytest.raises(KeyError):
        PrometheusTelemetry().count("surprises_total")


def test_every_figure_has_a_meaning_and_the_name_of_its_kind() -> None:
    for name, figure in FIGURES.items():
        assert figure.meaning.endswith("."), name
        assert (PREFIX + name).replace("_", "").isalnum()
        assert name.endswith("_total") == (figure.kind == "counter"), name
        assert name.endswith("_seconds") == (figure.kind == "histogram"), name


def test_every_figure_that_the_code_tells_is_declared_with_its_kind() -> None:
    kinds = {"count": "counter", "observe": "histogram", "gauge": "gauge"}
    told = {
        (kinds[kind], name)
        for path in SOURCES.rglob("*.py")
        for kind, name in _TOLD.findall(path.read_text(encoding="utf-8"))
    }
    assert {(kind, name) for kind, name in told if name not in FIGURES or FIGURES[name].kind != kind} == set()
