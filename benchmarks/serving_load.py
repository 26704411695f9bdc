"""What happens to requests while replicas, proxies and managers fail: `python -m benchmarks.serving_load [CASE...]`.

A real `sokovan up` serves the toy engine; requests come at a fixed rate, a third of them as
streams, through its gateway. Each case says how many requests failed, of how many, and how
long they took.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

from benchmarks.command_line import chosen_cases
from benchmarks.embedded_server import SOKOVAN, Server, clock, server, wait
from benchmarks.gateway_load import SLEEP, Connections, Ends, Target, load, send
from sokovan.entrypoints.proxies.folder_lock import holder_of
from sokovan.sdk.sync.client import Client
from sokovan.wire.api.deployments import (
    DeploymentBody,
    DeploymentView,
    EndpointTokenBody,
    RevisionBody,
    RolloutBody,
    ScaleBody,
    ScalingBody,
)

NAME = "load"
PER_S = int(os.environ.get("SERVING_LOAD_PER_S", "200"))
READY_S = 180.0
QUICK = RolloutBody(surge=4, hold_s=2, promote_after_s=0, keep_s=1, steps=[25, 100])
Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Serving:
    """A server with a deployment of the toy engine."""

    server: Server
    client: Client
    target: Target

    @property
    def view(self) -> DeploymentView:
        """The deployment now."""
        return self.client.deployments.get(NAME)

    def until(self, condition: Callable[[DeploymentView], object], what: str, limit_s: float = READY_S) -> float:
        """Wait for a condition; how long it took."""
        begun = clock()
        while not condition(self.view):
            if clock() - begun > limit_s:
                raise RuntimeError(f"not within {limit_s:g} s: {what}; {self.view}")
            wait(0.1)
        return clock() - begun

    def serves(self, replicas: int) -> float:
        """Wait until so many replicas serve, and no other is left."""
        return self.until(
            lambda view: view.replicas_active == replicas == len(view.replicas), f"{replicas} replicas serve"
        )

    def scale(self, replicas: int) -> None:
        """Set the number of replicas, without waiting."""
        self.client.deployments.scale(NAME, ScaleBody(replicas_min=replicas, scaling=ScalingBody()))

    def update(self, rollout: RolloutBody, *arguments: str) -> str:
        """Change what replicas run, and wait; the status of the rollout then."""
        before = self.view
        revision = replace(before.revision.revision, arguments=list(arguments))
        self.client.deployments.update(NAME, revision, rollout=rollout)
        self.until(lambda view: view.rollout is None, "the rollout has ended")
        wanted = sum(one.status == "active" for one in before.replicas)
        self.serves(wanted)
        if self.view.revision.number != before.revision.number:
            return "completed"
        lines = self.client.deployments.events(NAME).lines
        return next((f"rolled back: {one.detail}" for one in reversed(lines) if one.after == "rolling_back"), "?")

    def active_engine(self) -> int:
        """The process of the engine of a replica that serves."""
        return process_at(next(one.port for one in self.view.replicas if one.port and one.status == "active"))

    def engine(self, index: int = 0) -> int:
        """The process of the engine of a replica."""
        return process_at(next(one.port for one in self.view.replicas if one.ordinal == index and one.port))

    @property
    def folder(self) -> Path:
        """The data folder of the server."""
        return Path(self.server.environment["XDG_DATA_HOME"]) / "sokovan"


def process_at(port: int | None) -> int:
    """The process of the toy engine that listens at a port; its sandbox has the same words, and is older."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"__toy-engine" in words and str(port).encode() in words:
                found.append(int(entry.name))
    if not found:
        raise RuntimeError(f"no engine at port {port}")
    return max(found)


@contextmanager
def serving(replicas: int = 3, *arguments: str, cpus: str = "0.05", **options: Any) -> Iterator[Serving]:
    """A server whose deployment serves with so many replicas; none gets more than `cpus`."""
    # Engines of a server that was killed may still listen at ports of another run.
    first = 20_000 + os.getpid() % 90 * 100
    with server("--kernel-ports", f"{first}-{first + 99}") as started:
        client = Client(started.url, started.token)
        small: dict[str, Any] = {"cpu": cpus, "mem": "64MiB"}
        revision = RevisionBody(engine="toy", arguments=list(arguments), resources=small)
        body = DeploymentBody(name=NAME, revision=revision, replicas_min=replicas, **options)
        client.deployments.create(body)
        told = json.loads((Path(started.environment["XDG_DATA_HOME"]) / "sokovan" / "up.json").read_text())
        key = client.deployments.tokens.create(NAME).token
        found = Serving(started, client, Target(url=told["gateway"], model=NAME, key=key))
        found.until(lambda view: view.replicas_active >= replicas, "the replicas serve")
        try:
            yield found
        finally:
            if Path(f"/proc/{started.pid}").exists() and not _is_zombie(started.pid):
                remove(client)


