"""How fast the dashboard is: `python -m benchmarks.dashboard [--fake 5000x8] [--sessions 10000]`.

Chromium in front of a real server on this machine. Prints the time to the first paint and to a
usable list, what is transferred, the delay from a submission to its event and to the pixel, the time
to draw the map, the heap of the tab, and what an idle viewer costs the server.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import statistics
import threading
import time
import tomllib
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.embedded_server import clock, wait
from tests.browser.dashboard_rig import Dashboard, dashboard_up

MOVES = 20
# Viewers whose cost is measured together: that of one is less than a tick of the clock.
VIEWERS = 10
IDLE_S = 20
STARTED_S = 600
PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
BYTES = """() => performance.getEntriesByType('resource')
  .filter((e) => e.name.includes('/ui/')).reduce((s, e) => s + e.encodedBodySize, 0)"""
NODES = "() => document.querySelectorAll('*').length"
HEAP = "() => performance.memory.usedJSHeapSize"
# When a row with this name was in a frame, by the clock of this machine.
SEEN = """(name) => new Promise((done) => {
  const look = () => {
    const rows = [...document.querySelectorAll('.grid-row')];
    if (rows.some((row) => row.textContent.includes(name))) done(performance.timeOrigin + performance.now());
    else requestAnimationFrame(look);
  };
  look();
})"""
FRAMES = """() => new Promise((done) => {
  const times = [];
  let last = performance.now();
  const step = (now) => {
    times.push(now - last);
    last = now;
    if (times.length < 120) requestAnimationFrame(step);
    else done(times.slice(1));
  };
  requestAnimationFrame(step);
})"""


@dataclass
class Api:
    """The API of the server, with the key of its context."""

    port: int
    token: str
    events: dict[str, float] = field(default_factory=dict)

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[Any, http.client.HTTPResponse]:
        """A request of its own connection; the answer and its headers."""
        line = http.client.HTTPConnection("127.0.0.1", self.port)
        sent = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json", **headers}
        line.request(method, f"/api/v1/{path}", None if body is None else json.dumps(body), sent)
        answer = line.getresponse()
        content = json.loads(answer.read())
        assert answer.status < http.HTTPStatus.BAD_REQUEST, content
        return content, answer

    def follow(self) -> None:
        """Note when the stream of events first names a session."""
        line = http.client.HTTPConnection("127.0.0.1", self.port)
        line.request("GET", "/api/v1/events", headers={"Authorization": f"Bearer {self.token}"})
        answer = line.getresponse()
        answer.readline()

        def read() -> None:
            while text := answer.readline():
                if text.startswith(b"data: "):
                    found = json.loads(text[6:])
                    for one in (found["id"], *found["sessions"]):
                        self.events.setdefault(one, clock())

        threading.Thread(target=read, daemon=True).start()

    def viewer(self) -> socket.socket:
        """A browser that is logged in, and whose stream is open."""
        code = self.call("POST", "login-codes", {})[0]["code"]
        origin = {"Origin": f"http://127.0.0.1:{self.port}", "Sec-Fetch-Site": "same-origin"}
        login, answer = self.call("POST", "logins", {}, **{**origin, "Authorization": f"Login-Code {code}"})
        cookie = (answer.getheader("Set-Cookie") or "").partition(";")[0]
        line = socket.create_connection(("127.0.0.1", self.port))
        headers = {**origin, "Host": f"127.0.0.1:{self.port}", "Cookie": cookie, "X-Sokovan-Proof": login["proof"]}
        text = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        line.sendall(f"GET /api/v1/events HTTP/1.1\r\n{text}\r\n".encode())
        assert b" 200 " in line.recv(4096)
        return line


def opened(up: Dashboard, path: str, ready: str) -> tuple[Any, float]:
    """A page in a browser without a cache, and the seconds until it shows this selector."""
    page = up.context.new_page()
    began = clock()
    page.goto(up.url + path)
    page.locator(ready).first.wait_for(timeout=120_000)
    return page, clock() - began


def moves(api: Api, page: Any) -> tuple[list[float], list[float]]:
    """Milliseconds from the answer to a submission until its event, and until its row is in a frame."""
    told, shown = [], []
    for number in range(MOVES):
        body = {"name": f"moved-{number}", "command": ["sleep", "600"], "resources": {"cpu": "0.1"}}
        session = api.call("POST", "sessions", body)[0]["id"]
        answered, now_s = clock(), time.time()  # noqa: TID251  # the clock of the page
        shown.append(page.evaluate(SEEN, f"moved-{number}") - now_s * 1000)
        while session not in api.events:
            wait(0.001)
        told.append((api.events[session] - answered) * 1000)
        wait(1)
    return sorted(told), sorted(shown)


def cpu_s(pid: int) -> float:
    """Processor seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load(pid: int) -> float:
    """Per cent of a core that a process takes."""
    before, began = cpu_s(pid), clock()
    wait(IDLE_S)
    return (cpu_s(pid) - before) / (clock() - began) * 100


