"""Metrics can be read by Prometheus's own parser."""

from __future__ import annotations

import asyncio

from prometheus_client.parser import text_string_to_metric_families

from sokovan.proxy.control.proxy_metrics import METRICS, PREFIX, exposition
from tests.unit.proxy.running_proxy import (
    SeenRequest,
    body_of,
    call,
    endpoint_of,
    engines,
    get,
    json_answer,
    proxy_with,
    route_of,
    status_of,
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


async def test_the_time_between_two_parts_of_a_stream_is_counted() -> None:
    more = asyncio.Event()

    async def answer(_request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n")
        await more.wait()
        writer.write(b"data: 2\n\n")
        writer.close()

    async with engines(answer) as (engine,), proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy:
        reader, writer = await proxy.connect()
        writer.write(call(body=b'{"model":"chat","stream":true}'))
        await reader.readuntil(b"data: 1")
        more.set()
        await reader.readuntil(b"data: 2")
        writer.transport.abort()
        await proxy.until(lambda: not proxy.context.exchanges)
        [line] = [one for one in exposition(proxy.context).splitlines() if b"stream_gap_seconds_count" in one]

        assert int(line.rpartition(b" ")[2]) >= 1


async def test_deployments_of_one_name_in_two_projects_have_series_of_their_own() -> None:
    other = route_of(deployment_id="deployment-2", project="other")
    async with proxy_with(table_of(route_of(), other)) as proxy:
        lines = exposition(proxy.context).decode().splitlines()
        names = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]

        assert len(set(names)) == len(names)


async def test_metrics_are_not_for_clients_of_another_proxy_on_this_machine() -> None:
    async with proxy_with(table_of(route_of())) as proxy:
        for header in (b"X-Forwarded-For: 10.0.0.1\r\n", b"Forwarded: for=10.0.0.1\r\n"):
            request = get("/-/metrics").replace(b"Host: gateway\r\n", b"Host: gateway\r\n" + header)
            assert status_of(await proxy.send(request)) == 404
        assert status_of(await proxy.send(get("/-/metrics"))) == 200
