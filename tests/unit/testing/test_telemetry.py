"""Figures are kept by name and label."""

from sokovan.testing.telemetry import RecordedTelemetry


def test_counts_add_up_over_the_labels_that_are_not_asked_for() -> None:
    telemetry = RecordedTelemetry()
    telemetry.count("failures_total", handler="watch", kind="error")
    telemetry.count("failures_total", 2, handler="start", kind="error")
    assert telemetry.counted("failures_total") == 3
    assert telemetry.counted("failures_total", handler="start") == 2
    assert telemetry.counted("failures_total", handler="nobody") == 0


def test_observations_are_kept_in_order() -> None:
    telemetry = RecordedTelemetry()
    telemetry.observe("cycle_seconds", 0.5, coordinator="sessions")
    telemetry.observe("cycle_seconds", 0.1, coordinator="sessions")
    assert telemetry.observed("cycle_seconds") == [0.5, 0.1]


def test_a_gauge_has_its_last_value() -> None:
    telemetry = RecordedTelemetry()
    assert telemetry.gauged("agents", status="alive") is None
    telemetry.gauge("agents", 3, status="alive")
    telemetry.gauge("agents", 2, status="alive")
    assert telemetry.gauged("agents", status="alive") == 2
