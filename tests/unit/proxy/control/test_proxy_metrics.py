"""Metrics can be read by Prometheus's own parser."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from sokovan.proxy.control.proxy_metrics import METRICS, PREFIX
from tests.unit.proxy.running_proxy import (
    body_of,
    call,
    endpoint_of,
    engines,
    get,
    json_answer,
    proxy_with,
    route_of,
    table_of,
)


async def test_every_metric_is_exposed_and_parses() -> None:
    async with engines(json_answer(b'{"usage":{"prompt_tokens":3,"completion_tokens":4}}'), json_answer()) as (
        good,
        bad,
    ):
        await bad.stop()
        table = table_of(route_of(endpoint_of(bad, 1), endpoint_of(good, 2), name='we"ird'))
        async with proxy_with(table) as proxy:
            await proxy.send(call())
            families = {
                family.name: family
                for family in text_string_to_metric_families(body_of(await proxy.send(get("/-/metrics"))).decode())
            }

    assert set(families) == {(PREFIX + name).removesuffix("_total") for name in METRICS}
    samples = {(one.name, *sorted(one.labels.values())): one.value for one in families[f"{PREFIX}tokens"].samples}
    assert samples[f"{PREFIX}tokens_total", "output"] == 4
    [ejection] = families[f"{PREFIX}ejections"].samples
    assert ejection.labels["cause"] == "refused"
    assert ejection.labels["deployment"] == 'we"ird'
    assert families[f"{PREFIX}first_byte_seconds"].type == "histogram"