def viewer_cost(api: Api, pid: int) -> str:
    """What viewers cost a server on which nothing happens."""
    before = load(pid)
    with ExitStack() as lines:
        for _ in range(VIEWERS):
            lines.enter_context(api.viewer())
        viewed = load(pid)
    after = load(pid)
    cost = max(0.0, viewed - (before + after) / 2) / VIEWERS
    return f"{cost:.4f} % of a core ({before:.1f} and {after:.1f} % without, {viewed:.1f} % with {VIEWERS} viewers)"


def all_started(api: Api) -> None:
    """Wait until no session is on its way, so that the server has only the viewers to serve."""
    end = clock() + STARTED_S
    while clock() < end:
        states = {one["value"] for one in api.call("GET", "sessions/counts")[0]["items"]}
        if states <= {"running", "terminated", "cancelled"}:
            return
        wait(1)


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--fake", default="5000x8")
    options.add_argument("--sessions", type=int, default=10_000)
    chosen = options.parse_args()
    with TemporaryDirectory() as folder, dashboard_up(Path(folder), "--fake", chosen.fake) as up:
        home = Path(folder)
        context = tomllib.loads((home / "config/sokovan/config.toml").read_text(encoding="utf-8"))["contexts"]["local"]
        api = Api(int(up.url.rpartition(":")[2]), context["token"])
        pid = int(json.loads((home / "data/sokovan/up.json").read_text(encoding="utf-8"))["pid"])
        many = ["run", "-d", "--name", "many", "--array", f"0-{chosen.sessions - 1}", "--gpus", "1"]
        up.sokovan(*many, "--", "sleep", "9999")
        page, usable_s = opened(up, "/ui/sessions", ".grid-row .state")
        print(f"while sessions are started: usable {usable_s:.2f} s")
        page.close()
        all_started(api)
        api.follow()
        page, usable_s = opened(up, "/ui/sessions", ".grid-row .state")
        paint_ms, size = page.evaluate(PAINT), page.evaluate(BYTES)
        print(f"sessions: first paint {paint_ms:.0f} ms, usable {usable_s:.2f} s, {size / 1024:.0f} kB of code")
        told, shown = moves(api, page)
        print(f"submission to event: p50 {statistics.median(told):.0f} ms, p95 {told[-2]:.0f} ms")
        print(f"submission to pixel: p50 {statistics.median(shown):.0f} ms, p95 {shown[-2]:.0f} ms")
        print(f"heap {page.evaluate(HEAP) / 2**20:.0f} MB, {page.evaluate(NODES)} nodes")
        page.close()
        page, map_s = opened(up, "/ui/cluster", "canvas")
        frames = sorted(page.evaluate(FRAMES))
        rate, slow = 1000 / statistics.mean(frames), frames[int(len(frames) * 0.95)]
        print(f"map: shown after {map_s:.2f} s, {rate:.0f} frames/s, p95 {slow:.1f} ms")
        page.close()
        print(f"an idle viewer: {viewer_cost(api, pid)}")


if __name__ == "__main__":
    main()
