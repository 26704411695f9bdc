"""How fast the dashboard is: `python -m benchmarks.dashboard [--fake 5000x8] [--sessions 10000]`.

Chromium in front of a real server on this machine. Prints the time to the first paint and to a
usable list, what is transferred, the delay from a submission to the pixel, the time to draw the map,
the heap of the tab, and what an idle viewer costs the server.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.embedded_server import clock
from tests.browser.dashboard_rig import Dashboard, dashboard_up

MOVES = 20
IDLE_S = 10
PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
BYTES = """() => performance.getEntriesByType('resource')
  .filter((e) => e.name.includes('/ui/')).reduce((s, e) => s + e.transferSize, 0)"""
NODES = "() => document.querySelectorAll('*').length"
HEAP = "() => performance.memory.usedJSHeapSize"
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


def opened(up: Dashboard, path: str, ready: str) -> tuple[Any, float]:
    """A page in a browser without a cache, and the seconds until it shows this selector."""
    page = up.context.new_page()
    began = clock()
    page.goto(up.url + path)
    page.locator(ready).first.wait_for(timeout=120_000)
    return page, clock() - began


def moves(up: Dashboard, page: Any) -> list[float]:
    """Seconds from the answer to a submission until its row is on the screen."""
    found = []
    for number in range(MOVES):
        up.sokovan("run", "-d", "--name", f"moved-{number}", "--cpus", "0.1", "--", "sleep", "600")
        began = clock()
        page.locator(".grid-row", has_text=f"moved-{number}").first.wait_for()
        found.append(clock() - began)
    return found


def cpu_s(pid: int) -> float:
    """Processor seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--fake", default="5000x8")
    options.add_argument("--sessions", type=int, default=10_000)
    chosen = options.parse_args()
    with TemporaryDirectory() as home, dashboard_up(Path(home), "--fake", chosen.fake) as up:
        many = ["run", "-d", "--name", "many", "--array", f"0-{chosen.sessions - 1}", "--gpus", "1"]
        up.sokovan(*many, "--", "sleep", "9999")
        page, usable_s = opened(up, "/ui/sessions", ".grid-row .state")
        paint_ms, size = page.evaluate(PAINT), page.evaluate(BYTES)
        print(f"sessions: first paint {paint_ms:.0f} ms, usable {usable_s:.2f} s, {size / 1024:.0f} kB of code")
        delays = sorted(moves(up, page))
        print(f"submission to pixel: p50 {statistics.median(delays) * 1000:.0f} ms, p95 {delays[-2] * 1000:.0f} ms")
        print(f"heap {page.evaluate(HEAP) / 2**20:.0f} MB, {page.evaluate(NODES)} nodes")
        page.close()
        page, map_s = opened(up, "/ui/cluster", "canvas")
        frames = sorted(page.evaluate(FRAMES))
        rate, slow = 1000 / statistics.mean(frames), frames[int(len(frames) * 0.95)]
        print(f"map: shown after {map_s:.2f} s, {rate:.0f} frames/s, p95 {slow:.1f} ms")
        pid = int(json.loads((Path(home) / "data/sokovan/up.json").read_text(encoding="utf-8"))["pid"])
        other = up.context.browser.new_context().new_page()
        busy = cpu_s(pid)
        other.wait_for_timeout(IDLE_S * 1000)
        with_viewer = cpu_s(pid) - busy
        page.close()
        other.wait_for_timeout(2000)
        busy = cpu_s(pid)
        other.wait_for_timeout(IDLE_S * 1000)
        print(f"an idle viewer costs {max(0.0, with_viewer - (cpu_s(pid) - busy)) / IDLE_S * 100:.2f} % of a core")


if __name__ == "__main__":
    main()
