"""The dashboard in a real browser, over a real server with 64 fake agents of 8 devices."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.browser.dashboard_rig import LIMIT_MS, RULES, Dashboard, violations

pytestmark = pytest.mark.server

PAGES = {
    "/ui/": "Overview",
    "/ui/sessions": "Sessions",
    "/ui/new": "New session",
    "/ui/cluster": "Cluster",
    "/ui/cluster?view=table": "Cluster",
    "/ui/queues": "Queues",
}


def text_of(page: Any, selector: str) -> str:
    return str(page.locator(selector).first.inner_text())


def test_an_address_logs_in_once_and_its_code_leaves_the_address(dashboard: Dashboard) -> None:
    address = dashboard.address()
    fresh = dashboard.context.browser.new_context()
    with dashboard.watched(fresh, address) as page:
        page.get_by_role("heading", name="Overview").wait_for()
        assert page.url == f"{dashboard.url}/ui/"
        assert page.evaluate("() => document.cookie") == ""
    fresh.close()
    again = dashboard.context.browser.new_context()
    with dashboard.watched(again, address, allowed=("401",)) as page:
        page.get_by_role("heading", name="Sokovan").wait_for()
        assert "a valid API key is required" in text_of(page, ".problem")
    again.close()


def test_the_cookie_without_the_proof_shows_the_login(dashboard: Dashboard) -> None:
    stolen = dashboard.context.browser.new_context()
    stolen.add_cookies(dashboard.context.cookies())
    with dashboard.watched(stolen, f"{dashboard.url}/ui/sessions", allowed=("401",)) as page:
        page.get_by_label("Or enter an API key").wait_for()
        assert page.evaluate("() => fetch('/api/v1/whoami').then((answer) => answer.status)") == 401
    stolen.close()


def test_a_key_logs_in_and_logging_out_ends_the_login(dashboard: Dashboard) -> None:
    token = dashboard.sokovan("key", "add", "-o", "json").partition('"token": "')[2].partition('"')[0]
    fresh = dashboard.context.browser.new_context()
    with dashboard.watched(fresh, f"{dashboard.url}/ui/cluster") as page:
        page.get_by_label("Or enter an API key").fill(token)
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("heading", name="Cluster").wait_for()
        before = dashboard.sokovan("login", "ls", "-o", "name").split()
        page.get_by_role("button", name="Log out").click()
        page.get_by_label("Or enter an API key").wait_for()
        after = dashboard.sokovan("login", "ls", "-o", "name").split()
        assert len(after) == len(before) - 1
    fresh.close()


def test_a_gang_is_submitted_watched_and_stopped(dashboard: Dashboard) -> None:
    with dashboard.page("/ui/new") as page:
        page.get_by_label("Command").fill("sleep 600")
        page.get_by_label("Name", exact=True).fill("gang")
        page.get_by_label("Kernels").fill("4")
        page.get_by_label("GPU of each").fill("8")
        page.get_by_text("would start now").wait_for()
        assert "--size 4" in text_of(page, ".actions .copy")
        page.get_by_role("button", name="Submit").click()
        page.get_by_role("heading", name="gang").wait_for()
        page.locator(".bar .state", has_text="running").wait_for()
        lanes = page.get_by_role("table", name="states over time").get_by_role("row")
        assert lanes.count() == 5
        page.get_by_role("button", name="Stop", exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name="Stop", exact=True).click()
        page.locator(".bar .state", has_text=re.compile("terminated|failure|success|cancelled")).wait_for()


def test_an_impossible_request_says_why(dashboard: Dashboard) -> None:
    with dashboard.page("/ui/new") as page:
        page.get_by_label("Command").fill("true")
        page.get_by_label("GPU of each").fill("9")
        page.locator(".badge.never").wait_for()
        assert "can never start" in text_of(page, ".badge")


def test_a_session_moves_the_lists_without_reload_and_the_drawer_says_why(dashboard: Dashboard) -> None:
    with dashboard.page("/ui/sessions") as page:
        page.get_by_role("heading", name="Sessions").wait_for()
        dashboard.sokovan("run", "-d", "--name", "bigone", "--size", "64", "--gpus", "8", "--", "sleep", "600")
        dashboard.sokovan("wait", "bigone", "--until", "running")
        dashboard.sokovan("run", "-d", "--name", "queued", "--gpus", "8", "--", "sleep", "600")
        page.get_by_role("row", name=re.compile("pending queued")).click()
        drawer = page.get_by_role("complementary", name="session queued")
        drawer.get_by_role("list", name="checks").wait_for()
        assert "open=" in page.url
        page.keyboard.press("Escape")
        drawer.wait_for(state="detached")
        page.keyboard.press("/")
        page.keyboard.type("queued")
        page.keyboard.press("Escape")
        page.get_by_role("row", name=re.compile("bigone")).wait_for(state="detached")
        page.keyboard.press("j")
        page.keyboard.press("x")
        page.get_by_role("button", name="Stop 1 session").click()
        page.get_by_role("dialog").get_by_role("button", name="Stop", exact=True).click()
        page.get_by_role("row", name=re.compile("cancelled queued")).wait_for()
        dashboard.sokovan("stop", "bigone", "--yes")


def test_the_map_is_walked_by_keys_and_an_agent_is_drained(dashboard: Dashboard) -> None:
    with dashboard.page("/ui/cluster") as page:
        page.get_by_role("application").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        drawer = page.locator(".drawer")
        drawer.wait_for()
        name = text_of(page, ".drawer h2")
        assert f"agent={name}" in page.url
        drawer.get_by_role("button", name="Drain", exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name="Drain", exact=True).click()
        drawer.locator(".state", has_text="draining").wait_for()
        assert dashboard.sokovan("agent", "show", name, "--json").count('"draining"') == 1
        dashboard.sokovan("agent", "undrain", name)
        drawer.locator(".state", has_text="alive").wait_for()
        assert len(dashboard.sokovan("agent", "devices", name, "-o", "name").split()) == 8


def test_queues_show_what_they_use_and_wait_for(dashboard: Dashboard) -> None:
    dashboard.sokovan("queue", "set", "research", "--weight", "3")
    dashboard.sokovan("run", "-d", "--name", "shared", "--queue", "research", "--gpus", "2", "--", "sleep", "600")
    with dashboard.page("/ui/queues?slot=cuda.device") as page:
        row = page.locator("tr[data-queue=research]")
        row.locator("td", has_text=re.compile("^2$")).first.wait_for()
        assert row.locator("td").first.inner_text() == "3"
    used = {
        line.split()[1]: line.split()[2] for line in dashboard.sokovan("queue", "shares", "research").splitlines()[1:]
    }
    assert used["cuda.device"] == "2"
    dashboard.sokovan("stop", "shared", "--yes")


def test_no_page_has_a_barrier_that_axe_knows(dashboard: Dashboard) -> None:
    for path, title in PAGES.items():
        with dashboard.page(path) as page:
            page.get_by_role("heading", name=title, exact=True).wait_for(timeout=LIMIT_MS)
            page.get_by_label("theme").select_option("light")
            assert violations(page, *RULES) == [], path
            # Only colours differ.
            page.get_by_label("theme").select_option("dark")
            assert violations(page, "color-contrast", kind="rule") == [], path
            page.get_by_label("theme").select_option("auto")


def test_many_sessions_are_few_nodes_of_the_document(dashboard: Dashboard) -> None:
    dashboard.sokovan("run", "-d", "--name", "many", "--array", "0-399", "--cpus", "0.1", "--", "sleep", "600")
    with dashboard.page("/ui/sessions") as page:
        page.get_by_role("row", name=re.compile("many")).first.wait_for()
        page.get_by_role("button", name=re.compile(r"^all 4\d\d")).wait_for()
        assert page.evaluate("() => document.querySelectorAll('*').length") < 1000
        for _ in range(5):
            page.keyboard.press("j")
        assert page.locator(".grid-row.active").count() == 1
    dashboard.sokovan("stop", "many", "--yes")
