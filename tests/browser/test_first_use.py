"""The first use of a fresh server in a browser, from the code to the drain of an agent, in one run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import require_browser
from tests.browser.dashboard_rig import Dashboard, dashboard_up, text_of

pytestmark = pytest.mark.server

REAL = "sokovan.fake not exists"


def test_a_fresh_server_is_used_from_its_code_to_the_drain_of_an_agent(tmp_path: Path) -> None:
    require_browser()
    # `dashboard_up` logs in by the code.
    with dashboard_up(tmp_path, "--fake", "2x8") as up, up.page("/ui/") as page:
        cores = real_cores(up)
        page.get_by_text("No session waits.").wait_for()
        page.get_by_role("link", name="New session").click()
        submit(page, name="gang", size="2", cpus=f"{cores * 1000 // 2}m")
        page.locator(".bar .state", has_text="running").wait_for()
        assert page.get_by_role("table", name="states over time").get_by_role("row").count() == 3
        page.get_by_role("button", name="Open a terminal in kernel 0").click()
        page.locator(".terminal-field:focus").wait_for(state="attached")
        page.keyboard.type("echo $((6 * 7))")
        page.keyboard.press("Enter")
        page.locator(".terminal-row", has_text=re.compile(r"^42\s*$")).wait_for()
        page.keyboard.press("Control+Shift+.")
        page.get_by_role("link", name="New session").click()
        submit(page, name="next", size="1", cpus=str(cores))
        page.locator(".bar .state", has_text="pending").wait_for()
        # Its first reason is that no cycle has considered it yet.
        page.locator(".why", has_text="cpu").first.wait_for()
        page.get_by_role("link", name="Cluster").click()
        page.get_by_role("grid", name=re.compile("map of")).focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        drawer = page.locator(".drawer")
        drawer.get_by_role("button", name="Drain", exact=True).click()
        page.locator(".impact", has_text=re.compile("8 free devices .* 8 of 16 .*2 of 3 agents")).wait_for()
        page.get_by_role("dialog").get_by_role("button", name="Drain", exact=True).click()
        drawer.locator(".state", has_text="draining").wait_for()
        assert '"draining"' in up.sokovan("agent", "show", text_of(page, ".drawer h2"), "--json")


def real_cores(up: Dashboard) -> int:
    """The cores of the agent that runs programs."""
    [agent] = [one for one in json.loads(up.sokovan("agent", "ls", "--json")) if "sokovan.fake" not in one["labels"]]
    return int(agent["slots"]["cpu"]) // 1000


def submit(page: Any, *, name: str, size: str, cpus: str) -> None:
    """Submit a session for the agent that runs programs, by the form."""
    page.get_by_label("Command").fill("sleep 600")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Kernels").fill(size)
    page.get_by_label("CPU of each").fill(cpus)
    page.get_by_label("Memory of each").fill("64MiB")
    page.get_by_label("Labels of agents").fill(REAL)
    page.locator(".badge").wait_for()
    page.get_by_role("button", name="Submit").click()
    page.get_by_role("heading", name=name).wait_for()
