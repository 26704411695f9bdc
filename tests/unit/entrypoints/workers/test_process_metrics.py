"""Metrics of several processes as one answer."""

from __future__ import annotations

from sokovan.adapters.agentlink.relay.remote_agents import ManagerProcessAway
from sokovan.adapters.prometheus import PrometheusTelemetry
from sokovan.entrypoints.workers.process_metrics import joined, metrics_of


def text_of(failures: int) -> bytes:
    telemetry = PrometheusTelemetry()
    telemetry.count("api_failures_total", failures)
    telemetry.observe("api_seconds", 0.2, method="GET", route="/a b", status="200")
    return telemetry.exposition()


def test_each_metric_is_described_once_with_the_samples_of_every_process() -> None:
    lines = joined({"manager": text_of(1), "api-1": text_of(2)}).decode().splitlines()
    at = lines.index("# TYPE sokovan_api_failures_total counter")
    assert lines[at + 1 : at + 3] == [
        'sokovan_api_failures_total{process="manager"} 1.0',
        'sokovan_api_failures_total{process="api-1"} 2.0',
    ]
    assert lines.count("# TYPE sokovan_api_seconds histogram") == 1
    assert 'sokovan_api_seconds_count{process="api-1",method="GET",route="/a b",status="200"} 1.0' in lines


async def test_a_process_that_is_away_is_left_out() -> None:
    async def away() -> bytes:
        raise ManagerProcessAway("it has ended")

    async def here() -> bytes:
        return b"# TYPE up gauge\nup 1.0\n"

    assert await metrics_of({"manager": away, "api-1": here}) == b'# TYPE up gauge\nup{process="api-1"} 1.0\n'
