"""The map of devices, orders of the list of sessions, and forms of administrators, in Chromium."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from tests.browser import page_scripts as scripts
from tests.browser.dashboard_rig import LASTED, RULES, Dashboard, text_of, violations
from tests.browser.relay import Relay

pytestmark = pytest.mark.server


def names_of(page: Any) -> list[str]:
    """The names of the rows of the list, from the top."""
    return [str(text) for text in page.locator(".grid-body .grid-row a").all_inner_texts()]


def test_the_map_is_coloured_by_use_and_by_owner_and_keys_reach_each_device(dashboard: Dashboard) -> None:
    dashboard.sokovan("run", "-d", "--name", "hot", "--gpus", "8", "--", "sleep", "600")
    dashboard.sokovan("wait", "hot", "--until", "running")
    with dashboard.page("/ui/cluster") as page:
        colours = page.get_by_role("group", name="colour by")
        colours.get_by_role("button", name="owner").click()
        legend = page.locator(".legend")
        legend.get_by_text(re.compile(r"^a admin 8$")).wait_for()
        colours.get_by_role("button", name="use").click()
        # Agents report what their devices do with their next heartbeat.
        legend.get_by_text(re.compile(r"^1 0 to 19 % 504$")).wait_for()
        assert "by=use" in page.url
        grid = page.get_by_role("grid", name=re.compile("map of"))
        grid.focus()
        for key in ("ArrowRight", "ArrowRight", "+"):
            page.keyboard.press(key)
        page.locator(
            ".map-status", has_text=re.compile(r"^gpu1 of \S+ in r00, alive: .*, use \d+ %, memory \d+ %, ")
        ).wait_for()
        assert page.locator("#map-cell").inner_text() == text_of(page, ".map-status")
        assert "zoom=1" in page.url
        for mode in ("use", "queue", "memory"):
            colours.get_by_role("button", name=mode).click()
            assert violations(page, *RULES) == []
        page.keyboard.press("-")
        grid.focus()
        page.keyboard.press("Enter")
        page.get_by_role("table", name="figures of devices").get_by_text("80 GiB").first.wait_for()
        assert "zoom" not in page.url
    dashboard.sokovan("stop", "hot", "--yes")


def test_sessions_are_sorted_by_the_heads_of_columns(dashboard: Dashboard) -> None:
    for name, size in (("sort-b", "1"), ("sort-c", "3"), ("sort-a", "2")):
        dashboard.sokovan("run", "-d", "--name", name, "--size", size, "--", "sleep", "600")
    with dashboard.page("/ui/sessions?q=sort-") as page:
        page.get_by_role("row", name=re.compile("sort-a")).wait_for()
        head = page.get_by_role("columnheader", name="Name")
        for wanted, order in (
            (["sort-a", "sort-b", "sort-c"], "ascending"),
            (["sort-c", "sort-b", "sort-a"], "descending"),
        ):
            head.get_by_role("button").click()
            page.locator(f"[role=columnheader][aria-sort={order}]", has_text="Name").wait_for()
            assert names_of(page) == wanted
        page.get_by_role("columnheader", name="Kernels").get_by_role("button").click()
        page.locator("[aria-sort]", has_text="Kernels").wait_for()
        assert names_of(page) == ["sort-c", "sort-a", "sort-b"]
        assert "sort=-kernels" in page.url
        assert violations(page, *RULES) == []
    dashboard.sokovan("stop", "sort-a", "sort-b", "sort-c", "--yes")


def test_a_scaling_group_is_created_changed_and_removed(dashboard: Dashboard) -> None:
    with dashboard.page("/ui/admin?tab=scaling-groups") as page:
        page.get_by_label("Name", exact=True).fill("batch")
        page.get_by_label("Scheduler").fill("drf")
        page.get_by_role("button", name="Create").click()
        row = page.get_by_role("row", name=re.compile("^batch drf"))
        row.wait_for()
        row.get_by_role("button", name="Edit").click()
        page.get_by_label("Longest lifetime (s)").fill("3600")
        page.get_by_role("button", name="Change").click()
        row.get_by_role("cell", name="3600").wait_for()
        shown = dashboard.sokovan("scaling-group", "show", "batch", "--json")
        assert '"lifetime_max_s": 3600' in shown
        assert '"scheduler": "drf"' in shown
        row.get_by_role("button", name="Remove").click()
        page.get_by_role("dialog").get_by_role("button", name="Remove").click()
        row.wait_for(state="detached")


def test_a_weight_is_tried_out_before_a_queue_is_changed(dashboard: Dashboard) -> None:
    dashboard.sokovan("queue", "set", "lab", "--weight", "2")
    with dashboard.page("/ui/queues") as page:
        page.get_by_role("link", name="lab").click()
        page.get_by_label("Weight").fill("7")
        page.get_by_role("link", name="What would this weight do?").click()
        page.get_by_label("Weight of lab").wait_for()
        assert page.get_by_label("Weight of lab").input_value() == "7"
        assert "--weight lab=7" in text_of(page, ".actions .copy")
        page.get_by_label("Agents to drain").fill("r00n0")
        page.reload()
        page.get_by_label("Weight of lab").wait_for()
        assert page.get_by_label("Agents to drain").input_value() == "r00n0", "the address has every change"
        assert page.get_by_label("Weight of lab").input_value() == "7"
        assert page.get_by_label("Scaling group").locator("option").all_inner_texts()[0] == "default"
        page.get_by_role("button", name="Compare").click()
        page.get_by_role("region", name="difference").wait_for()
        page.go_back()
        page.get_by_role("button", name="Change").wait_for()
        page.evaluate(scripts.GOES, "/ui/queues")
        row = page.locator("tr[data-queue=lab]")
        row.wait_for()
        assert row.locator("td").first.inner_text() == "2", "trying out changes nothing"
    dashboard.sokovan("queue", "rm", "lab", "--yes")


def test_an_address_that_is_not_encoded_well_shows_a_page(dashboard: Dashboard) -> None:
    with dashboard.page("/ui/sessions/%E0%A4%A", allowed=("404",)) as page:
        page.get_by_role("alert").first.wait_for()
        page.get_by_role("link", name="Overview").click()
        page.get_by_role("heading", name="Overview").wait_for()
        page.get_by_role("link", name=re.compile(r"^map of the cluster: \d+ of 512 devices in use$")).click()
        page.get_by_role("grid", name=re.compile("map of")).wait_for()


def test_limits_stand_beside_what_users_hold(dashboard: Dashboard) -> None:
    dashboard.sokovan("quota", "set", "small", "gpu=4")
    dashboard.sokovan("user", "set", "ada", "--domain", "default", "--quota", "small")
    with dashboard.page("/ui/admin?tab=policies") as page:
        row = page.get_by_role("region", name="limits").get_by_role(
            "row", name=re.compile("^user ada small cuda.device")
        )
        row.wait_for()
        assert row.locator("td").all_inner_texts()[-2:] == ["0", "4"]
        assert violations(page, *RULES) == []


def test_devices_are_on_the_timeline_with_the_sessions_that_held_them(dashboard: Dashboard) -> None:
    # Each holds every device: they are beside each other on each lane.
    for name in ("brief", "short"):
        dashboard.sokovan("run", "--name", name, "--size", "64", "--gpus", "8", "--", "sleep", "2")
    with dashboard.page("/ui/timeline?span=15m") as page:
        page.get_by_role("button", name="devices", exact=True).click()
        table = page.get_by_role("table", name="devices over time")
        # Devices of one agent with the same time share a lane, and sessions that are close together a target.
        both = table.get_by_role("button", name=re.compile(r"^\d+ sessions: ")).first
        both.focus()
        page.keyboard.press("Enter")
        link = table.get_by_role("link", name=re.compile("^brief of admin, "))
        assert re.fullmatch(f"brief of admin, {LASTED}", link.inner_text())
        table.get_by_role("link", name=re.compile("^short of admin, ")).wait_for()
        assert violations(page, *RULES) == []
        assert "view=devices" in page.url
        link.click()
        page.get_by_role("heading", name="brief", exact=True).wait_for()


def test_every_kernel_of_a_large_gang_has_its_states_a_log_and_a_terminal(dashboard: Dashboard) -> None:
    dashboard.sokovan("run", "-d", "--name", "large", "--size", "128", "--cpus", "0.1", "--", "sleep", "600")
    dashboard.sokovan("wait", "large", "--until", "running")
    with dashboard.page("/ui/sessions/large?kernel=127") as page:
        page.get_by_role("button", name="Show 112 more kernels").click()
        rows = page.get_by_role("table", name="states over time").get_by_role("row")
        # The session has a lane as well.
        rows.nth(128).wait_for()
        named = [text.split(" r")[0] for text in rows.get_by_role("rowheader").all_inner_texts()[1:]]
        assert [re.sub(r"\D+", "", text) for text in named] == [str(index) for index in range(128)]
        assert rows.get_by_text("running").count() == 129
        assert page.get_by_role("region", name="log").locator("option").count() == 128
        page.get_by_role("heading", name="Terminal").wait_for()
        dashboard.sokovan("stop", "large", "--yes")
        # A session ends after its kernels.
        rows.first.locator(".span:last-child", has_text="terminated").wait_for()
        assert rows.locator(".span:last-child", has_text="terminated").count() == 129


def test_a_page_shows_what_changed_while_its_line_was_down(dashboard: Dashboard) -> None:
    port = int(dashboard.url.rpartition(":")[2])
    fresh = dashboard.context.browser.new_context()
    # Another browser finds the server at the port of the line.
    with Relay.to(port) as line, fresh:
        address = dashboard.address().replace(f":{port}/", f":{line.port}/")
        there = replace(dashboard, url=f"http://127.0.0.1:{line.port}")
        with there.watched(fresh, address, allowed=("ERR_",)) as page:
            page.evaluate(scripts.GOES, "/ui/admin?tab=queues")
            page.get_by_role("button", name="Create").wait_for()
            page.locator(".line", has_text="live").wait_for()
            line.cut()
            again = page.get_by_title("Read again now")
            again.get_by_text("as of").wait_for()
            dashboard.sokovan("queue", "set", "unseen", "--weight", "3")
            line.mend()
            again.click()
            page.get_by_role("row", name=re.compile("^unseen")).wait_for()
            page.locator(".line", has_text="live").wait_for()
            # Nothing tells of a queue that nobody uses.
            dashboard.sokovan("queue", "set", "untold", "--weight", "3")
            page.get_by_role("row", name=re.compile("^untold")).wait_for()
            dashboard.sokovan("run", "-d", "--name", "after-all", "--cpus", "0.1", "--", "sleep", "600")
            page.evaluate(scripts.GOES, "/ui/history?name=after-all")
            page.get_by_text("No session that ended matches").wait_for()
            dashboard.sokovan("stop", "after-all", "--yes")
            page.get_by_role("row", name=re.compile("after-all")).wait_for()


def test_the_audit_log_says_whether_an_entry_was_changed(dashboard: Dashboard) -> None:
    dashboard.sokovan("queue", "set", "noted", "--weight", "2")
    with dashboard.page("/ui/history") as page:
        page.get_by_role("button", name="audit log", exact=True).click()
        page.get_by_text("no entry was changed, removed or added").wait_for()
        page.get_by_role("region", name="Audit log").get_by_role("row").nth(1).wait_for()
        page.get_by_role("row", name=re.compile("queue.* noted ")).first.wait_for()


def test_a_page_is_read_when_it_is_opened_and_says_so_if_its_files_are_gone(dashboard: Dashboard) -> None:
    files = re.compile("/ui/assets/queues-")
    with dashboard.page("/ui/", allowed=("ERR_FAILED",)) as page:
        page.get_by_role("heading", name="Overview").wait_for()
        page.route(files, lambda route: route.abort())
        page.get_by_role("link", name="Queues").click()
        page.get_by_text("the files of this page cannot be read").wait_for()
        page.unroute(files)
        page.get_by_role("button", name="Try again").click()
        page.get_by_role("heading", name="Queues").wait_for()


def test_a_page_whose_files_come_before_anyone_waits_for_them_is_shown(dashboard: Dashboard) -> None:
    with dashboard.page("/ui/queues") as page:
        page.get_by_role("heading", name="Queues").wait_for()
        waiting: list[Any] = []
        files = re.compile("/ui/assets/queues-")
        page.add_init_script(scripts.HOLDS_FRAMES)
        page.route(files, lambda route: waiting.append(route))  # noqa: PLW0108  # a built-in method is no handler
        page.goto(f"{dashboard.url}/ui/queues", wait_until="commit")
        page.locator("main .skeleton").wait_for(state="attached")
        # The page is drawn without its files, and nothing after that has run: now they come.
        for route in waiting:
            route.continue_()
        page.evaluate("(file) => import(file).then(() => undefined)", waiting[0].request.url)
        page.evaluate("() => letGoOn()")
        page.get_by_role("heading", name="Queues").wait_for()


def test_a_long_list_is_sorted_by_the_server_and_the_overview_has_lines(dashboard: Dashboard) -> None:
    for name, gpus in (("far-c", "1"), ("far-a", "3"), ("far-b", "2")):
        dashboard.sokovan("run", "-d", "--name", name, "--gpus", gpus, "--", "sleep", "600")
    with dashboard.page("/ui/sessions") as page:
        page.add_init_script(scripts.HOLDS_NOTHING)
        page.goto(f"{dashboard.url}/ui/sessions?q=far-&sort=name")
        page.get_by_role("row", name=re.compile("far-a")).wait_for()
        assert names_of(page) == ["far-a", "far-b", "far-c"]
        page.get_by_role("columnheader", name="GPU").get_by_role("button").click()
        page.locator("[aria-sort=descending]", has_text="GPU").wait_for()
        page.get_by_role("row", name=re.compile("far-a")).wait_for()
        assert names_of(page) == ["far-a", "far-b", "far-c"]
        assert "sokovan ps --all --no-limit --sort -gpus --search far-" in text_of(page, ".bar .copy")
    with dashboard.page() as page:
        for line in ("GPUs requested by sessions that waited", "agents that took kernels"):
            page.get_by_role("img", name=re.compile(f"^{line} over 24 h: ")).wait_for()
    dashboard.sokovan("stop", "far-a", "far-b", "far-c", "--yes")


def test_an_impossible_request_says_why(dashboard: Dashboard) -> None:
    with dashboard.page("/ui/new") as page:
        page.get_by_label("Command").fill("true")
        page.get_by_label("GPU of each").fill("9")
        page.locator(".badge.never").wait_for()
        assert "can never start" in text_of(page, ".badge")
        page.get_by_label("Memory of each").fill("1.")
        page.get_by_text("Memory of each is no amount yet").wait_for()


def test_a_session_is_written_as_yaml_and_shown_as_a_form_again(dashboard: Dashboard) -> None:
    with dashboard.page("/ui/new") as page:
        page.get_by_label("Command").fill("sleep 600")
        page.get_by_label("GPU of each").fill("2")
        page.get_by_role("button", name="YAML").click()
        text = page.get_by_label("Request")
        assert text.input_value().startswith('command: [sleep, "600"]')
        text.fill("command: [sleep\n")
        page.get_by_text("line 1 has a bracket that is not closed").wait_for()
        assert page.get_by_role("button", name="form").is_disabled()
        text.fill("name: typed\ncommand: [sleep, 600]\nlabels: {team: a}\nresources: {cuda.device: 2}\n")
        page.get_by_text("would start now").wait_for()
        assert violations(page, *RULES) == []
        page.get_by_role("button", name="form").click()
        assert page.get_by_label("GPU of each").input_value() == "2"
        page.get_by_text("as YAML it also says: labels, resources").wait_for()
        page.get_by_role("button", name="Submit").click()
        page.get_by_role("heading", name="typed").wait_for()
    assert '"team": "a"' in dashboard.sokovan("session", "show", "typed", "--json")
    dashboard.sokovan("wait", "typed", "--until", "running")
    for path in ("/ui/sessions/typed", f"/ui/cluster?agent={agent_of(dashboard, 'typed')}"):
        with dashboard.page(path) as page:
            page.get_by_role("img", name=re.compile(r"^Use of devices: \d+ % now, .* of 100 %$")).wait_for()
            page.get_by_role("img", name=re.compile("^Memory of devices: .* now, ")).wait_for()
    with dashboard.page("/ui/") as page:
        page.get_by_role("img", name=re.compile(r"^running over 24 h: [\d.]+ lately")).wait_for()
        page.get_by_role("img", name=re.compile(r"^waiting over 24 h: ")).wait_for()
    dashboard.sokovan("stop", "typed", "--yes")


def agent_of(dashboard: Dashboard, session: str) -> str:
    """The agent of the first kernel of a session."""
    [kernel, *_] = json.loads(dashboard.sokovan("session", "show", session, "--json"))["kernels"]
    return str(kernel["agent"])


def test_the_names_of_all_pages_are_in_view_on_wide_screens(dashboard: Dashboard) -> None:
    with dashboard.page() as page:
        page.locator(".who", has_text="admin").wait_for()
        for width in (1440, 1280, 800):
            page.set_viewport_size({"width": width, "height": 900})
            nav = page.get_by_role("navigation", name="pages")
            assert nav.evaluate("(nav) => nav.scrollWidth <= nav.clientWidth"), width
            last = nav.get_by_role("link", name="Administration").bounding_box()
            assert last["x"] + last["width"] <= width


@pytest.mark.parametrize("script", ["", scripts.NO_SHARED_WORKERS], ids=["shared worker", "lock"])
def test_more_tabs_than_a_browser_has_connections_show_what_happens(dashboard: Dashboard, script: str) -> None:
    fresh = dashboard.context.browser.new_context()
    with ExitStack() as tabs, fresh:
        fresh.add_init_script(script)
        # Each has a stack of its own, so that the first can be closed.
        first = tabs.enter_context(ExitStack())
        pages = [first.enter_context(dashboard.watched(fresh, dashboard.address()))]
        pages[0].locator(".line", has_text="live").wait_for()
        pages += [tabs.enter_context(dashboard.watched(fresh, f"{dashboard.url}/ui/sessions?q=tab-")) for _ in range(7)]
        for page in pages:
            page.locator(".line", has_text="live").wait_for()
        name = f"tab-{len(script)}"
        # What had the stream is closed, and another tab goes on.
        first.close()
        dashboard.sokovan("run", "-d", "--name", name, "--cpus", "0.1", "--", "sleep", "600")
        for page in pages[1:]:
            page.get_by_role("row", name=re.compile(f"running {name}")).wait_for()
        dashboard.sokovan("stop", name, "--yes")


def test_a_filter_finds_sessions_that_the_browser_does_not_hold(dashboard: Dashboard) -> None:
    dashboard.sokovan("run", "-d", "--name", "far-away", "--cpus", "0.1", "--", "sleep", "600")
    with dashboard.page("/ui/sessions") as page:
        page.add_init_script(scripts.HOLDS_NOTHING)
        page.goto(f"{dashboard.url}/ui/sessions")
        page.get_by_text("A filter by name, id, user, queue or reason finds them too").wait_for()
        assert page.get_by_role("row", name=re.compile("far-away")).count() == 0
        page.get_by_label("filter sessions").fill("FAR away")
        page.get_by_role("row", name=re.compile("far-away")).wait_for()
        assert "sokovan ps --all --no-limit --search 'FAR away'" in text_of(page, ".bar .copy")
        page.get_by_label("filter sessions").fill("far-beyond")
        page.get_by_text("No session matches the filter.").wait_for()
    dashboard.sokovan("stop", "far-away")


def test_many_sessions_are_few_nodes_of_the_document(dashboard: Dashboard) -> None:
    dashboard.sokovan("run", "-d", "--name", "many", "--array", "0-399", "--cpus", "0.1", "--", "sleep", "600")
    with dashboard.page("/ui/sessions") as page:
        page.get_by_role("row", name=re.compile("many")).first.wait_for()
        page.get_by_role("button", name=re.compile(r"^all 4\d\d")).wait_for()
        assert page.evaluate(scripts.NODES) < 500
        (older := page.get_by_text("older ones follow when you reach the end of the list")).wait_for()
        body = page.locator(".grid-body")
        first = body.get_by_role("row").first.get_attribute("aria-rowindex")
        body.evaluate("(body) => { body.scrollTop = 3_200; }")
        page.locator(f".grid-body .grid-row[aria-rowindex='{first}']").wait_for(state="detached")
        assert page.evaluate(scripts.NODES) < 500
        body.evaluate("(body) => { body.scrollTop = body.scrollHeight; }")
        older.wait_for(state="detached")
        page.keyboard.type("jjjjj")
        page.locator(".grid-row.active").wait_for()
    dashboard.sokovan("stop", "many", "--yes")
