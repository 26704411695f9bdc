"""What the proxy costs: `python -m benchmarks.proxy [CASE...] [--json]`.

The proxy runs on core 0; load and endpoints on core 1. Its cost is the processor time of
its process, so that a load generator that is slower than the proxy does not matter. HAProxy,
nginx and Envoy are measured in the same run where they are installed; theirs is the route to
four endpoints behind a comparison of a header, ours checks the key and routes by model.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import multiprocessing
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import uvloop

from benchmarks.command_line import chosen_cases
from benchmarks.embedded_server import clock, percentile
from sokovan.adapters.local.clock import SystemClock
from sokovan.proxy.routing.choice import Affinity, Draws, RevisionPool, choose
from sokovan.proxy.routing.endpoint_state import EndpointState
from sokovan.proxy.routing.prefixes import prefix_chain
from sokovan.wire.serving.route_table import EndpointEntry, KeyEntry, ProbeTerms, RevisionEntry, RouteEntry, TableUpdate
from sokovan.wire.serving.serving_codec import encode

Figures = dict[str, Any]
KEY, DIGEST_KEY = b"ske_benchmark", b"pepper"
BODY = json.dumps({"model": "chat", "messages": [{"role": "user", "content": "x" * 165}]}).encode()
CONNECTIONS, ENDPOINTS, SECONDS = 32, 4, 4.0
STREAMS, EVENTS_PER_S = 64, 200
PACED_PER_S = 1_000
SLEEP = SystemClock().sleep
TICKS = os.sysconf("SC_CLK_TCK")
ANSWER = b'{"id":"x","usage":{"prompt_tokens":40,"completion_tokens":2}}'
RESPONSE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER)
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
EVENT = b'data: {"id":"x","choices":[{"index":0,"delta":{"content":"token"}}]}\n\n'


def request(path: str = "/v1/chat/completions", body: bytes = BODY) -> bytes:
    """A request of a client."""
    head = f"POST {path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    return head.encode() + b"authorization: Bearer " + KEY + b"\r\n\r\n" + body


class EndpointProtocol(asyncio.Protocol):
    """Answers every request, with events if it asks for a stream."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer; a request comes in one piece."""
        if b'"stream":' in data:
            self.transport.write(STREAM_HEAD)
            self._next(asyncio.get_running_loop().time())
        else:
            self.transport.write(RESPONSE)

    def _next(self, due: float) -> None:
        if not self.transport.is_closing():
            self.transport.write(b"%x\r\n%b\r\n" % (len(EVENT), EVENT))
            asyncio.get_running_loop().call_at(due + 1 / EVENTS_PER_S, self._next, due + 1 / EVENTS_PER_S)


def serve_endpoints(sockets: list[socket.socket]) -> None:
    """Run the endpoints on core 1, until ended."""
    os.sched_setaffinity(0, {1})

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        for one in sockets:
            await loop.create_server(EndpointProtocol, sock=one)
        await asyncio.Event().wait()

    uvloop.run(serve())