def _is_zombie(process: int) -> bool:
    return Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z"


def remove(client: Client, name: str = NAME) -> None:
    """Delete the deployment, and wait until nothing of it is left."""
    client.deployments.delete(name)
    end = clock() + 60
    while list(client.deployments.list()) and clock() < end:
        wait(0.1)


@contextmanager
def restarted(found: Serving) -> Iterator[None]:
    """The server that was killed, once more; its deployment is deleted at the end."""
    file = found.folder / "up.json"
    file.unlink(missing_ok=True)
    output = subprocess.DEVNULL
    api, gateway = urlsplit(found.server.url).port, found.target.address[1]
    command = [*SOKOVAN, "up", "--port", str(api), "--set", f"proxy.port={gateway}"]
    process = subprocess.Popen(command, env=found.server.environment, stdout=output, stderr=output)
    try:
        while not file.exists():
            wait(0.05)
        yield
        client = Client(json.loads(file.read_text())["url"], found.server.token)
        remove(client)
    finally:
        process.terminate()
        process.wait(60)


def recovered(ends: Ends, since: float) -> Figures:
    """How long requests went on to fail after a fault."""
    return {"last failure after ms": round(1000 * (max(ends.failed_at) - since))} if ends.failed_at else {}


def kill() -> Figures:
    """A replica of three is killed."""
    with serving(3, "--tokens-per-second", "200") as found:
        with load(found.target, PER_S) as ends:
            wait(3)
            os.kill(found.engine(), signal.SIGKILL)
            at = clock()
            wait(7)
        return {**ends.figures(), **recovered(ends, at), "replaced after s": round(found.serves(3) + 7)}


def stop() -> Figures:
    """A replica of three is stopped by SIGSTOP: it accepts connections, and never answers."""
    with serving(3, "--tokens-per-second", "200") as found:
        engine = found.engine()
        with load(found.target, PER_S) as ends:
            wait(3)
            os.kill(engine, signal.SIGSTOP)
            at = clock()
            wait(40)
        with suppress(ProcessLookupError):
            os.kill(engine, signal.SIGCONT)
        return {**ends.figures(), **recovered(ends, at)}


def modes() -> Figures:
    """One replica of three answers 503, answers 500, or hangs though its probe succeeds."""
    found: Figures = {}
    for mode, seconds in (("unavailable", 10), ("hang", 75), ("refuse", 10)):
        with serving(3) as served:
            headers = {"authorization": f"Bearer {served.target.key}"}
            url = f"{served.target.url}/d/{NAME}/toy/mode"
            with load(served.target, PER_S) as ends:
                wait(2)
                httpx2.post(url, json={"mode": mode}, headers=headers, trust_env=False, timeout=30)
                wait(seconds)
            found[mode] = ends.figures()
    return found


def mixed() -> Figures:
    """Replicas of six are killed, stopped, reset, answer 503 and hang, one after the other under one load."""
    # In the end one replica of six is left, and answers all requests.
    with serving(6, "--tokens-per-second", "200", cpus="0.25") as found:
        headers = {"authorization": f"Bearer {found.target.key}"}
        url = f"{found.target.url}/d/{NAME}/toy/mode"
        stopped: list[int] = []

        def fault(name: str) -> None:
            if name == "kill":
                os.kill(found.active_engine(), signal.SIGKILL)
            elif name == "stop":
                stopped.append(found.active_engine())
                os.kill(stopped[-1], signal.SIGSTOP)
            else:
                httpx2.post(url, json={"mode": name}, headers=headers, trust_env=False, timeout=30)

        with load(found.target, PER_S) as ends:
            for name in ("kill", "unavailable", "stop", "refuse", "kill", "cut", "hang", "kill"):
                wait(8)
                fault(name)
            wait(60)
        for engine in stopped:
            with suppress(ProcessLookupError):
                os.kill(engine, signal.SIGCONT)
        return {**ends.figures(), "failed before a byte": ends.failed - ends.cut}


def dead() -> Figures:
    """All replicas are dead: how soon requests are refused."""
    with serving(2) as found:
        for index in range(2):
            os.kill(found.engine(index), signal.SIGKILL)
        wait(0.5)
        return asyncio.run(_burst(found.target, 50, 1)).figures()


