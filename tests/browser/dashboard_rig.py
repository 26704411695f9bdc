"""Chromium in front of a real server; whatever a page complains of fails the test."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.integration.cli_rig import Rig, server_up

ROOT = Path(__file__).parents[2]
AXE = ROOT / "web/node_modules/axe-core/axe.min.js"
LIMIT_MS = 180_000
# WCAG 2.2 at level AA.
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
PAGES = {
    "/ui/": "Overview",
    "/ui/sessions": "Sessions",
    "/ui/new": "New session",
    "/ui/cluster": "Cluster",
    "/ui/cluster?view=table": "Cluster",
    "/ui/queues": "Queues",
    "/ui/deployments": "Deployments",
    "/ui/timeline": "Timeline",
    "/ui/timeline?view=devices&span=15m": "Timeline",
    "/ui/bookings": "Bookings",
    "/ui/history": "History",
    "/ui/history?view=log": "History",
    "/ui/what-if": "What if",
    "/ui/deployments/new": "New deployment",
    "/ui/admin": "Administration",
    "/ui/admin?tab=keys": "Administration",
}
# How long a session of two seconds is said to have lasted: a busy machine adds its own.
LASTED = r"(?:[2-9]s|[1-9]\ds|\d+m.*)"
# Needs no setuid helper, which containers do not have; the pages are our own.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--force-color-profile=srgb"]


@dataclass
class Dashboard:
    """A server, a browser that is logged in to it, and what its pages complained of."""

    rig: Rig
    url: str
    context: Any
    complaints: list[str] = field(default_factory=list)

    def sokovan(self, *words: str) -> str:
        """The output of a command that succeeds."""
        done = self.rig.sokovan(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def address(self) -> str:
        """A new address that logs in once."""
        return self.sokovan("dashboard", "--no-browser").strip()

    @contextmanager
    def page(self, path: str = "/ui/", **options: Any) -> Iterator[Any]:
        """A page of the browser that is logged in. Complaints fail the test."""
        with self.watched(self.context, self.url + path, **options) as page:
            yield page

    @contextmanager
    def watched(self, context: Any, address: str, *, allowed: tuple[str, ...] = ()) -> Iterator[Any]:
        """A page whose errors, policy violations and foreign requests are collected."""
        page = context.new_page()
        page.set_default_timeout(LIMIT_MS)
        found: list[str] = []
        page.on("console", lambda message: found.append(_text_of(message)) if message.type == "error" else None)
        page.on("pageerror", lambda error: found.append(str(error)))
        page.on("request", lambda request: found.append(request.url) if self.is_foreign(request.url) else None)
        try:
            page.goto(address)
            yield page
        except BaseException as error:
            if found:
                error.add_note("\n".join(["the page complained:", *found]))
            raise
        else:
            complaints = [text for text in found if not any(part in text for part in allowed)]
            if complaints:
                pytest.fail("\n".join(["the page complained:", *complaints]), pytrace=False)
        finally:
            page.close()

    def is_foreign(self, url: str) -> bool:
        """Whether a request leaves the origin of the dashboard."""
        parts = urlsplit(url)
        return parts.scheme not in {"blob", "data"} and f"{parts.scheme}://{parts.netloc}" != self.url


def _text_of(message: Any) -> str:
    """What a page complained of, and which address it is about."""
    return f"{message.text} [{message.location['url']}]"


@contextmanager
def dashboard_up(home: Path, *options: str) -> Iterator[Dashboard]:
    """A server and a browser that is logged in to it."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  # tests without it are skipped

    with server_up(home, *options) as rig, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        try:
            context = browser.new_context(viewport={"width": 1440, "height": 900})
            up = Dashboard(rig, "", context)
            address = up.address()
            up.url = address.partition("/ui/")[0]
            with up.watched(context, address) as page:
                page.get_by_role("heading", name="Overview").wait_for()
            yield up
        finally:
            browser.close()


def violations(page: Any, *names: str, kind: str = "tag") -> list[str]:
    """What axe-core finds on a page by these rules, or by those with these tags."""
    if page.evaluate("() => globalThis.axe === undefined"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    chosen = {"type": kind, "values": list(names)}
    found = page.evaluate("(chosen) => globalThis.axe.run(document, {runOnly: chosen})", chosen)
    return [f"{one['id']}: {node['html'][:200]}" for one in found["violations"] for node in one["nodes"]]


def text_of(page: Any, selector: str) -> str:
    """The text of the first element that a selector finds."""
    return str(page.locator(selector).first.inner_text())


def rows_of_use(page: Any, *, cores: int) -> list[str]:
    """The rows of the figures on the page of a session that asked for so many cores, once both charts are drawn."""
    use = page.get_by_role("region", name="use", exact=True)
    # A rate needs two measurements.
    for words in (rf"^CPU cores: [\d.]+ now, .* of {cores}$", r"^Memory: [1-9].* now, "):
        use.get_by_role("img", name=re.compile(words)).wait_for()
    use.get_by_text("Figures of each kernel").click()
    return list(use.get_by_role("region", name="use of kernels").get_by_role("row").all_inner_texts())