@contextlib.contextmanager
def endpoints() -> Iterator[list[int]]:
    """Ports of running endpoints."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(ENDPOINTS)]
    process = multiprocessing.get_context("fork").Process(target=serve_endpoints, args=(sockets,), daemon=True)
    process.start()
    try:
        yield [one.getsockname()[1] for one in sockets]
    finally:
        process.terminate()
        process.join()


def table(ports: list[int]) -> bytes:
    """A route table with one deployment."""
    entries = tuple(
        EndpointEntry(f"k{number}.1", 1, "127.0.0.1", port, "ACTIVE", probe=ProbeTerms(interval_ms=600_000))
        for number, port in enumerate(ports)
    )
    route = RouteEntry(
        deployment_id="d1", name="chat", project="p", owner="u", models=("chat",), revisions=(RevisionEntry(1),),
        endpoints=entries,
    )  # fmt: skip
    digest = hmac.digest(DIGEST_KEY, KEY, "sha256").hex()
    key = KeyEntry(key_id="key", digest=digest, deployments=("d1",))
    return encode(TableUpdate(epoch="e", version=1, digest_key=DIGEST_KEY.decode(), routes=(route,), keys=(key,)))


def sokovan_command(folder: Path, port: int, ports: list[int]) -> list[str]:
    """Our proxy."""
    (folder / "table.json").write_bytes(table(ports))
    return [sys.executable, "-m", "sokovan", "proxy", "--listen", f"127.0.0.1:{port}", "--root", str(folder)]


def haproxy_command(folder: Path, port: int, ports: list[int]) -> list[str]:
    """HAProxy with one thread."""
    servers = "\n".join(f"  server s{one} 127.0.0.1:{one}" for one in ports)
    (folder / "haproxy.cfg").write_text(
        "global\n  nbthread 1\ndefaults\n  mode http\n  timeout connect 1s\n  timeout client 60s\n"
        "  timeout server 60s\n  option http-no-delay\n"  # else it holds back some ten events at a time
        f"frontend f\n  bind 127.0.0.1:{port}\n  http-request deny unless {{ req.hdr(authorization) -m found }}\n"
        f"  default_backend b\nbackend b\n  balance leastconn\n{servers}\n",
        encoding="utf-8",
    )
    return ["haproxy", "-db", "-f", str(folder / "haproxy.cfg")]


def nginx_command(folder: Path, port: int, ports: list[int]) -> list[str]:
    """Nginx with one worker and no temporary files."""
    servers = " ".join(f"server 127.0.0.1:{one};" for one in ports)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    folders = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; worker_processes 1; pid {folder}/pid; error_log /dev/null;\n"
        f"events {{}} http {{ access_log off; {folders} upstream b {{ {servers} keepalive 64; }}\n"
        f"server {{ listen 127.0.0.1:{port}; location / {{ if ($http_authorization = '') {{ return 401; }}\n"
        f"proxy_pass http://b; proxy_http_version 1.1; proxy_set_header Connection ''; proxy_buffering off; }} }} }}\n",
        encoding="utf-8",
    )
    return ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")]


def envoy_command(folder: Path, port: int, ports: list[int]) -> list[str]:
    """Envoy with one worker."""
    address = "{{ socket_address: {{ address: 127.0.0.1, port_value: {} }} }}"
    hosts = ", ".join(f"{{ endpoint: {{ address: {address.format(one)} }} }}" for one in ports)
    manager = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
    router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"
    (folder / "envoy.yaml").write_text(
        f"""static_resources:
  listeners:
  - address: {address.format(port)}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/{manager}
          stat_prefix: b
          route_config:
            virtual_hosts:
            - name: b
              domains: ["*"]
              routes:
              - match: {{ prefix: "/", headers: [{{ name: authorization, present_match: true }}] }}
                route: {{ cluster: b, timeout: 0s }}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{ "@type": {router} }}
  clusters:
  - name: b
    lb_policy: LEAST_REQUEST
    load_assignment: {{ cluster_name: b, endpoints: [{{ lb_endpoints: [{hosts}] }}] }}
""",
        encoding="utf-8",
    )
    program = shutil.which("envoy", path=os.environ.get("ENVOY_PATH", os.environ["PATH"])) or "envoy"
    return [program, "-c", str(folder / "envoy.yaml"), "--concurrency", "1", "-l", "off"]


PROXIES: dict[str, Callable[[Path, int, list[int]], list[str]]] = {
    "sokovan": sokovan_command, "haproxy": haproxy_command, "nginx": nginx_command, "envoy": envoy_command,
}  # fmt: skip


def installed() -> list[str]:
    """The proxies of this machine."""
    path = os.environ.get("ENVOY_PATH", os.environ["PATH"])
    return [name for name in PROXIES if name == "sokovan" or shutil.which(name, path=path if name == "envoy" else None)]


def free_port() -> int:
    """A port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def started(command: list[str]) -> subprocess.Popen[bytes]:
    """A process without output."""
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


async def called(port: int, data: bytes, count: int) -> list[Caller]:
    """Connections that send requests as fast as they are answered."""
    loop, callers = asyncio.get_running_loop(), [Caller(data) for _ in range(count)]
    for caller in callers:
        await loop.create_connection(partial(_itself, caller), "127.0.0.1", port)
    await SLEEP(0.5)
    return callers


def _itself(caller: Caller) -> Caller:
    return caller