def _updates(strategy: str, times: int, bad: int) -> Figures:
    """Updates under load, some of them to a revision that answers with failures."""
    rollout = replace(QUICK, strategy=strategy)  # type: ignore[arg-type]  # one of the three
    outcomes: list[str] = []
    with serving(2) as found, load(found.target, PER_S // 2) as ends:
        for number in range(1, times + 1):
            words = ("--mode", "error") if number % bad == 0 else ("--tokens", str(3 + number))
            outcomes.append(found.update(rollout, *words))
    wrong = [one for number, one in enumerate(outcomes, 1) if one.startswith("rolled back") is not (number % bad == 0)]
    return {"updates": times, "bad ones": times // bad, "wrong outcomes": wrong, **ends.figures()}


def rolling() -> Figures:
    """Twenty rolling updates, every fifth to a bad revision."""
    return _updates("rolling", 20, 5)


def blue_green() -> Figures:
    """Five blue/green updates, one of them to a bad revision."""
    return _updates("blue-green", 5, 3)


def canary() -> Figures:
    """Five canaries, one of them of a bad revision."""
    return _updates("canary", 5, 3)


async def _burst(target: Target, count: int, tokens: int | None = None, *, stream: bool = False) -> Ends:
    """So many requests at once."""
    ends, connections = Ends(), Connections(target)
    data = target.request(stream=stream, tokens=tokens)
    await asyncio.gather(*(send(connections, data, ends) for _ in range(count)))
    connections.close()
    return ends


def zero() -> Figures:
    """From zero with fifty held requests, to eight, and back to zero."""
    scaling = ScalingBody(metric="concurrency", target=4, idle_s=5, stable_s=5, panic_s=2, down_s=5, panic_hold_s=5)
    # An answer takes two seconds: twenty requests a second are forty in flight, which want ten replicas.
    words = ("--start-seconds", "2", "--tokens-per-second", "8")
    with serving(0, *words, replicas_max=8, scaling=scaling) as found:
        begun = clock()
        held = asyncio.run(_burst(found.target, 50))
        woken = clock() - begun
        with load(found.target, min(PER_S, 20)) as ends:
            up = found.until(lambda view: view.replicas_active == 8, "eight replicas serve")
        down = found.until(lambda view: view.replicas_desired == 0 and not view.replicas, "it is at zero")
        again = asyncio.run(_burst(found.target, 5))
        return {
            "held": held.figures(), "first answers after s": round(woken, 1), "load": ends.figures(),
            "eight after s": round(up), "to zero after s": round(down), "woken": again.figures(),
        }  # fmt: skip


def drain() -> Figures:
    """Streams of 60 seconds at replicas that are scaled down: none may be cut."""
    with serving(2, "--tokens-per-second", "2") as found:
        ends: list[Ends] = []

        async def streams() -> None:
            running = asyncio.create_task(_burst(found.target, 40, 120, stream=True))
            await SLEEP(3)
            await asyncio.to_thread(found.scale, 1)
            ends.append(await running)

        asyncio.run(streams())
        return {**ends[0].figures(), "scaled down after s more": round(found.serves(1))}


def proxy() -> Figures:
    """The proxy is killed under 500 streams: how soon the next one answers."""
    with serving(2, "--tokens-per-second", "4", replicas_max=None) as found:
        root = found.folder / "proxy"
        result: Figures = {}

        async def killed() -> None:
            # Two replicas of 64 requests each: the others wait in the queue.
            running = asyncio.create_task(_burst(found.target, 500, 80, stream=True))
            await SLEEP(3)
            os.kill(holder_of(root) or 0, signal.SIGKILL)
            begun = clock()
            after = await _burst(found.target, 1, 1)
            result.update({"back after ms": round(1000 * (clock() - begun)), "failed after": after.failed})
            lost = await running
            result.update({"streams lost": lost.failed, "of": lost.total})

        asyncio.run(killed())
        return result


def manager() -> Figures:
    """The manager is killed, and started again after a while."""
    away_s = int(os.environ.get("SERVING_LOAD_AWAY_S", "60"))
    with serving(2) as found, ExitStack() as stack:
        with load(found.target, PER_S) as ends:
            wait(2)
            os.kill(found.server.pid, signal.SIGKILL)
            wait(away_s)
            away = ends.figures()
            stack.enter_context(restarted(found))
            wait(10)
        return {"away s": away_s, "away": away, "in all": ends.figures()}


def ports() -> Figures:
    """A replica's port is taken by another program while the manager is away."""
    with serving(2) as found:
        port, engine = next((one.port, process_at(one.port)) for one in found.view.replicas if one.port)
        got: list[bytes] = []
        with load(found.target, PER_S) as ends:
            wait(2)
            os.kill(found.server.pid, signal.SIGKILL)
            os.kill(engine, signal.SIGKILL)
            with _take(port) as other:
                end = clock() + 15
                while clock() < end:
                    got += _received(other)
        with restarted(found):
            return {"connections": len(got), "bytes leaked": sum(map(len, got)), **ends.figures()}


def _received(listener: socket.socket) -> list[bytes]:
    """The bytes of one connection, if one comes soon."""
    with suppress(TimeoutError):
        connection, _ = listener.accept()
        connection.settimeout(0.5)
        with connection:
            try:
                return [connection.recv(65536)]
            except (TimeoutError, ConnectionError):
                return [b""]
    return []


def _take(port: int) -> socket.socket:
    for _ in range(100):
        with suppress(OSError):
            found = socket.create_server(("127.0.0.1", port))
            found.settimeout(0.2)
            return found
        wait(0.02)
    raise RuntimeError(f"port {port} is not free")


def usage() -> Figures:
    """Ten thousand requests: the accounts against the engines' own counters."""
    count, leaving = 9_000, 1_000
    # At a pace, so that an engine notices that a client leaves before it has made all tokens.
    with serving(2, "--tokens-per-second", "2000") as found:
        before = _counters(found)
        token = found.client.deployments.tokens.create(NAME, EndpointTokenBody(name="exact"))
        target = replace(found.target, key=token.token)
        ends = asyncio.run(_in_turns(target, count))
        done = _counters(found)
        exact = {name: done[name] - before[name] for name in done}
        used = _used(found, token.id, sum(exact.values()))
        asyncio.run(_leave(target, leaving))
        wait(3)
        left = _counters(found)
        more = {name: left[name] - done[name] for name in left}
        return {
            **ends.figures(), "engines": exact, "accounts": used, "difference": used - sum(exact.values()),
            "left early": leaving, "engines, left": sum(more.values()),
            "accounts, left": _used(found, token.id, -1) - used,
        }  # fmt: skip


async def _in_turns(target: Target, count: int) -> Ends:
    ends, connections = Ends(), Connections(target)
    datas = [target.request(stream=number % 3 == 0, tokens=1 + number % 20) for number in range(60)]

    async def some(first: int) -> None:
        for number in range(first, count, 32):
            await send(connections, datas[number % 60], ends)

    await asyncio.gather(*(some(first) for first in range(32)))
    connections.close()
    return ends


async def _leave(target: Target, count: int) -> None:
    """Clients that leave after the first bytes of a stream, long before its end."""
    connections = Connections(target)
    data = target.request(stream=True, tokens=2_000)
    for _ in range(count):
        reader, writer = await connections.opened()
        writer.write(data)
        await reader.readuntil(b"data:")
        writer.transport.abort()


def _counters(found: Serving) -> dict[str, int]:
    """The engines' own counters of tokens, added up."""
    total = {"prompt": 0, "completion": 0}
    for one in found.view.replicas:
        text = httpx2.get(f"http://127.0.0.1:{one.port}/metrics", trust_env=False).text
        values = dict(line.split() for line in text.splitlines() if not line.startswith("#"))
        for name in total:
            total[name] += int(values[f"toy_{name}_tokens_total"])
    return total


def _used(found: Serving, token: str, expected: int) -> int:
    """The tokens of a key by the accounts, once they are reported."""
    used = 0
    for _ in range(100):
        used = next(one.tokens_used for one in found.client.deployments.tokens.list(NAME) if one.id == token)
        if used == expected:
            break
        wait(0.1)
    return used


CASES: dict[str, Callable[[], Figures]] = {
    "kill": kill, "stop": stop, "modes": modes, "mixed": mixed, "dead": dead, "rolling": rolling,
    "blue-green": blue_green, "canary": canary, "zero": zero, "drain": drain, "proxy": proxy, "manager": manager,
    "ports": ports, "usage": usage,
}  # fmt: skip


def main() -> int:
    """Run the chosen cases and print their figures."""
    cases, as_json = chosen_cases("benchmarks.serving_load", __doc__, CASES)
    for case in cases:
        figures = CASES[case]()
        print(json.dumps({case: figures}) if as_json else f"{case}: {figures}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
