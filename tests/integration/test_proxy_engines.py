"""A proxy process before engines that fail, under load, and without any manager."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.wire.serving.route_table import EndpointEntry, ProbeTerms, RevisionEntry, RouteLimits
from sokovan.wire.serving.serving_codec import encode
from tests.unit.proxy.running_proxy import KEY, key_of, route_of, table_of

pytestmark = [pytest.mark.server, pytest.mark.slow]

LIMIT_S = 180.0
SECRET = "engine-key"  # noqa: S105  # of engines started here


@dataclass
class ToyProcess:
    """A toy engine as a process."""

    process: subprocess.Popen[str]
    port: int

    async def counters(self) -> dict[str, int]:
        async with httpx2.AsyncClient(trust_env=False, timeout=LIMIT_S) as client:
            text = (await client.get(f"http://127.0.0.1:{self.port}/metrics")).text
        rows = [line.split() for line in text.splitlines() if not line.startswith("#")]
        return {name: int(value) for name, value in rows}

    async def set_mode(self, mode: str) -> None:
        headers = {"authorization": f"Bearer {SECRET}"}
        async with httpx2.AsyncClient(trust_env=False, headers=headers, timeout=LIMIT_S) as client:
            await client.post(f"http://127.0.0.1:{self.port}/toy/mode", json={"mode": mode})


@contextlib.contextmanager
def toys(count: int, *options: str) -> Iterator[list[ToyProcess]]:
    environment = {**os.environ, "TOY_API_KEY": SECRET}
    words = [sys.executable, "-m", "sokovan.engines.toy", "--model", "toy-model", *options]
    processes = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(count)]
    try:
        lines = [process.stdout.readline() if process.stdout else "" for process in processes]
        ports = [int(line.rpartition(":")[2]) for line in lines]
        yield [ToyProcess(process, port) for process, port in zip(processes, ports, strict=True)]
    finally:
        for process in processes:
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()


@contextlib.contextmanager
def proxy_process(root: Path, port: int = 0) -> Iterator[tuple[subprocess.Popen[str], str]]:
    words = [sys.executable, "-m", "sokovan", "proxy", "--listen", f"127.0.0.1:{port}", "--root", str(root)]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        assert "the gateway is ready at " in line
        yield process, line.split()[-1]
    finally:
        process.terminate()
        process.wait(LIMIT_S)
        process.stderr.close()


def write_table(root: Path, engines: list[ToyProcess]) -> None:
    root.mkdir(exist_ok=True)
    probe = ProbeTerms(path="/health", warming_ms=200, interval_ms=1_000, timeout_ms=5_000)
    entries = [
        EndpointEntry(
            f"k{one.port}.1", 1, "127.0.0.1", one.port, "ACTIVE", SECRET, "toy-model", probe=probe, event_usage="usage"
        )
        for one in engines
    ]
    limits = RouteLimits(first_byte_ms=15_000)  # engines that answer are slower than that on no machine
    route = route_of(*entries, revisions=(RevisionEntry(1, concurrency_max=32),), limits=limits)
    (root / "table.json").write_bytes(encode(table_of(route, keys=(key_of(),))))


@dataclass
class Load:
    """Requests to a gateway, three in ten as streams, and how they ended."""

    url: str
    good: int = 0
    cut_streams: int = 0
    bad: list[str] = field(default_factory=list)

    async def run(self, count: int, *, leave: bool = False) -> None:
        limits = httpx2.Limits(max_connections=16)
        headers = {"authorization": f"Bearer {KEY.decode()}"}
        async with httpx2.AsyncClient(
            base_url=self.url, headers=headers, limits=limits, timeout=LIMIT_S, trust_env=False
        ) as client:
            gate = asyncio.Semaphore(16)

            async def one(number: int) -> None:
                async with gate:
                    if number % 10 < 3:
                        await self._stream(client, leaves=leave and number % 10 == 0)
                    else:
                        await self._whole(client)

            await asyncio.gather(*(one(number) for number in range(count)))

    async def _whole(self, client: httpx2.AsyncClient) -> None:
        body = {"model": "chat", "messages": [{"role": "user", "content": "hello there"}]}
        response = await client.post("/v1/chat/completions", json=body)
        if response.status_code == 200:
            self.good += 1
        else:
            self.bad.append(response.text)

    async def _stream(self, client: httpx2.AsyncClient, *, leaves: bool) -> None:
        body = {"model": "chat", "stream": True, "messages": [{"role": "user", "content": "hello there"}]}
        if leaves:
            body["max_tokens"] = 4_000
        async with client.stream("POST", "/v1/chat/completions", json=body) as response:
            if response.status_code != 200:
                self.bad.append((await response.aread()).decode())
                return
            last = ""
            async for line in response.aiter_lines():
                last = line or last
                assert '"usage":{' not in line, "the usage that the proxy asked for is removed"
                if leaves:
                    return
        self.good += last == "data: [DONE]"
        self.cut_streams += last != "data: [DONE]"


async def test_failing_engines_cost_no_request_but_streams_that_had_begun(tmp_path: Path) -> None:
    with toys(3, "--tokens-per-second", "400") as engines:
        write_table(tmp_path, engines)
        with proxy_process(tmp_path) as (_process, url):
            load = Load(url)
            for mode in ("unavailable", "hang", "refuse"):
                await engines[0].set_mode(mode)
                await load.run(40)
                if mode != "refuse":
                    await engines[0].set_mode("ok")
            killing = asyncio.create_task(load.run(120))
            while load.good < 150:
                await SystemClock().sleep(0.01)
            engines[1].process.kill()
            await killing

    assert load.bad == []
    assert load.good + load.cut_streams == 240
    assert load.cut_streams <= 16, "only streams of the killed engine break off"


async def test_a_killed_proxy_serves_again_from_its_disk(tmp_path: Path) -> None:
    with toys(1) as engines:
        write_table(tmp_path, engines)
        with proxy_process(tmp_path) as (process, url):
            await Load(url).run(10)
            process.send_signal(signal.SIGKILL)
            process.wait()
        with proxy_process(tmp_path, int(url.rpartition(":")[2])) as (_process, again):
            load = Load(again)
            await load.run(10)

    assert (load.good, load.bad) == (10, [])


async def test_usage_equals_the_engines_own_counters(tmp_path: Path) -> None:
    with toys(2, "--tokens-per-second", "2000") as engines:
        write_table(tmp_path, engines)
        with proxy_process(tmp_path) as (_process, url):
            load = Load(url)
            await load.run(200, leave=True)
            counted = [await engine.counters() for engine in engines]
            while any(one["toy_requests_running"] for one in counted):
                counted = [await engine.counters() for engine in engines]

    assert load.bad == []
    spool = json.loads((tmp_path / "usage.json").read_bytes())
    entries = spool["entries"]

    def total(name: str) -> int:
        return sum(int(entry.get(name, 0)) for entry in entries)

    def engines_total(name: str) -> int:
        return sum(one[name] for one in counted)

    assert total("requests") == 200 == engines_total("toy_requests_total")
    assert engines_total("toy_requests_aborted_total") == 20, "those whose client left"
    assert total("estimated_requests") == 0
    assert total("input_tokens") == engines_total("toy_prompt_tokens_total")
    assert total("output_tokens") == engines_total("toy_completion_tokens_total") > 180 * 16


@pytest.fixture(autouse=True)
async def _limit() -> AsyncIterator[None]:
    async with asyncio.timeout(5 * LIMIT_S):
        yield