@contextlib.asynccontextmanager
async def proxy(name: str, ports: list[int]) -> AsyncIterator[tuple[int, int]]:
    """Port and process id of a running proxy, on core 0."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        process = started(PROXIES[name](Path(folder), port, ports))
        os.sched_setaffinity(process.pid, {0})
        try:
            await answers(port)
            yield port, process.pid
        finally:
            process.terminate()
            process.wait()


async def answers(port: int) -> None:
    """Wait until the proxy answers."""
    for _ in range(300):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request())
            line = await reader.readline()
            writer.close()
            if line.startswith(b"HTTP/1.1 200"):
                return
        await SLEEP(0.1)
    raise RuntimeError("the proxy does not answer")


def cpu_s(process: int) -> float:
    """Processor time of a process, its threads included."""
    words = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICKS


def resident_mb(process: int) -> float:
    """Resident memory of a process."""
    pages = int(Path(f"/proc/{process}/statm").read_text(encoding="utf-8").split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


class Caller(asyncio.Protocol):
    """Sends a request as soon as the one before is answered."""

    transport: asyncio.Transport

    def __init__(self, data: bytes) -> None:
        self.data, self.answered, self.received, self.reads = data, 0, 0, 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self.data)

    def data_received(self, data: bytes) -> None:
        """Count, and send the next request."""
        self.received += len(data)
        self.reads += 1
        if data.endswith(ANSWER):
            self.answered += 1
            self.transport.write(self.data)


async def requests(name: str, ports: list[int]) -> Figures:
    """Short requests as fast as they go."""
    async with proxy(name, ports) as (port, process):
        callers = await called(port, request(), CONNECTIONS)
        before, count, begun = cpu_s(process), sum(one.answered for one in callers), clock()
        await SLEEP(SECONDS)
        used, done, took = cpu_s(process) - before, sum(one.answered for one in callers) - count, clock() - begun
        for caller in callers:
            caller.transport.abort()
        return {
            "requests per CPU-second": round(done / used),
            "us per request": round(used / done * 1e6, 1),
            "requests per second": round(done / took),
            "MB": resident_mb(process),
        }


async def events(name: str, ports: list[int]) -> Figures:
    """Many streams at a steady rate; a proxy that holds events back has more of them per read."""
    body = json.dumps({"model": "chat", "stream": True}).encode()
    async with proxy(name, ports) as (port, process):
        callers = await called(port, request(body=body), STREAMS)
        before, count = cpu_s(process), sum(one.received for one in callers)
        reads = sum(one.reads for one in callers)
        await SLEEP(SECONDS)
        used, reads = cpu_s(process) - before, sum(one.reads for one in callers) - reads
        done = (sum(one.received for one in callers) - count) / (len(EVENT) + len(b"%x\r\n\r\n" % len(EVENT)))
        for caller in callers:
            caller.transport.abort()
        return {
            "events per CPU-second": round(done / used),
            "us per event": round(used / done * 1e6, 1),
            "events per read": round(done / reads, 1),
        }


async def latencies(port: int) -> list[float]:
    """Times of requests at a fixed rate, over connections that are kept."""
    waiting: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        waiting.put_nowait(await asyncio.open_connection("127.0.0.1", port))
    found: list[float] = []

    async def once() -> None:
        reader, writer = await waiting.get()
        begun = clock()
        writer.write(request())
        await reader.readuntil(ANSWER)
        found.append(clock() - begun)
        waiting.put_nowait((reader, writer))

    tasks, begun = [], clock()
    for number in range(int(PACED_PER_S * SECONDS)):
        await SLEEP(max(0.0, begun + number / PACED_PER_S - clock()))
        tasks.append(asyncio.create_task(once()))
    await asyncio.gather(*tasks)
    return found


async def latency(name: str, ports: list[int]) -> Figures:
    """Time that the proxy adds at 1,000 requests per second."""
    direct = await latencies(ports[0])
    async with proxy(name, ports) as (port, _):
        through = await latencies(port)
    return {
        f"added p{part} ms": round((percentile(through, part) - percentile(direct, part)) * 1000, 2)
        for part in (50, 99)
    }


async def choice(_name: str, _ports: list[int]) -> Figures:
    """One decision among a hundred endpoints."""
    entries = [EndpointEntry(f"k{number:03}.1", 1, "127.0.0.1", 1 + number, "ACTIVE") for number in range(100)]
    states = [EndpointState(entry, concurrency_max=64) for entry in entries]
    pool, draws, affinity = RevisionPool(1, 1000, states), Draws(1), Affinity(chain=prefix_chain(b"x" * 4096))
    times = 50_000
    begun = os.times().user
    for number in range(times):
        choose((pool,), "prefix", affinity, now_ms=number, draws=draws)
    return {"us per choice": round((os.times().user - begun) / times * 1e6, 1)}


CASES = {"requests": requests, "events": events, "latency": latency, "choice": choice}


async def run(cases: list[str]) -> dict[str, dict[str, Figures]]:
    """All figures, by case and proxy."""
    found: dict[str, dict[str, Figures]] = {}
    with endpoints() as ports:
        for case in cases:
            names = ["sokovan"] if case == "choice" else installed()
            found[case] = {name: await CASES[case](name, ports) for name in names}
    return found


def main() -> int:
    """Run the chosen cases and print their figures."""
    cases, as_json = chosen_cases("benchmarks.proxy", __doc__, CASES)
    os.sched_setaffinity(0, {1})
    found = uvloop.run(run(cases))
    if as_json:
        print(json.dumps(found, indent=2))
        return 0
    for case, figures in found.items():
        for name, values in figures.items():
            print(f"{case:10}{name:10}", ", ".join(f"{key} {value:,}" for key, value in values.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
